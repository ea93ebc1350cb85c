"""Transactions of somebody who uses a SQLite file by a library of their own, each library behind one face."""

from __future__ import annotations

import functools
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import apsw

from .callers import (
    Caller,
    OpenCaller,
    Thread,
    django_caller,
    sqlalchemy_awaited_connection,
    sqlalchemy_awaited_session,
    sqlalchemy_connection,
    sqlalchemy_scoped_session,
    sqlalchemy_session,
)

__all__ = ["AUTOCOMMITTING", "CALLERS"]


@asynccontextmanager
async def sqlite3_connection(path: str, *, begin: bool = False, **options: Any) -> AsyncIterator[Caller]:
    thread = Thread()
    connection: sqlite3.Connection = await thread.call(sqlite3.connect, path, **options)
    # Rows and texts of its owner's own taste must not confuse us, nor we them.
    connection.row_factory = lambda _, row: {"row": row}
    connection.text_factory = bytes
    if begin:
        await thread.call(connection.execute, "BEGIN")

    def execute(said: str) -> Any:
        assert connection.text_factory is bytes
        return [row["row"] for row in connection.execute(said)]

    yield thread.caller(connection, execute, connection.commit, connection.rollback)
    await thread.call(connection.close)


@asynccontextmanager
async def apsw_connection(path: str, *, begin: bool = True) -> AsyncIterator[Caller]:
    thread = Thread()
    connection = apsw.Connection(path)
    connection.set_busy_timeout(5_000)
    connection.row_trace = lambda _, row: {"row": row}
    if begin:
        connection.execute("BEGIN")

    def execute(said: str) -> Any:
        return [row["row"] for row in connection.execute(said)]

    yield thread.caller(
        connection, execute, lambda: connection.execute("COMMIT"), lambda: connection.execute("ROLLBACK")
    )
    connection.close()


def _alchemy(open_caller: Any, driver: str = "pysqlite", **options: Any) -> OpenCaller:
    return lambda path: open_caller(f"sqlite+{driver}:///{path}", **options)


def _django(path: str, *, atomic: bool = True) -> Any:
    return django_caller({"ENGINE": "django.db.backends.sqlite3", "NAME": path}, atomic=atomic)


CALLERS: Final[Mapping[str, OpenCaller]] = {
    "sqlite3": sqlite3_connection,
    "sqlite3-begun": functools.partial(sqlite3_connection, isolation_level=None, begin=True),
    **(
        {"sqlite3-explicit": functools.partial(sqlite3_connection, autocommit=False)}
        if sys.version_info >= (3, 12)
        else {}
    ),
    "apsw": apsw_connection,
    "sqlalchemy": _alchemy(sqlalchemy_connection),
    "sqlalchemy-session": _alchemy(sqlalchemy_session),
    "sqlalchemy-scoped": _alchemy(sqlalchemy_scoped_session),
    "sqlalchemy-awaited": _alchemy(sqlalchemy_awaited_connection, "aiosqlite"),
    "sqlalchemy-awaited-session": _alchemy(sqlalchemy_awaited_session, "aiosqlite"),
    "django": _django,
}
"""Every kind of connection that can be brought, with a transaction open or about to be."""

AUTOCOMMITTING: Final[Mapping[str, OpenCaller]] = {
    "sqlite3": functools.partial(sqlite3_connection, isolation_level=None),
    "apsw": functools.partial(apsw_connection, begin=False),
    "sqlalchemy": _alchemy(sqlalchemy_connection, isolation_level="AUTOCOMMIT"),
    "sqlalchemy-awaited": _alchemy(sqlalchemy_awaited_connection, "aiosqlite", isolation_level="AUTOCOMMIT"),
    "django": functools.partial(_django, atomic=False),
}
"""Those that have a way to do without a transaction, done without."""
