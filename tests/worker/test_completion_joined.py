"""Jobs that are settled in a transaction of the caller's: whoever opened it commits it, and the worker finds out whether that happened."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import apsw
import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tenure import App, Context
from tenure.core.job import State
from tenure.errors import InvalidOption, WrongState
from tenure.stores.base import Store

from .completing import attempts, effects, on_postgres, url
from .conftest import Lines, MakeApp, Start, eventually, record_of, retrying_app
from .effects import Effects

__all__ = ["effects", "url"]

app = retrying_app


class Caller:
    """A blocking connection to the store's own database, as an application has one."""

    def __init__(self, url: str, effects: Effects) -> None:
        self._url = url
        self._effects = effects

    def connect(self) -> Any:
        if self._url.startswith("sqlite"):
            return sqlite3.connect(self._url.removeprefix("sqlite:///"), isolation_level="IMMEDIATE")
        return psycopg.connect(Effects.dsn(self._url))

    def write(self, connection: Any, n: int) -> None:
        mark = "?" if self._url.startswith("sqlite") else "%s"
        connection.execute(f"INSERT INTO {self._effects.table} VALUES ({mark})", [n])


@pytest.fixture
def caller(url: str, effects: Effects) -> Caller:
    return Caller(url, effects)


async def test_the_callers_commit_makes_the_job_final(
    app: App, caller: Caller, effects: Effects, start: Start, lines: Lines
) -> None:
    @app.task(queue="nobody")
    async def child() -> None: ...

    @app.task
    def work(ctx: Context) -> int:
        ctx.enqueue(child.bind())
        connection = caller.connect()
        with connection, ctx.complete(connection=connection) as tx:
            caller.write(tx.connection, 1)
            tx.result = 5
        connection.close()
        return 5

    job = await work.aenqueue()
    await start(app, "default")

    assert await job.aresult(timeout=10) == 5
    assert await effects.rows() == [1]
    assert [job.task for job in await app.ajobs(queue="nobody")] == ["child"]
    await eventually(lambda: lines("succeeded, attempt 1"))
    assert (await app.astats()).totals.processed == 1


async def test_a_function_that_returns_without_a_commit_has_failed(
    app: App, caller: Caller, effects: Effects, start: Start, lines: Lines
) -> None:
    @app.task
    def work(ctx: Context) -> None:
        connection = caller.connect()
        with ctx.complete(connection=connection):
            caller.write(connection, ctx.attempt)
        (connection.commit if ctx.attempt > 1 else connection.rollback)()
        connection.close()

    job = await work.aenqueue()
    await start(app)

    await job.aresult(timeout=10)
    assert await attempts(job) == 2
    assert await effects.rows() == [2]
    await eventually(lambda: lines("runs again"))
    [said] = lines("runs again")
    assert "was committed: commit it first" in said


async def test_a_function_that_raises_before_its_commit_fails_as_usual(
    app: App, caller: Caller, effects: Effects, start: Start, lines: Lines
) -> None:
    @app.task
    def work(ctx: Context) -> None:
        connection = caller.connect()
        try:
            with connection:
                with ctx.complete(connection=connection):
                    caller.write(connection, ctx.attempt)
                if ctx.attempt == 1:
                    raise ValueError("before the commit")
        finally:
            connection.close()

    job = await work.aenqueue()
    await start(app)

    await job.aresult(timeout=10)
    assert await attempts(job) == 2
    assert await effects.rows() == [2]
    await eventually(lambda: lines("runs again"))
    [said] = lines("runs again")
    assert "ValueError: before the commit" in said


async def test_what_is_raised_after_the_callers_commit_changes_nothing(
    app: App, caller: Caller, effects: Effects, start: Start, lines: Lines
) -> None:
    @app.task
    def work(ctx: Context) -> None:
        connection = caller.connect()
        with connection, ctx.complete(connection=connection):
            caller.write(connection, ctx.attempt)
        connection.close()
        raise ValueError("late")

    job = await work.aenqueue()
    await start(app)

    await job.aresult(timeout=10)
    await eventually(lambda: lines("succeeded, attempt 1"))
    assert len(lines("the rest is ignored: it raised ValueError: late")) == 1
    assert await effects.rows() == [1]


async def test_what_was_rolled_back_may_be_tried_again_and_what_was_committed_may_not(
    app: App, caller: Caller, effects: Effects, start: Start
) -> None:
    refused: list[WrongState] = []

    @app.task
    def work(ctx: Context) -> None:
        connection = caller.connect()
        for end in (connection.rollback, connection.commit):
            with ctx.complete(connection=connection):
                caller.write(connection, 1)
            end()
        with pytest.raises(WrongState) as refusal, ctx.complete(connection=connection):
            pass
        refused.append(refusal.value)
        connection.close()

    job = await work.aenqueue()
    await start(app)

    await job.aresult(timeout=10)
    await eventually(lambda: refused)
    assert await attempts(job) == 1
    assert await effects.rows() == [1]


async def test_a_lost_lease_is_told_before_the_caller_commits(
    make_app: MakeApp, caller: Caller, effects: Effects, start: Start, store: Store
) -> None:  # I5
    app = make_app(wakeup=False)
    loop = asyncio.get_running_loop()
    raised = threading.Event()

    @app.task
    def work(ctx: Context) -> None:
        asyncio.run_coroutine_threadsafe(store.cancel([ctx.job.id]), loop).result()
        connection = caller.connect()
        try:
            with connection, ctx.complete(connection=connection):
                caller.write(connection, 1)
        except BaseException:
            raised.set()
            raise
        finally:
            connection.close()

    job = await work.aenqueue()
    await start(app)

    await eventually(raised.is_set)
    assert (await record_of(store, job.id)).state is State.CANCELLED
    assert await effects.rows() == []


@on_postgres
@pytest.mark.parametrize("timeout", [None, 2.0])  # enough to connect
async def test_a_transaction_that_nobody_ends_costs_the_worker_one_job_only(
    timeout: float | None,
    app: App,
    caller: Caller,
    effects: Effects,
    start: Start,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    lines: Lines,
) -> None:
    monkeypatch.setattr("tenure.tasks.completion.completion.ASK_TIMEOUT", 0.1)
    forgotten: list[Any] = []

    @app.task(lease=1, timeout=timeout)
    def forgetful(ctx: Context) -> None:
        connection = caller.connect()
        with ctx.complete(connection=connection):
            caller.write(connection, ctx.attempt)
        if ctx.attempt > 1:
            connection.commit()
        elif timeout is not None:
            ctx.signal.wait_blocking()
        forgotten.append(connection)

    @app.task
    async def plain() -> int:
        return 1

    job = await forgetful.aenqueue()
    await start(app, concurrency=2)
    await eventually(lambda: forgotten)

    assert [await (await plain.aenqueue()).aresult(timeout=5) for _ in range(3)] == [1, 1, 1]
    assert (await record_of(store, job.id)).state is State.RUNNING, "nobody can take it"
    await eventually(lambda: lines(f"lost its lease: {'error' if timeout is None else 'timeout'}"))
    forgotten[0].close()
    await job.aresult(timeout=20)
    assert await effects.rows() == [2]
    for connection in forgotten:
        connection.close()


@on_postgres
async def test_renewals_pass_over_what_an_open_transaction_has_settled(
    make_app: MakeApp, caller: Caller, effects: Effects, start: Start, lines: Lines
) -> None:
    app = make_app(lease=1)
    reasons: list[Any] = []

    @app.task
    async def neighbour(ctx: Context) -> None:
        await asyncio.sleep(2)
        reasons.append(ctx.signal.reason)

    @app.task
    def slow(ctx: Context) -> None:
        connection = caller.connect()
        with ctx.complete(connection=connection):
            caller.write(connection, 1)
        reasons.append(ctx.signal.wait_blocking(2))
        connection.commit()
        connection.close()

    jobs = [await neighbour.aenqueue(), await slow.aenqueue()]
    await start(app, concurrency=2)

    for job in jobs:
        await job.aresult(timeout=10)
    assert reasons == [None, None]
    assert [await attempts(job) for job in jobs] == [1, 1]


# Every kind of connection.


async def _asyncpg(url: str, effects: Effects, ctx: Context) -> None:
    connection = await asyncpg.connect(Effects.dsn(url))
    try:
        async with (
            connection.transaction(),
            ctx.prepare(connection=connection),
            ctx.complete(connection=connection) as tx,
        ):
            await connection.execute(effects.insert, 1)
            tx.result = 1
    finally:
        await connection.close()


async def _psycopg(url: str, effects: Effects, ctx: Context) -> None:
    async with (
        await psycopg.AsyncConnection.connect(Effects.dsn(url)) as connection,
        ctx.complete(connection=connection) as tx,
    ):
        await connection.execute(f"INSERT INTO {effects.table} VALUES (%s)", [1])
        tx.result = 1


async def _async_session(url: str, effects: Effects, ctx: Context) -> None:
    driver = {"postgresql": "postgresql+asyncpg", "sqlite": "sqlite+aiosqlite"}
    scheme, _, rest = url.partition("?")[0].partition(":")
    engine = create_async_engine(f"{driver[scheme]}:{rest}")
    async with AsyncSession(engine) as session, session.begin(), ctx.complete(connection=session) as tx:
        await session.execute(sqlalchemy.text(f"INSERT INTO {effects.table} VALUES (1)"))
        tx.result = 1
    await engine.dispose()


def _session(url: str, effects: Effects, ctx: Context) -> None:
    driver = {"postgresql": "postgresql+psycopg", "sqlite": "sqlite"}
    scheme, _, rest = url.partition("?")[0].partition(":")
    engine = sqlalchemy.create_engine(f"{driver[scheme]}:{rest}")
    with Session(engine) as session, session.begin(), ctx.complete(connection=session) as tx:
        session.execute(sqlalchemy.text(f"INSERT INTO {effects.table} VALUES (1)"))
        tx.result = 1
    engine.dispose()


def _apsw(url: str, effects: Effects, ctx: Context) -> None:
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(5000)
    connection.execute("BEGIN IMMEDIATE")
    with ctx.complete(connection=connection) as tx:
        connection.execute(effects.insert, [1])
        tx.result = 1
    connection.execute("COMMIT")
    connection.close()


@pytest.mark.parametrize(
    ("url", "body"),
    [
        pytest.param("postgres", _asyncpg, id="asyncpg"),
        pytest.param("postgres", _psycopg, id="psycopg"),
        pytest.param("postgres", _async_session, id="sqlalchemy-asyncpg"),
        pytest.param("postgres", _session, id="sqlalchemy-psycopg"),
        pytest.param("sqlite", _async_session, id="sqlalchemy-aiosqlite"),
        pytest.param("sqlite", _session, id="sqlalchemy-sqlite3"),
        pytest.param("sqlite", _apsw, id="apsw"),
    ],
    indirect=["url"],
)
async def test_every_kind_of_connection_completes_a_job(
    app: App, url: str, effects: Effects, start: Start, body: Callable[[str, Effects, Context], Any]
) -> None:
    if asyncio.iscoroutinefunction(body):

        @app.task(name="work")
        async def coroutine(ctx: Context) -> int:
            await body(url, effects, ctx)
            return 1

        job = await coroutine.aenqueue()
    else:

        @app.task(name="work")
        def thread(ctx: Context) -> int:
            body(url, effects, ctx)
            return 1

        job = await thread.aenqueue()
    await start(app)

    assert await job.aresult(timeout=10) == 1
    assert await attempts(job) == 1
    assert await effects.rows() == [1]


async def test_a_connection_to_something_else_is_refused(app: App, start: Start) -> None:
    said: list[str] = []

    @app.task
    def work(ctx: Context) -> None:
        for stranger in (object(), sqlite3.connect(":memory:")):
            with pytest.raises(InvalidOption) as refusal, ctx.complete(connection=stranger):
                pass
            said.append(str(refusal.value))

    await work.aenqueue()
    await start(app)

    await eventually(lambda: len(said) == 2)
    assert all(each.startswith("connection= ") for each in said)


@on_postgres
async def test_an_awaited_connection_is_refused_in_a_thread(app: App, start: Start, url: str) -> None:
    connection = await asyncpg.connect(Effects.dsn(url))
    said: list[str] = []

    @app.task
    def work(ctx: Context) -> None:
        with pytest.raises(InvalidOption) as refusal, ctx.complete(connection=connection):
            pass
        said.append(str(refusal.value))

    await work.aenqueue()
    await start(app)

    await eventually(lambda: said)
    assert "use async with" in said[0]
    await connection.close()
