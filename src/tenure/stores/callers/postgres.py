"""Connections of PostgreSQL's own drivers, and what holds for every connection to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from tenure.errors import InvalidOption
from tenure.stores.callers.connection import CallerConnection, PostgresWork, Work

__all__ = ["AsyncPsycopgCaller", "AsyncpgCaller", "PsycopgCaller", "codes", "collided", "explained", "query"]

T = TypeVar("T")

_ABSENT = {"3F000", "42883"}
"""There is no such schema; it has no such function."""

_COLLIDED = {"40001", "40P01"}


def query(work: Work[T], library: str) -> PostgresWork[T]:
    """The errand, which must be one on PostgreSQL."""
    if isinstance(work, PostgresWork):
        return work
    raise InvalidOption(f"connection= must be to the store's own database, {work.path}: this one is of {library}")


@contextmanager
def explained(statement: str) -> Iterator[None]:
    """Say what is wrong if the statement's function is not there; the library itself says everything else."""
    try:
        yield
    except Exception as error:
        if _ABSENT.isdisjoint(codes(error)):
            raise
        raise InvalidOption(
            f"connection= must be to the store's own database: this one has no {statement.split()[1].partition('(')[0]}"
        ) from error


def codes(error: BaseException) -> set[Any]:
    """The server's code of an error, wherever the library has it: some wrap the error of another."""
    wrapped = (error, getattr(error, "orig", None), error.__cause__)
    return {getattr(each, "sqlstate", None) for each in wrapped}


def collided(error: BaseException) -> bool:
    """Whether the server has undone a transaction because it met another: a serialization failure, or a deadlock."""
    return not _COLLIDED.isdisjoint(codes(error))


class AsyncpgCaller(CallerConnection):
    """`asyncpg.Connection`, or one of its pool."""

    awaited: ClassVar[bool] = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def arun(self, work: Work[T]) -> T:
        asked = query(work, "asyncpg")
        if not self._connection.is_in_transaction():
            raise InvalidOption(
                "connection= is in no transaction: use it inside `async with connection.transaction():`"
            )
        with explained(asked.statement):
            told = await self._connection.fetchval(asked.statement.format("$1"), asked.value)
        return asked.read(told)


class PsycopgCaller(CallerConnection):
    """`psycopg.Connection`, of version 3."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, work: Work[T]) -> T:
        asked = query(work, "psycopg")
        _refuse_autocommit(self._connection)
        with explained(asked.statement), self._connection.cursor(row_factory=_tuples) as cursor:
            [told] = cursor.execute(asked.statement.format("%s"), [asked.value]).fetchone()
        return asked.read(told)


class AsyncPsycopgCaller(CallerConnection):
    """`psycopg.AsyncConnection`, of version 3."""

    awaited: ClassVar[bool] = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def arun(self, work: Work[T]) -> T:
        asked = query(work, "psycopg")
        _refuse_autocommit(self._connection)
        with explained(asked.statement):
            async with self._connection.cursor(row_factory=_tuples) as cursor:
                await cursor.execute(asked.statement.format("%s"), [asked.value])
                [told] = await cursor.fetchone()
        return asked.read(told)


def _refuse_autocommit(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status == 0:  # idle
        raise InvalidOption(
            "connection= commits each statement by itself: use it inside `with connection.transaction():`, or without autocommit"
        )


def _tuples(_cursor: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Rows as they are, whatever the connection makes of its own."""
    return tuple
