"""Jobs whose lease or time is over while they complete themselves: nothing of it is committed, and nobody else suffers."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from tenure import App, Context
from tenure.core.job import State
from tenure.errors import Aborted, LeaseLost
from tenure.stores.base import Store

from .completing import attempts, became, effects, lane, on_postgres, url
from .conftest import Lines, MakeApp, Start, eventually, record_of, retrying_app
from .effects import Effects

__all__ = ["effects", "lane", "url"]

app = retrying_app

on_sqlite = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


# A lease that is gone.


@pytest.fixture
def unaware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a worker without signals not ask whether its jobs are still held: it would tell them before they find out themselves."""
    monkeypatch.setattr("tenure.worker.keeper.CHECK_INTERVAL", 60.0)


async def test_a_lost_lease_is_noticed_by_the_commit_and_nothing_is_settled(
    make_app: MakeApp, lane: str, effects: Effects, start: Start, store: Store, lines: Lines, unaware: None
) -> None:  # I5
    app = make_app(wakeup=False)
    loop = asyncio.get_running_loop()
    raised: list[BaseException] = []

    @app.task
    async def coroutine(ctx: Context) -> None:
        await store.cancel([ctx.job.id])
        try:
            async with ctx.complete() as tx:
                await tx.execute(effects.insert, 1)
        except (LeaseLost, asyncio.CancelledError) as error:  # the keeper, which renews before, may be first
            raised.append(error)
            raise

    @app.task
    def thread(ctx: Context) -> None:
        asyncio.run_coroutine_threadsafe(store.cancel([ctx.job.id]), loop).result()
        with pytest.raises(LeaseLost) as error, ctx.complete() as tx:
            tx.execute(effects.insert, 1)
        raised.append(error.value)

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: raised)
    await eventually(lambda: lines("lost its lease"))
    assert await effects.rows() == []
    assert (await record_of(store, job.id)).state is State.CANCELLED
    assert lines("succeeded") == []


async def test_preparing_tells_whether_the_job_is_still_held(
    make_app: MakeApp, lane: str, start: Start, store: Store, unaware: None
) -> None:
    app = make_app(wakeup=False)
    loop = asyncio.get_running_loop()
    seen: list[Any] = []

    @app.task
    async def coroutine(ctx: Context) -> None:
        async with ctx.prepare() as tx:
            seen.append(await tx.fetchval("SELECT 41"))
        await store.cancel([ctx.job.id])
        with pytest.raises(LeaseLost):
            async with ctx.prepare():
                pass
        seen.append("lost")

    @app.task
    def thread(ctx: Context) -> None:
        with ctx.prepare() as tx:
            seen.append(tx.fetchval("SELECT 41"))
        asyncio.run_coroutine_threadsafe(store.cancel([ctx.job.id]), loop).result()
        with pytest.raises(LeaseLost), ctx.prepare():
            pass
        seen.append("lost")

    await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: seen == [41, "lost"])


async def test_a_job_that_goes_on_after_its_end_is_not_told_to_stop(
    make_app: MakeApp, effects: Effects, start: Start, lines: Lines
) -> None:
    app = make_app(wakeup=False, lease=1)  # so that the keeper asks every third of a second
    reasons: list[Any] = []

    @app.task
    async def lingering(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
        await asyncio.sleep(1.5)
        reasons.append(ctx.signal.reason)

    await lingering.aenqueue()
    await start(app)

    await eventually(lambda: reasons)
    assert reasons == [None]
    await eventually(lambda: lines("succeeded"))
    assert lines("gives up") == []


# Time is over.


async def test_a_timeout_in_the_block_rolls_it_back(app: App, lane: str, effects: Effects, start: Start) -> None:
    @app.task(timeout=0.1, retry=None)
    async def coroutine(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            await asyncio.sleep(60)

    @app.task(timeout=0.1, retry=None)
    def thread(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(effects.insert, 1)
            ctx.signal.wait_blocking()

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: became(job, "failed", attempt=1))
    assert job.error is not None
    assert job.error.type == "TimeoutError"
    assert await effects.rows() == []


async def test_a_stop_in_the_block_rolls_it_back_and_releases_the_job(
    app: App, lane: str, effects: Effects, start: Start, store: Store
) -> None:
    entered = threading.Event()

    @app.task
    async def coroutine(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            entered.set()
            await asyncio.sleep(60)

    @app.task
    def thread(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(effects.insert, 1)
            entered.set()
            ctx.signal.wait_blocking()
            ctx.signal.raise_if_aborted()

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    worker = await start(app)
    await eventually(entered.is_set)

    await worker.stop(grace=0)

    record = await record_of(store, job.id)
    assert (record.state, record.attempt) == (State.WAITING, 0)
    assert await effects.rows() == []


@on_postgres  # a statement of SQLite's takes a moment
async def test_a_thread_that_waits_for_a_statement_is_interrupted(app: App, effects: Effects, start: Start) -> None:
    raised: list[BaseException] = []

    @app.task(timeout=0.2, retry=None)
    def slow(ctx: Context) -> None:
        with pytest.raises(Aborted) as error, ctx.complete() as tx:
            tx.execute("SELECT pg_sleep(60)")
        raised.append(error.value)

    await slow.aenqueue()
    await start(app)

    await eventually(lambda: raised)


@on_postgres  # nobody could settle it while the block is open
async def test_a_thread_that_did_not_stop_in_time_completes_nothing_later(
    app: App, effects: Effects, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:  # I6: its attempt was settled, by its own token
    monkeypatch.setattr("tenure.worker.executor.STRAY", 0.05)
    goes_on = threading.Event()
    raised: list[BaseException] = []

    @app.task(timeout=1, max_attempts=3)  # enough for the second attempt
    def stray(ctx: Context) -> None:
        if ctx.attempt > 1:
            with ctx.complete() as tx:
                tx.execute(effects.insert, ctx.attempt)
            return
        with pytest.raises((LeaseLost, Aborted)) as error, ctx.complete() as tx:
            tx.execute(effects.insert, ctx.attempt)
            goes_on.wait()
        raised.append(error.value)

    job = await stray.aenqueue()
    await start(app)

    await job.aresult(timeout=10)
    goes_on.set()
    await eventually(lambda: raised)
    assert await effects.rows() == [2]


# Others.


async def test_leases_outlive_the_block_of_a_neighbour(
    make_app: MakeApp, effects: Effects, start: Start, lines: Lines
) -> None:
    app = make_app(lease=1)
    reasons: list[Any] = []

    @app.task
    async def neighbour(ctx: Context) -> None:
        await asyncio.sleep(2.5)
        reasons.append(ctx.signal.reason)

    @app.task
    async def slow(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            await asyncio.sleep(2)

    jobs = [await neighbour.aenqueue(), await slow.aenqueue()]
    await start(app, concurrency=2)

    for job in jobs:
        await job.aresult(timeout=10)
    assert reasons == [None]
    assert [await attempts(job) for job in jobs] == [1, 1]
    assert await effects.rows() == [1]


@on_sqlite  # elsewhere nobody waits for it
async def test_a_block_that_keeps_everybody_from_writing_is_bounded(
    make_app: MakeApp, lane: str, effects: Effects, start: Start
) -> None:
    app = make_app(complete_timeout=0.2, retry=None)

    @app.task
    async def coroutine(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            await asyncio.sleep(0.5)

    @app.task
    def thread(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(effects.insert, 1)
            time.sleep(0.5)

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: became(job, "failed", attempt=1))
    assert job.error is not None
    assert job.error.type == "TimeoutError"
    assert await effects.rows() == []
