"""`make_tables` after `migrate`, and closing apps before Django drops or copies their databases."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import shutil
from typing import Any

from django.db.backends.base.creation import BaseDatabaseCreation

from tenure.django.address import database_of, url_of_database
from tenure.django.backend import tenure_backends
from tenure.django.registry import registry
from tenure.stores import open_store
from tenure.sync import run

__all__ = ["let_go_of_test_databases", "make_tables"]

_made: set[str] = set()
"""URLs of the databases whose tables this process has made: TransactionTestCase sends `post_migrate` after every test."""


def make_tables(alias: str) -> bool:
    """Create the tables of the store in this database, or bring them up to date. False if there was nothing to do.

    Nothing, if no backend has its jobs there, or if this process has done it before.
    """
    if not any(database_of(backend.options) == alias for backend in tenure_backends()):
        return False
    url = url_of_database(alias)
    if url in _made or url.startswith("memory:"):
        return False
    run(_migrate(url))
    _made.add(url)
    return True


async def _migrate(url: str) -> None:
    # Not the app's store: PostgreSQL copies a test database only while there is no connection to it.
    store = open_store(url)
    try:
        await store.migrate()
    finally:
        await store.close()


def let_go_of(alias: str) -> None:
    """Close the app of the store in this database."""
    if any(database_of(backend.options) == alias for backend in tenure_backends()):
        url = url_of_database(alias)
        registry.close(url)
        _made.discard(url)


def let_go_of_test_databases() -> None:
    """Let go of a database before Django drops or copies it: of the class, because each thread has its own connections."""
    creation = BaseDatabaseCreation
    if hasattr(creation.destroy_test_db, "tenure"):
        return
    destroy, clone = creation.destroy_test_db, creation.clone_test_db

    @functools.wraps(destroy)
    def destroy_test_db(self: Any, *args: Any, **kwargs: Any) -> None:
        # PostgreSQL does not drop a database that has connections.
        let_go_of(self.connection.alias)
        path = _test_file(self, inspect.signature(destroy).bind(self, *args, **kwargs).arguments.get("suffix"))
        destroy(self, *args, **kwargs)
        if path is not None and not os.path.exists(path):
            _remove_what_is_beside(path)

    @functools.wraps(clone)
    def clone_test_db(self: Any, *args: Any, **kwargs: Any) -> None:
        # Nor does it copy one.
        let_go_of(self.connection.alias)
        given = inspect.signature(clone).bind(self, *args, **kwargs).arguments
        path = _test_file(self, given.get("suffix"))
        if path is not None:
            if not given.get("keepdb"):
                _remove_what_is_beside(path)
            with self.connection.cursor() as cursor:
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # Django copies the file without its log
        clone(self, *args, **kwargs)

    destroy_test_db.tenure = True  # type: ignore[attr-defined]
    creation.destroy_test_db, creation.clone_test_db = destroy_test_db, clone_test_db


def _test_file(creation: Any, suffix: str | None) -> str | None:
    """The file of a test database, or of its copy with this suffix; None if it is not in a file."""
    connection = creation.connection
    if connection.vendor != "sqlite" or connection.is_in_memory_db():
        return None
    settings = connection.settings_dict if suffix is None else creation.get_test_db_clone_settings(suffix)
    return str(settings["NAME"])


def _remove_what_is_beside(path: str) -> None:
    """Remove the log of a SQLite file that is gone, which the next file of that name would read, and its doorbells.

    Of a process that was killed they are left, and Django removes only the file.
    """
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path + suffix)
    shutil.rmtree(path + "-bells", ignore_errors=True)
