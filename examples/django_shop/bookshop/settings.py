from importlib.util import find_spec
from pathlib import Path

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).parents[1] / "bookshop.db",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }
}
INSTALLED_APPS = ["tenure.django", "bookshop"]
TASKS = {
    "default": {
        "BACKEND": "tenure.django.TenureBackend",
        "QUEUES": ["default", "mail"],
    }
}

if not find_spec("django.tasks"):  # before Django 6
    INSTALLED_APPS.append("django_tasks")
SECRET_KEY = "an example"
ROOT_URLCONF = "bookshop.urls"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
