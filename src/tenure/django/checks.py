"""`messages_of`: what `manage.py check` says about the settings of a `TenureBackend`. Connects to nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from django.apps import apps
from django.core.checks import CheckMessage, Error, Info
from django.core.checks import Warning as Caution
from django.db import DEFAULT_DB_ALIAS, connections

from tenure.app import App
from tenure.core.checks import name as checked_name
from tenure.django.address import VENDORS, is_in_memory, store_url
from tenure.errors import InvalidName, MissingExtra, TenureError
from tenure.stores import missing_extra, open_store
from tenure.stores.callers.sqlite import same_file

if TYPE_CHECKING:
    from tenure.django.backend import TenureBackend

__all__ = ["messages_of"]


def messages_of(backend: TenureBackend) -> list[CheckMessage]:
    """Errors, warnings and hints, each with what to do."""
    where = f"TASKS[{backend.alias!r}]"
    found = [*_installed(where), *_database(backend, where)]
    if not any(each.id == "tenure.E004" for each in found):
        found += [*_store(backend, where), *_app(backend, where)]
    return [*found, *_queues(backend, where), *_transactions(backend, where)]


def _installed(where: str) -> Iterator[CheckMessage]:
    if not apps.is_installed("tenure.django"):
        yield Caution(
            f'{where}: "tenure.django" is not in INSTALLED_APPS, so migrate makes no tables for jobs, and there is no '
            "manage.py tenure.",
            hint='Add "tenure.django" to INSTALLED_APPS.',
            id="tenure.W003",
        )


def _database(backend: TenureBackend, where: str) -> Iterator[CheckMessage]:
    alias = backend.database
    if alias is None:
        return
    if alias not in connections.settings:
        known = ", ".join(connections.settings)
        yield Error(
            f"{where}: there is no database {alias!r} in DATABASES.", hint=f"There are {known}.", id="tenure.E004"
        )
    elif (vendor := connections[alias].vendor) not in VENDORS:
        yield Error(
            f"{where}: database {alias!r} is of {vendor}, which cannot hold jobs.",
            hint='Name one of PostgreSQL or SQLite with OPTIONS["DATABASE"], or another store with OPTIONS["URL"].',
            id="tenure.E004",
        )


def _store(backend: TenureBackend, where: str) -> Iterator[CheckMessage]:
    url = store_url(backend.options)
    if (missing := missing_extra(url)) is not None:
        yield Error(f"{where}: {missing}", id="tenure.E002")  # it says what to install
    if backend.database is None and url.startswith("sqlite:") and "library=sqlite3" not in url:
        path = unquote(urlsplit(url).path)[1:]
        alias = next((alias for alias in connections.settings if _is_file(alias, path)), None)
        if alias is not None:
            yield Error(
                f"{where}: the jobs are in the file of database {alias!r}, through another SQLite library than Django's. "
                "Two libraries on one file lose data.",
                hint=f'Write OPTIONS["DATABASE"] = {alias!r} in place of the URL.',
                id="tenure.E001",
            )
    if backend.database is None:
        return
    connection = connections[backend.database]
    if is_in_memory(backend.database):
        yield Info(
            f"{where}: database {backend.database!r} is in memory, so jobs are in memory too, and exist at once, "
            "whether or not the transaction commits.",
            hint=f'For transactions, give the test database a file: DATABASES[{backend.database!r}]["TEST"]["NAME"].',
            id="tenure.I001",
        )
    elif connection.vendor == "sqlite" and connection.settings_dict["OPTIONS"].get("transaction_mode") != "IMMEDIATE":
        yield Caution(
            f"{where}: transactions of database {backend.database!r} begin without the write lock, so one that reads "
            "first and enqueues then fails with “database is locked” when another has written meanwhile.",
            hint=f'DATABASES[{backend.database!r}]["OPTIONS"] = {{"transaction_mode": "IMMEDIATE"}}',
            id="tenure.W002",
        )


def _app(backend: TenureBackend, where: str) -> Iterator[CheckMessage]:
    try:
        App(**backend.app_options)
    except (TypeError, ValueError, TenureError) as error:
        yield Error(f"{where}: {error}", hint='Change OPTIONS["APP"].', id="tenure.E005")
    try:
        open_store(store_url(backend.options))
    except MissingExtra:
        pass  # tenure.E002
    except (ValueError, TenureError) as error:
        yield Error(f"{where}: {error}", hint='Change OPTIONS["URL"].', id="tenure.E005")


def _is_file(alias: str, path: str) -> bool:
    connection = connections[alias]
    if connection.vendor != "sqlite" or is_in_memory(alias):
        return False
    name = os.fspath(connection.settings_dict["NAME"])
    return same_file(name, path) or os.path.abspath(name) == os.path.abspath(path)


def _queues(backend: TenureBackend, where: str) -> Iterator[CheckMessage]:
    for queue in sorted(map(str, backend.queues)):
        try:
            checked_name("queue", queue)
        except InvalidName as error:
            yield Error(f"{where}: {error}", hint="Change it in QUEUES.", id="tenure.E003")


def _transactions(backend: TenureBackend, where: str) -> Iterator[CheckMessage]:
    default = connections.settings.get(DEFAULT_DB_ALIAS, {})
    if default.get("ATOMIC_REQUESTS") and backend.database != DEFAULT_DB_ALIAS and backend.on_commit == "after":
        yield Caution(
            f"{where}: every request is a transaction (ATOMIC_REQUESTS) and the jobs are elsewhere: they are stored after "
            "the commit, and a process that dies between the two loses them.",
            hint="Put the jobs into the database, without URL and DATABASE: then they commit with the request.",
            id="tenure.W001",
        )
