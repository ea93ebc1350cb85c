"""Transactions of somebody who uses PostgreSQL by a library of their own, each library behind one face."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]
import django
import django.db
import django.db.transaction
import psycopg
import psycopg.rows
import sqlalchemy
from django.conf import settings
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tenure.stores.callers import Work, caller_connection

__all__ = ["AUTOCOMMITTING", "CALLERS", "Caller", "OpenCaller", "asyncpg_connection", "psycopg_connection"]


@dataclass
class Caller:
    """A connection with a transaction of its own, and how it is used."""

    connection: Any
    """What its owner gives as `connection=`."""

    execute: Callable[[str], Awaitable[Any]]
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]
    call: Callable[..., Awaitable[Any]]
    """Call a blocking method of ours where the connection is used; or await its twin, if the library is one that awaits."""

    async def run(self, work: Work[Any]) -> Any:
        """Have an errand done, without an app."""
        return await self.call(_Errands(self.connection).run, work)


OpenCaller = Callable[[str], AbstractAsyncContextManager[Caller]]


class _Errands:
    """A connection of a caller, by the names of the API."""

    def __init__(self, connection: Any) -> None:
        self._caller = caller_connection(connection)

    def run(self, work: Work[Any]) -> Any:
        return self._caller.run(work)

    async def arun(self, work: Work[Any]) -> Any:
        return await self._caller.arun(work)


async def _twin(method: Any, /, *args: Any, **kwargs: Any) -> Any:
    return await getattr(method.__self__, f"a{method.__name__}")(*args, **kwargs)


class Thread:
    """One thread, where everything blocking is done: some libraries insist on it."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1)

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        bound = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, bound)

    def caller(
        self, connection: Any, execute: Callable[[str], Any], commit: Callable[[], Any], rollback: Callable[[], Any]
    ) -> Caller:
        there = functools.partial
        return Caller(
            connection, there(self.call, execute), there(self.call, commit), there(self.call, rollback), self.call
        )


# asyncpg


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield Caller(connection, connection.fetch, transaction.commit, transaction.rollback, _twin)
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Caller(connection, connection.fetch, transaction.commit, transaction.rollback, _twin)


@asynccontextmanager
async def asyncpg_autocommitting(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    try:
        yield Caller(connection, connection.fetch, _nothing, _nothing, _twin)
    finally:
        await connection.close()


# psycopg 3


@asynccontextmanager
async def psycopg_connection(url: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    thread = Thread()
    # Rows of its owner's own taste must not confuse us.
    connection: Any = await thread.call(
        psycopg.connect, url, autocommit=autocommit, row_factory=psycopg.rows.namedtuple_row
    )
    try:
        yield thread.caller(
            connection, lambda said: _rows(connection.execute(said)), connection.commit, connection.rollback
        )
    finally:
        await thread.call(connection.close)


@asynccontextmanager
async def psycopg_block(url: str) -> AsyncIterator[Caller]:
    """One that commits by itself, but for a block."""
    async with psycopg_connection(url, autocommit=True) as caller:
        await caller.execute("BEGIN")
        yield caller


@asynccontextmanager
async def psycopg_awaited(url: str, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=autocommit)

    async def execute(said: str) -> Any:
        cursor = await connection.execute(said.encode())
        return await cursor.fetchall() if cursor.description else []

    try:
        yield Caller(connection, execute, connection.commit, connection.rollback, _twin)
    finally:
        await connection.close()


# SQLAlchemy


@asynccontextmanager
async def sqlalchemy_connection(url: str, **options: Any) -> AsyncIterator[Caller]:
    thread = Thread()
    engine = sqlalchemy.create_engine(_driver(url, "psycopg"), **options)
    connection: sqlalchemy.Connection = await thread.call(engine.connect)
    try:
        yield thread.caller(
            connection, lambda said: _rows(connection.exec_driver_sql(said)), connection.commit, connection.rollback
        )
    finally:
        await thread.call(connection.close)
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(url: str) -> AsyncIterator[Caller]:
    thread = Thread()
    engine = sqlalchemy.create_engine(_driver(url, "psycopg"))
    session = Session(engine)
    try:
        yield _of_session(thread, session)
    finally:
        await thread.call(session.close)
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_scoped_session(url: str) -> AsyncIterator[Caller]:
    thread = Thread()
    engine = sqlalchemy.create_engine(_driver(url, "psycopg"))
    session = scoped_session(sessionmaker(engine))
    try:
        yield _of_session(thread, session)
    finally:
        await thread.call(session.remove)
        engine.dispose()


def _of_session(thread: Thread, session: Session | scoped_session[Session]) -> Caller:
    def execute(said: str) -> Any:
        return _rows(session.connection().exec_driver_sql(said))

    return thread.caller(session, execute, session.commit, session.rollback)


@asynccontextmanager
async def sqlalchemy_awaited_connection(url: str, **options: Any) -> AsyncIterator[Caller]:
    engine = create_async_engine(_driver(url, "asyncpg"), **options)
    try:
        async with engine.connect() as connection:

            async def execute(said: str) -> Any:
                return _rows(await connection.exec_driver_sql(said))

            yield Caller(connection, execute, connection.commit, connection.rollback, _twin)
    finally:
        await engine.dispose()


@asynccontextmanager
async def sqlalchemy_awaited_session(url: str, driver: str = "asyncpg") -> AsyncIterator[Caller]:
    engine = create_async_engine(_driver(url, driver))
    try:
        async with AsyncSession(engine) as session:
            yield _of_awaited_session(session)
    finally:
        await engine.dispose()


@asynccontextmanager
async def sqlalchemy_awaited_scoped_session(url: str) -> AsyncIterator[Caller]:
    engine = create_async_engine(_driver(url, "asyncpg"))
    session = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
    try:
        yield _of_awaited_session(session)
    finally:
        await session.remove()
        await engine.dispose()


def _of_awaited_session(session: AsyncSession | async_scoped_session[AsyncSession]) -> Caller:
    async def execute(said: str) -> Any:
        return _rows(await (await session.connection()).exec_driver_sql(said))

    return Caller(session, execute, session.commit, session.rollback, _twin)


# Django


def django_connection(url: str, *, atomic: bool = True) -> AbstractAsyncContextManager[Caller]:
    parts = urlsplit(url)
    return django_caller(
        {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "USER": parts.username,
            "HOST": parts.hostname,
            "PORT": parts.port,
        },
        atomic=atomic,
    )


@asynccontextmanager
async def django_caller(database: Mapping[str, Any], *, atomic: bool) -> AsyncIterator[Caller]:
    thread = Thread()
    if not settings.configured:
        settings.configure()
        django.setup()
    # One that other tests have not: a connection of an alias is kept for as long as its thread.
    django.db.connections.databases["callers"] = django.db.connections.configure_settings(
        {"default": {}, "callers": database}
    )["callers"]

    def begin() -> tuple[Any, Any]:
        block = django.db.transaction.atomic(using="callers")
        if atomic:
            block.__enter__()
        return django.db.connections["callers"], block

    connection, block = await thread.call(begin)

    def execute(said: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(said)
            return cursor.fetchall() if cursor.description else []

    def rollback() -> None:
        connection.set_rollback(True)
        block.__exit__(None, None, None)

    try:
        yield thread.caller(connection, execute, lambda: block.__exit__(None, None, None), rollback)
    finally:
        connection.in_atomic_block = False  # closed as it is, whatever has become of the test
        await thread.call(connection.close)


def _driver(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


def _rows(result: Any) -> Any:
    described = result.returns_rows if hasattr(result, "returns_rows") else result.description
    return result.fetchall() if described else []


async def _nothing() -> None:
    """It has no transaction to end."""


CALLERS: Final[Mapping[str, OpenCaller]] = {
    "asyncpg": asyncpg_connection,
    "asyncpg-pool": asyncpg_pool,
    "psycopg": psycopg_connection,
    "psycopg-block": psycopg_block,
    "psycopg-awaited": psycopg_awaited,
    "sqlalchemy": sqlalchemy_connection,
    "sqlalchemy-session": sqlalchemy_session,
    "sqlalchemy-scoped": sqlalchemy_scoped_session,
    "sqlalchemy-awaited": sqlalchemy_awaited_connection,
    "sqlalchemy-awaited-session": sqlalchemy_awaited_session,
    "sqlalchemy-awaited-scoped": sqlalchemy_awaited_scoped_session,
    "sqlalchemy-awaited-psycopg": functools.partial(sqlalchemy_awaited_session, driver="psycopg"),
    "django": django_connection,
}
"""Every kind of connection that can be brought, with a transaction open."""

AUTOCOMMITTING: Final[Mapping[str, OpenCaller]] = {
    "asyncpg": asyncpg_autocommitting,
    "psycopg": functools.partial(psycopg_connection, autocommit=True),
    "psycopg-awaited": functools.partial(psycopg_awaited, autocommit=True),
    "sqlalchemy": functools.partial(sqlalchemy_connection, isolation_level="AUTOCOMMIT"),
    "sqlalchemy-awaited": functools.partial(sqlalchemy_awaited_connection, isolation_level="AUTOCOMMIT"),
    "django": functools.partial(django_connection, atomic=False),
}
"""Those that have a way to do without a transaction, done without."""
