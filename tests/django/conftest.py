"""A Django project on a database and a store of each kind, and its `manage.py`."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import App

ROOT = Path(__file__).parents[2]
MANAGE = ROOT / "tests" / "django" / "project" / "manage.py"
PATIENCE = 50


class Site:
    """The project, with its settings in the environment of every process that is started here."""

    def __init__(self, folder: Path, database: str, options: Mapping[str, Any], **more: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "DJANGO_SETTINGS_MODULE": "tests.django.project.settings",
            "DJANGO_TEST_DATABASE": database,
            "DJANGO_TEST_OPTIONS": json.dumps(options),
            **more,
        }
        for name in ("TENURE_URL", "TENURE_APP"):
            self.environment.pop(name, None)

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments], env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            **{"cwd": ROOT, **more},
        )  # fmt: skip

    def worker(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        return self.start(str(MANAGE), "tenure", "work", *arguments, **more)

    def app(self) -> App:
        """An app of this process, which has no Django, on the store of the project."""
        database = self.environment["DJANGO_TEST_DATABASE"]
        return App(database if "://" in database else f"sqlite:///{database}")

    def run(self, *arguments: str, status: int = 0) -> str:
        """What a program of the project prints."""
        with self.start(*arguments) as process:
            try:
                said, _ = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        assert process.returncode == status, said
        return said

    def manage(self, *arguments: str, status: int = 0) -> str:
        return self.run(str(MANAGE), *arguments, status=status)


@contextmanager
def new_database(server_url: str) -> Iterator[str]:
    """The URL of a PostgreSQL database of its own."""
    name = f"django_{secrets.token_hex(6)}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        yield f"{server_url.rpartition('/')[0]}/{name}"
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


LONG = ("memory", "redis", "another database")
"""Stores that only the long tests use: a process for each takes two seconds, and the code is the same for all."""


@pytest.fixture(params=["sqlite", "postgres", *(pytest.param(kind, marks=pytest.mark.long) for kind in LONG)])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """The project on each store."""
    database = str(tmp_path / "site.db")
    match request.param:
        case "postgres":
            with new_database(request.getfixturevalue("postgres_server_url")) as url:
                yield Site(tmp_path, url, {})
        case "sqlite":
            yield Site(tmp_path, database, {})
        case "memory":
            yield Site(tmp_path, database, {"URL": "memory://contract"})
        case "another database":
            yield Site(tmp_path, database, {"DATABASE": "jobs"}, DJANGO_TEST_JOBS=str(tmp_path / "jobs.db"))
        case _:
            yield Site(tmp_path, database, {"URL": request.getfixturevalue("redis_url")})
