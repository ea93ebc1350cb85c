"""Connections of asyncpg and psycopg, and helpers for every connection to PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from tenure.errors import InvalidOption
from tenure.stores.callers.connection import AnotherDatabase, CallerConnection, PostgresWork, Work

__all__ = [
    "AsyncPsycopgCaller",
    "AsyncpgCaller",
    "PsycopgCaller",
    "collided",
    "explain_missing_function",
    "postgres_work",
    "sqlstates",
]

T = TypeVar("T")

_ABSENT = {"3F000", "42883"}
"""SQLSTATEs of a missing schema and of a missing function."""

_COLLIDED = {"40001", "40P01"}
"""SQLSTATEs of a serialization failure and of a deadlock."""


def postgres_work(work: Work[T], library: str) -> PostgresWork[T]:
    """The work, if it is for PostgreSQL; else `InvalidOption`."""
    if isinstance(work, PostgresWork):
        return work
    raise AnotherDatabase(f"connection= must be to the store's own database, {work.path}: this one is of {library}")


@contextmanager
def explain_missing_function(statement: str) -> Iterator[None]:
    """Raise `InvalidOption` if the function of the statement does not exist; all other errors pass through."""
    try:
        yield
    except Exception as error:
        if _ABSENT.isdisjoint(sqlstates(error)):
            raise
        raise InvalidOption(
            f"connection= must be to the store's own database: this one has no {_function_in(statement)}"
        ) from error


def _function_in(statement: str) -> str:
    """The first function with a schema in a statement, for messages."""
    found = re.search(r'[\w"]+\.\w+(?=\()', statement)
    return found[0] if found is not None else "tables of the store"


def sqlstates(error: BaseException) -> set[Any]:
    """The SQLSTATEs of an error and of the errors that it wraps, because some libraries wrap that of a driver."""
    wrapped = (error, getattr(error, "orig", None), error.__cause__)
    return {getattr(each, "sqlstate", None) for each in wrapped}


def collided(error: BaseException) -> bool:
    """Whether the server rolled a transaction back because of another one: a serialization failure or a deadlock."""
    return not _COLLIDED.isdisjoint(sqlstates(error))


class AsyncpgCaller(CallerConnection):
    """An `asyncpg.Connection`, or a connection of its pool."""

    awaited: ClassVar[bool] = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def arun(self, work: Work[T]) -> T:
        query = postgres_work(work, "asyncpg")
        if not self._connection.is_in_transaction():
            raise InvalidOption(
                "connection= is in no transaction: use it inside `async with connection.transaction():`"
            )
        with explain_missing_function(query.statement):
            value = await self._connection.fetchval(query.statement.format("$1"), query.value)
        return query.read(value)


class PsycopgCaller(CallerConnection):
    """A `psycopg.Connection` of psycopg 3."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, work: Work[T]) -> T:
        query = postgres_work(work, "psycopg")
        _refuse_autocommit(self._connection)
        with explain_missing_function(query.statement), self._connection.cursor(row_factory=_tuples) as cursor:
            [value] = cursor.execute(query.statement.format("%s"), [query.value]).fetchone()
        return query.read(value)


class AsyncPsycopgCaller(CallerConnection):
    """A `psycopg.AsyncConnection` of psycopg 3."""

    awaited: ClassVar[bool] = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def arun(self, work: Work[T]) -> T:
        query = postgres_work(work, "psycopg")
        _refuse_autocommit(self._connection)
        with explain_missing_function(query.statement):
            async with self._connection.cursor(row_factory=_tuples) as cursor:
                await cursor.execute(query.statement.format("%s"), [query.value])
                [value] = await cursor.fetchone()
        return query.read(value)


def _refuse_autocommit(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status == 0:  # idle
        raise InvalidOption(
            "connection= commits each statement by itself: use it inside `with connection.transaction():`, or without autocommit"
        )


def _tuples(_cursor: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Row factory for plain tuples, whatever that of the connection makes."""
    return tuple
