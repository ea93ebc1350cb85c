"""Connections that cannot be enqueued through are refused in one sentence: without a transaction, to another database, of another kind."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure import App
from tenure.errors import InvalidOption
from tenure.stores.postgres.address import Address

from .callers import AUTOCOMMITTING, CALLERS, OpenCaller, asyncpg_connection
from .postgres_app import Add, add, app, exists, postgres_url, server, sql, waiting

__all__ = ["add", "app", "postgres_url", "server", "sql"]


@pytest.mark.parametrize("open_caller", AUTOCOMMITTING.values(), ids=AUTOCOMMITTING)
async def test_a_connection_without_a_transaction_is_refused(
    open_caller: OpenCaller, server: str, app: App, add: Add
) -> None:
    async with open_caller(server) as caller:
        with pytest.raises(InvalidOption, match=r"connection= (commits each statement|is in no transaction).*: use"):
            await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)

    assert await waiting(app) == 0


@pytest.fixture
async def elsewhere(server: str, postgres_url: str) -> AsyncIterator[str]:
    """Another database of the same server."""
    name = f"other_{Address.from_url(postgres_url).schema}"
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE DATABASE {name}")
    yield urlsplit(server)._replace(path=f"/{name}").geturl()
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.mark.parametrize("open_caller", CALLERS.values(), ids=CALLERS)
async def test_another_database_is_refused_in_one_sentence(open_caller: OpenCaller, elsewhere: str, add: Add) -> None:
    async with open_caller(elsewhere) as caller:
        with pytest.raises(InvalidOption, match=r"must be to the store's own database: this one has no"):
            await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)


async def test_another_database_with_a_store_of_the_same_name_is_refused(
    elsewhere: str, postgres_url: str, add: Add
) -> None:
    other = App(urlsplit(elsewhere)._replace(query=urlsplit(postgres_url).query).geturl())
    await other.internals.session.store.open()
    async with asyncpg_connection(elsewhere) as caller:
        with pytest.raises(InvalidOption, match=r"must be to the store's own database: this one has another"):
            await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)
        assert await caller.execute("SELECT 1")
        await caller.commit()
    assert await other.aqueues() == []
    await other.aclose()


async def test_what_is_no_connection_to_postgresql_is_refused_in_one_sentence(add: Add) -> None:
    for nonsense in (42, "postgresql://", asyncpg, add):
        with pytest.raises(InvalidOption, match="connection= takes a connection of asyncpg, psycopg 3"):
            await add.using(connection=nonsense).aenqueue(1, 2)
    with pytest.raises(InvalidOption, match="the store's own PostgreSQL database: this one is of sqlite3"):
        await add.using(connection=sqlite3.connect(":memory:")).aenqueue(1, 2)


@pytest.mark.parametrize("open_caller", CALLERS.values(), ids=CALLERS)
async def test_a_store_in_a_file_refuses_it_in_one_sentence(
    open_caller: OpenCaller, server: str, tmp_path: Any
) -> None:
    async with App(f"sqlite:///{tmp_path}/jobs.db") as app, open_caller(server) as caller:
        with pytest.raises(InvalidOption, match=r"must be to the store's own database"):
            await caller.call(app.remote("t").using(connection=caller.connection).enqueue)


async def test_a_store_without_transactions_refuses_every_connection(server: str, redis_url: str) -> None:
    async with App(redis_url) as app, asyncpg_connection(server) as caller:
        with pytest.raises(InvalidOption, match=r"this store has none to join: use postgresql:// or sqlite://"):
            await caller.call(app.remote("t").using(connection=caller.connection).enqueue)


async def test_a_store_in_memory_takes_any_connection_and_stores_at_once(server: str) -> None:
    async with App("memory://") as app, asyncpg_connection(server) as caller:
        job = await caller.call(app.remote("t").using(connection=caller.connection).enqueue)

        assert (await app.ajob(job.id)).state == "waiting"


async def test_blocking_code_is_told_to_await(server: str, add: Add) -> None:
    async with asyncpg_connection(server) as caller:
        with pytest.raises(InvalidOption, match=r"is awaited: await aenqueue\(\) instead"):
            await asyncio.to_thread(add.using(connection=caller.connection).enqueue, 1, 2)


async def test_calls_of_several_connections_do_not_go_together(server: str, app: App, add: Add) -> None:
    async with asyncpg_connection(server) as one, asyncpg_connection(server) as other:
        mine, theirs = add.using(connection=one.connection), add.using(connection=other.connection)
        with pytest.raises(InvalidOption, match="one connection="):
            await app.aenqueue(mine.bind(1, 2), theirs.bind(1, 2))
        with pytest.raises(InvalidOption, match="one connection="):
            await app.aenqueue(mine.bind(1, 2), connection=other.connection)

        jobs = await app.aenqueue(mine.bind(1, 2), add.bind(3, 4))
        await one.rollback()

    assert not await exists(jobs[1])
