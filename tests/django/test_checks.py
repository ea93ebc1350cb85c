"""What `manage.py check` says about `TASKS`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tenure.stores.postgres.address import Address
from tenure.stores.sqlite.store import _parsed

from .conftest import Site

PROGRAM = """
import json, sys
from importlib.util import find_spec
from django.conf import settings

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1], "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
settings.configure(
    DATABASES={"default": SQLITE}, SECRET_KEY="x",
    INSTALLED_APPS=["tenure.django", *([] if find_spec("django.tasks") else ["django_tasks"])],
)
import django
django.setup()
from django.core import checks
from django.db import connections
from django.test import override_settings

import tenure.stores

said = {}
for name, (change, backend) in json.loads(sys.argv[2]).items():
    tasks = {"default": {"BACKEND": "tenure.django.TenureBackend", **backend}}
    with override_settings(TASKS=tasks):
        connections["default"].settings_dict.update({**SQLITE, "ATOMIC_REQUESTS": False, **change})
        if name == "driver":
            tenure.stores.find_spec = lambda _: None  # as if it were not installed
        said[name] = [f"{each.id} {each.msg}" for each in checks.run_checks() if str(each.id).startswith("tenure")]
print(json.dumps(said))
"""


def said_of(tmp_path: Path, **scenes: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, list[str]]:
    """The messages of each scene: settings of the database that differ, and of the backend. One process for all."""
    site = Site(tmp_path, "", {})
    answer: dict[str, list[str]] = json.loads(site.run("-c", PROGRAM, str(tmp_path / "site.db"), json.dumps(scenes)))
    return answer


def test_each_mistake_is_found(tmp_path: Path) -> None:
    here = f"sqlite:///{tmp_path}/site.db"
    said = said_of(
        tmp_path,
        fine=({}, {}),
        library=({}, {"OPTIONS": {"URL": here}}),
        same_library=({}, {"OPTIONS": {"URL": f"{here}?library=sqlite3"}}),
        another_file=({}, {"OPTIONS": {"URL": f"sqlite:///{tmp_path}/other.db"}}),
        queue=({}, {"QUEUES": ["_hidden", "mail"]}),
        alias=({}, {"OPTIONS": {"DATABASE": "jobs"}}),
        option=({}, {"OPTIONS": {"APP": {"leese": 3}}}),
        value=({}, {"OPTIONS": {"APP": {"lease": -3}}}),
        url=({}, {"OPTIONS": {"URL": "mysql://localhost/shop"}}),
        parameter=({}, {"OPTIONS": {"URL": "redis://localhost?poled=yes"}}),
        requests=({"ATOMIC_REQUESTS": True}, {"OPTIONS": {"URL": "redis://localhost"}}),
        joined_requests=({"ATOMIC_REQUESTS": True}, {}),
        deferred=({"OPTIONS": {}}, {}),
        memory=({"NAME": ":memory:"}, {}),
        driver=({}, {"OPTIONS": {"URL": "postgresql://localhost/shop"}}),
    )

    first = {name: [each.split()[0] for each in messages] for name, messages in said.items()}
    assert first == {
        "fine": [],
        "library": ["tenure.E001"],
        "same_library": [],
        "another_file": [],
        "queue": ["tenure.E003"],
        "alias": ["tenure.E004"],
        "option": ["tenure.E005"],
        "value": ["tenure.E005"],
        "url": ["tenure.E005"],
        "parameter": ["tenure.E005"],
        "requests": ["tenure.W001"],
        "joined_requests": [],
        "deferred": ["tenure.W002"],
        "memory": ["tenure.I001"],
        "driver": ["tenure.E002"],
    }
    assert "'_hidden'" in said["queue"][0]
    assert "no database 'jobs'" in said["alias"][0]
    assert "did you mean 'lease'?" in said["option"][0]
    assert "'mysql://localhost/shop' names no store" in said["url"][0]
    assert not (tmp_path / "site.db").exists()  # none of them has connected


def test_a_project_without_the_app_of_tenure_is_told(tmp_path: Path) -> None:
    program = PROGRAM.replace('"tenure.django", *', "*")
    program = program.replace("django.setup()", "import tenure.django.framework\ndjango.setup()")  # as its tasks would
    [message] = json.loads(Site(tmp_path, "", {}).run("-c", program, str(tmp_path / "site.db"), '{"apps": [{}, {}]}'))[
        "apps"
    ]

    assert message.startswith("tenure.W003 TASKS['default']: \"tenure.django\" is not in INSTALLED_APPS")


SETTINGS = """
import sys
from importlib.util import find_spec
from django.conf import settings

settings.configure(DATABASES={}, SECRET_KEY="x", TASKS={"default": {"BACKEND": "tenure.django.TenureBackend", "OPTIONS": eval(sys.argv[1])}})
import django
django.setup()
from tests.django.project.framework import task_backends
try:
    task_backends["default"]
except Exception as error:
    print(type(error).__mro__[-4].__name__, error)
"""


def test_wrong_options_are_refused_with_a_sentence(tmp_path: Path) -> None:
    site = Site(tmp_path, "", {})

    assert "there is no option 'DATABSE': the options are DATABASE, URL" in site.run("-c", SETTINGS, "{'DATABSE': 'x'}")
    assert "needs the jobs in a database" in site.run("-c", SETTINGS, "{'URL': 'redis://', 'ON_COMMIT': 'join'}")


def test_an_old_django_without_the_package_says_what_to_install(tmp_path: Path) -> None:
    site = Site(tmp_path, "", {})
    hide = "import sys; sys.modules.update({'django.tasks': None, 'django_tasks': None, 'django_tasks.checks': None})"

    said = site.run("-c", f"{hide}\ntry:\n import tenure.django\nexcept ImportError as error: print(error)")

    assert said.startswith("tenure.django needs Django 6, or Django 5.2 and the package django-tasks")


ADDRESSES = """
import json, sys
from django.conf import settings

settings.configure(DATABASES=json.loads(sys.argv[1]), SECRET_KEY="x")
import django
django.setup()
from tenure.django.address import url_of_database
print(json.dumps({alias: url_of_database(alias) for alias in settings.DATABASES}))
"""


def test_a_database_of_django_has_a_url(tmp_path: Path) -> None:
    postgres = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}
    sqlite = {"ENGINE": "django.db.backends.sqlite3"}
    databases = {
        "default": {
            **postgres,
            "USER": "ann@corp",
            "PASSWORD": "p@ss/w#rd?:",
            "HOST": "db.example.org",
            "PORT": "5433",
        },
        "bare": postgres,
        "socket": {**postgres, "HOST": "/run/postgres", "USER": "ann"},
        "ipv6": {**postgres, "HOST": "::1", "OPTIONS": {"sslmode": "require", "pool": False}},
        "file": {**sqlite, "NAME": f"{tmp_path}/my shop#1.db"},
        "memory": {**sqlite, "NAME": ":memory:"},
    }

    urls = json.loads(Site(tmp_path, "", {}).run("-c", ADDRESSES, json.dumps(databases)))

    assert urls == {
        "default": "postgresql://ann%40corp:p%40ss%2Fw%23rd%3F%3A@db.example.org:5433/shop",
        "bare": "postgresql:///shop",
        "socket": "postgresql://ann@/shop?host=%2Frun%2Fpostgres",
        "ipv6": "postgresql://[::1]/shop?sslmode=require",
        "file": f"sqlite:///{tmp_path}/my%20shop%231.db?library=sqlite3",
        "memory": "memory://django-memory",
    }
    for alias in ("default", "bare", "socket", "ipv6"):
        Address.from_url(urls[alias])
    assert _parsed(urls["file"])[0] == f"{tmp_path}/my shop#1.db"
