# dashboard_django.py
import asyncio
import sys
from importlib import import_module
from typing import Any

from tenure import App

try:
    import django
    from django.conf import settings

    from tenure.web import Identity, dashboard
except ImportError as error:
    sys.exit(f"this example needs {error.name}: pip install django 'tenure[web]'")

# A project has these in its settings.py.
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "project.db"}},
    SECRET_KEY="an example",
    ROOT_URLCONF="django.conf.urls",
)
django.setup()

from django.contrib.auth import aget_user  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.http import HttpRequest  # noqa: E402


async def current_staff(request: Any) -> Identity | None:
    """The user of Django's session: staff may look, superusers may act, others may not see it."""
    asked = HttpRequest()
    key = request.cookies.get(settings.SESSION_COOKIE_NAME)
    asked.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = await aget_user(asked)
    if not (user.is_active and user.is_staff):
        return None
    return Identity(user.get_username(), "operate" if user.is_superuser else "read")


# The rest of asgi.py: what is below /jobs goes to the dashboard, everything else to Django.
jobs = dashboard(App("sqlite:///jobs.db"), auth=current_staff, title="shop")
site = get_asgi_application()


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and f"{scope['path']}/".startswith("/jobs/"):
        await jobs({**scope, "root_path": "/jobs"}, receive, send)
    else:
        await site(scope, receive, send)


# From here on it is only a check, without a server: what do ann, who is staff, and a stranger get?


async def status(path: str, cookie: str) -> int:
    answers: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, Any]) -> None:
        answers.append(message)

    scope = {"type": "http", "method": "GET", "scheme": "http", "path": path, "query_string": b"", "root_path": ""}
    await application({**scope, "headers": [(b"cookie", cookie.encode())]}, receive, send)
    return int(answers[0]["status"])


def log_in(name: str) -> str:
    """The cookie that Django gives this user."""
    from django.contrib.auth import get_user_model, login
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    user = get_user_model().objects.create_user(name, is_staff=True)
    asked = HttpRequest()
    asked.session = import_module(settings.SESSION_ENGINE).SessionStore()
    login(asked, user)
    asked.session.save()
    return f"{settings.SESSION_COOKIE_NAME}={asked.session.session_key}"


async def main(cookie: str) -> None:
    print("ann:", await status("/jobs/", cookie))
    print("a stranger:", await status("/jobs/", ""))
    await jobs.aclose()


if __name__ == "__main__":
    asyncio.run(main(log_in("ann")))
