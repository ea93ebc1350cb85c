"""`DjangoCaller`: connections of Django, to PostgreSQL or SQLite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tenure.errors import InvalidOption
from tenure.stores.callers.connection import AnotherDatabase, CallerConnection, PostgresWork, Work
from tenure.stores.callers.postgres import explain_missing_function, postgres_work
from tenure.stores.callers.sqlite import Sqlite3Adapter, run_on_sqlite, sqlite_work

__all__ = ["DjangoCaller"]

T = TypeVar("T")


class DjangoCaller(CallerConnection):
    """`django.db.connection`, or one of `django.db.connections`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, work: Work[T]) -> T:
        if self._connection.vendor not in {"postgresql", "sqlite"}:
            raise AnotherDatabase(
                f"connection= must be to the store's own database: this one is to {self._connection.vendor}"
            )
        if self._connection.get_autocommit():
            raise InvalidOption(
                "connection= commits each statement by itself: use it inside `with transaction.atomic():`"
            )
        if self._connection.vendor == "postgresql":
            return self._run_on_postgres(postgres_work(work, "Django"))
        self._connection.validate_no_broken_transaction()
        driver = self._connection.connection
        with self._connection.wrap_database_errors:
            return run_on_sqlite(sqlite_work(work, "Django"), _DjangoAdapter(driver, self._connection), driver)

    def _run_on_postgres(self, query: PostgresWork[T]) -> T:
        with explain_missing_function(query.statement), self._connection.cursor() as cursor:
            cursor.execute(query.statement.format("%s"), [query.value])
            [value] = cursor.fetchone()
        return query.read(value)


class _DjangoAdapter(Sqlite3Adapter):
    """Django's connection to SQLite, which reports commits."""

    def __init__(self, driver: Any, connection: Any) -> None:
        super().__init__(driver)
        self._django = connection

    def after_commit(self, action: Callable[[], None], /) -> None:
        if self._django.in_atomic_block:
            self._django.on_commit(action)
