"""Settings of the project. DJANGO_TEST_DATABASE: a path or a PostgreSQL URL; DJANGO_TEST_OPTIONS: those of the backend, as JSON."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

FRAMEWORK = [] if find_spec("django.tasks") else ["django_tasks"]

DATABASE = os.environ["DJANGO_TEST_DATABASE"]
parts = urlsplit(DATABASE)
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }
    if parts.scheme
    else {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATABASE,
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
        "TEST": {"NAME": os.environ.get("DJANGO_TEST_NAME")},
    }
}
if "DJANGO_TEST_JOBS" in os.environ:
    DATABASES["jobs"] = {**DATABASES["default"], "NAME": os.environ["DJANGO_TEST_JOBS"]}
INSTALLED_APPS = ["django.contrib.contenttypes", *FRAMEWORK, "tenure.django", "tests.django.project.shop"]
OPTIONS: dict[str, Any] = json.loads(os.environ.get("DJANGO_TEST_OPTIONS", "{}"))
TENURE = {"BACKEND": "tenure.django.TenureBackend", "QUEUES": ["default", "mail"]}
TASKS: dict[str, dict[str, Any]] = {
    "default": {**TENURE, "OPTIONS": OPTIONS},
    "after": {**TENURE, "OPTIONS": {**OPTIONS, "ON_COMMIT": "after"}},
    "now": {**TENURE, "OPTIONS": {**OPTIONS, "ON_COMMIT": "now"}},
}
USE_TZ = True
SECRET_KEY = "for tests"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
