"""`AlchemyCaller` and `AsyncAlchemyCaller`: connections and sessions of SQLAlchemy 2, to PostgreSQL or SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from tenure.errors import InvalidOption
from tenure.stores.callers.connection import AnotherDatabase, CallerConnection, PostgresWork, Work
from tenure.stores.callers.postgres import explain_missing_function, postgres_work
from tenure.stores.callers.sqlite import Rows, Sqlite3Adapter, run_on_sqlite, sqlite_work, with_named_parameters

__all__ = ["AlchemyCaller", "AsyncAlchemyCaller"]

T = TypeVar("T")


class AlchemyCaller(CallerConnection):
    """A `Connection`, or the connection of a `Session` or `scoped_session`."""

    def __init__(self, bind: Any) -> None:
        self._bind = bind

    def run(self, work: Work[T]) -> T:
        return _run(self._bind, work)


class AsyncAlchemyCaller(CallerConnection):
    """An `AsyncConnection`, an `AsyncSession` or an `async_scoped_session`."""

    awaited: ClassVar[bool] = True

    def __init__(self, bind: Any) -> None:
        # A scoped session lacks `run_sync`; the session of its current scope has it.
        self._bind = bind.registry() if hasattr(bind, "registry") else bind

    async def arun(self, work: Work[T]) -> T:
        done: T = await self._bind.run_sync(_run, work)
        return done


def _run(bind: Any, work: Work[T]) -> T:
    connection = bind if hasattr(bind, "exec_driver_sql") else bind.connection()
    if connection.dialect.name == "postgresql":
        return _run_on_postgres(connection, postgres_work(work, connection.dialect.driver))
    if connection.dialect.name != "sqlite" or isinstance(work, PostgresWork):
        raise AnotherDatabase(
            f"connection= must be to the store's own database: this one is to {connection.dialect.name}"
        )
    if not connection.in_transaction():
        connection.begin()  # as its own calls would, because SQLAlchemy does not commit what it does not know of
    driver = connection.connection.driver_connection
    awaited = driver is not connection.connection.dbapi_connection
    adapter = _AiosqliteAdapter(connection.connection.dbapi_connection) if awaited else Sqlite3Adapter(driver)
    return run_on_sqlite(sqlite_work(work, connection.dialect.driver), adapter, driver)


def _run_on_postgres(connection: Any, query: PostgresWork[T]) -> T:
    if connection.connection.dbapi_connection.autocommit:
        raise InvalidOption(
            "connection= commits each statement by itself: use one whose isolation level is not AUTOCOMMIT"
        )
    place = "$1" if connection.dialect.paramstyle.startswith("numeric") else "%s"
    with explain_missing_function(query.statement):
        value = connection.exec_driver_sql(query.statement.format(place), (query.value,)).scalar()
    return query.read(value)


class _AiosqliteAdapter:
    """A connection of aiosqlite, as SQLAlchemy presents it to code that does not await."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._changes = 0

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        cursor = self._connection.cursor()
        cursor.execute(*with_named_parameters(statement, values))
        rows = Rows(cursor.fetchall() if cursor.description else ())
        self._changes = cursor.rowcount
        cursor.close()
        return rows

    def changes(self) -> int:
        return self._changes

    def after_commit(self, action: Callable[[], None], /) -> None:
        """Does nothing: aiosqlite does not report commits."""
