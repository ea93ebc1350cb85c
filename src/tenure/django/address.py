"""`store_url`: the URL of the store that the OPTIONS of a backend name, or that its Django database holds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

__all__ = ["VENDORS", "database_of", "is_in_memory", "store_url", "url_of_database"]

VENDORS = ("sqlite", "postgresql")
"""Django's names of the databases that can hold a store."""

_PASSED_ON = (
    "connect_timeout", "passfile", "service", "servicefile", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl",
    "sslpassword", "target_session_attrs",
)  # fmt: skip
"""Options of Django's PostgreSQL databases that the store's driver has too."""


def database_of(options: Mapping[str, Any]) -> str | None:
    """The alias of the Django database that holds the store; None if OPTIONS has a URL."""
    return None if options.get("URL") else str(options.get("DATABASE") or DEFAULT_DB_ALIAS)


def store_url(options: Mapping[str, Any]) -> str:
    """The URL of the store now: test runners change the names of databases. `ImproperlyConfigured` if there is none."""
    alias = database_of(options)
    return str(options["URL"]) if alias is None else url_of_database(alias)


def is_in_memory(alias: str) -> bool:
    """Whether this database is in the memory of the process, as test databases of SQLite are."""
    connection = connections[alias]
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def url_of_database(alias: str) -> str:
    """The URL of a store in this database of Django."""
    if alias not in connections.settings:
        raise ImproperlyConfigured(f"TASKS: there is no database {alias!r} in DATABASES")
    connection = connections[alias]
    if connection.vendor not in VENDORS:
        raise ImproperlyConfigured(
            f"TASKS: database {alias!r} is of {connection.vendor}, and jobs can be in PostgreSQL or SQLite: "
            'name another with OPTIONS["DATABASE"], or a store with OPTIONS["URL"]'
        )
    if connection.vendor == "postgresql":
        return _postgres(connection.settings_dict)
    if is_in_memory(alias):
        return f"memory://django-{alias}"
    name = os.fspath(connection.settings_dict["NAME"])
    path = urlsplit(name).path if name.startswith("file:") else name
    # Django has the file open through Python's sqlite3, and two libraries in one process lose data.
    return f"sqlite:///{quote(os.path.abspath(path))}?library=sqlite3"


def _postgres(settings: Mapping[str, Any]) -> str:
    host, port = str(settings["HOST"] or ""), str(settings["PORT"] or "")
    query = {name: settings["OPTIONS"][name] for name in _PASSED_ON if name in settings["OPTIONS"]}
    if host.startswith("/"):
        query |= {"host": host, "port": port} if port else {"host": host}
        host = port = ""
    credentials = quote(str(settings["USER"] or ""), safe="")
    if settings["PASSWORD"]:
        credentials += f":{quote(str(settings['PASSWORD']), safe='')}"
    address = f"[{host}]" if ":" in host else host
    return (
        f"postgresql://{credentials}{'@' if credentials else ''}{address}{f':{port}' if port else ''}"
        f"/{quote(str(settings['NAME'] or ''), safe='')}{f'?{urlencode(query)}' if query else ''}"
    )
