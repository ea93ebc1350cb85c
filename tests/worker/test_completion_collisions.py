"""Transactions of jobs that meet on PostgreSQL: in a database that is strict by default, and in blocks that ask to be strict."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tenure import App, Context
from tenure.core.job import JobRecord, State
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.stores.postgres.link import Link

from .completing import effects
from .conftest import Start, eventually, record_of, single_try_app
from .effects import Effects

__all__ = ["effects"]

app = single_try_app

STRICT = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"


@pytest.fixture(params=["serializable", "repeatable read"])
def level(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def url(emptied_postgres_url: str, level: str) -> Iterator[str]:
    """A store whose role has a strict isolation level as default."""
    role = f"strict_{secrets.token_hex(4)}"
    with psycopg.connect(emptied_postgres_url.partition("?")[0], autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER".encode())
        admin.execute(f"ALTER ROLE {role} SET default_transaction_isolation = '{level}'".encode())
        yield emptied_postgres_url.replace("tenure@", f"{role}@")
        admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


async def ended(store: Store, jobs: list[Any]) -> list[JobRecord]:
    """The records of these jobs, once all are final."""

    async def final() -> list[JobRecord]:
        found = [await record_of(store, job.id) for job in jobs]
        return found if all(record.state.final for record in found) else []

    records: list[JobRecord] = await eventually(final, within=30)
    return records


@pytest.mark.parametrize("pooled", ["false", "true"])
async def test_every_step_runs_in_read_committed_whatever_the_default_is(url: str, pooled: str) -> None:
    store = open_store(f"{url}&pooled={pooled}")
    await store.open()
    link: Link = store._link  # type: ignore[attr-defined]
    own = await store.begin()
    reading = await store.begin(writes=False)
    try:
        assert await link.fetch("SHOW transaction_isolation") == [("read committed",)]
        assert await own.fetch("SHOW transaction_isolation") == [("read committed",)]
        assert await reading.fetch("SHOW transaction_isolation") == [("repeatable read",)]
    finally:
        await reading.rollback()
        await own.rollback()
        await store.close()


async def test_the_setting_outlives_what_a_job_has_set(url: str) -> None:
    store = open_store(f"{url}&connections=1")
    await store.open()
    for _ in range(2):  # on one connection, which is reset in between
        own = await store.begin()
        assert await own.fetch("SHOW transaction_isolation") == [("read committed",)]
        await own.execute("SET default_transaction_isolation = 'serializable'")
        await own.commit()
    await store.close()


async def test_jobs_that_write_rows_of_their_own_do_not_collide(
    app: App, store: Store, effects: Effects, start: Start
) -> None:
    all_there = asyncio.Barrier(4)
    ran: list[int] = []

    @app.task
    async def task(ctx: Context, n: int) -> None:
        ran.append(n)
        async with ctx.complete() as tx:
            await tx.fetch(f"SELECT count(*) FROM {effects.table}")
            await all_there.wait()
            await tx.execute(effects.insert, n)

    jobs = await task.aenqueue_many([(n,) for n in range(40)])
    await start(app, "default", concurrency=4, look_ahead=False)

    records = await ended(store, jobs)
    assert {(record.state, record.attempt) for record in records} == {(State.SUCCEEDED, 1)}
    assert await effects.rows() == sorted(ran) == list(range(40))


def in_a_block(app: App, effects: Effects, meet: asyncio.Barrier) -> Any:
    met: set[int] = set()

    @app.task
    async def task(ctx: Context, n: int) -> None:
        async with ctx.complete() as tx:
            await tx.execute(STRICT)
            await tx.fetch(f"SELECT count(*) FROM {effects.table}")
            if n not in met:
                met.add(n)
                await meet.wait()
            await tx.execute(effects.insert, n)

    return task


def in_an_isolated_block(app: App, effects: Effects, _: asyncio.Barrier) -> Any:
    """Collides with a transaction of somebody else, in a child process."""
    table, insert = effects.table, effects.insert

    @app.task(isolation="process")
    def task(ctx: Context, n: int) -> None:
        with ctx.complete() as tx:
            tx.execute(STRICT)
            tx.fetch(f"SELECT count(*) FROM {table}")
            if ctx.token.fence == 1:
                tx.execute("DO $$ BEGIN RAISE 'met' USING ERRCODE = '40001'; END $$")
            tx.execute(insert, n)

    return task


def in_a_thread(app: App, effects: Effects, _: asyncio.Barrier) -> Any:
    both = threading.Barrier(2)
    met: set[int] = set()

    @app.task
    def task(ctx: Context, n: int) -> None:
        with ctx.complete() as tx:
            tx.execute(STRICT)
            tx.fetch(f"SELECT count(*) FROM {effects.table}")
            if n not in met:
                met.add(n)
                both.wait(10)
            tx.execute(effects.insert, n)

    return task


def in_the_callers_transaction(app: App, effects: Effects, _: asyncio.Barrier, dsn: str) -> Any:
    """The collision shows at the caller's own commit, after the block."""
    both = threading.Barrier(2)
    met: set[int] = set()

    @app.task
    def task(ctx: Context, n: int) -> None:
        first = n not in met
        met.add(n)
        with psycopg.connect(dsn) as mine:
            mine.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            mine.execute(f"SELECT count(*) FROM {effects.table}".encode())
            if first:
                both.wait(10)
            mine.execute(f"INSERT INTO {effects.table} VALUES (%s)".encode(), [n])
            with ctx.complete(connection=mine):
                pass
            if first:
                both.wait(10)

    return task


@pytest.mark.parametrize("level", ["serializable"], indirect=True)
@pytest.mark.parametrize("lane", ["coroutine", "thread", "joined", "isolated"])
async def test_a_collision_gives_the_attempt_back(
    app: App, store: Store, effects: Effects, start: Start, url: str, lane: str
) -> None:
    meet = asyncio.Barrier(2)
    task = {
        "coroutine": lambda: in_a_block(app, effects, meet),
        "thread": lambda: in_a_thread(app, effects, meet),
        "joined": lambda: in_the_callers_transaction(app, effects, meet, Effects.dsn(url)),
        "isolated": lambda: in_an_isolated_block(app, effects, meet),
    }[lane]()
    failed: list[BaseException] = []

    @app.on_failure
    async def note(ctx: Context, error: BaseException, final: bool) -> None:
        failed.append(error)

    jobs = await task.aenqueue_many([(1,), (2,)])
    await start(app, "default", concurrency=2, look_ahead=False)

    records = await ended(store, jobs)
    assert {(record.state, record.attempt, record.error) for record in records} == {(State.SUCCEEDED, 1, None)}
    assert max(record.fence for record in records) > 1, "one of them was undone"
    assert await effects.rows() == [1, 2]
    assert failed == []


@pytest.mark.parametrize("level", ["serializable"], indirect=True)
async def test_a_job_that_always_collides_fails_in_the_end(
    app: App, store: Store, effects: Effects, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.core.lifecycle.COLLISIONS", 3)

    @app.task
    async def task(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute("DO $$ BEGIN RAISE 'met' USING ERRCODE = '40P01'; END $$")

    job = await task.aenqueue()
    await start(app, "default")

    [record] = await ended(store, [job])
    assert (record.state, record.attempt, record.fence) == (State.FAILED, 1, 4)
    assert record.error is not None
    assert record.error.type == "DeadlockDetectedError"
