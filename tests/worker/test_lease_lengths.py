"""How long leases last: as the job says, or its task, or the worker; and what has not started comes back sooner."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import NewJob, State
from tenure.core.lease import AbortReason
from tenure.errors import StoreUnavailable
from tenure.stores.base import Store
from tenure.stores.values import Renewal, Search
from tenure.tasks.context import Context
from tenure.worker import attempt, loop
from tests.faults.scale import on

from .conftest import MakeApp, Start, Wire, eventually, record_of, whatever_the_store


async def lease_left(store: Store, job_id: str) -> float:
    return (await record_of(store, job_id)).lease_left or 0.0


# Of jobs whose producer does not know their task.


async def test_a_job_from_elsewhere_is_held_as_long_as_its_task_says(
    app: App, make_app: MakeApp, store: Store, start: Start
) -> None:
    finish = asyncio.Event()

    @app.task(lease=20, renew=None)
    async def once() -> None:
        await finish.wait()

    @app.task(lease=20, renew=10)
    async def rarely() -> None:
        await finish.wait()

    elsewhere = make_app()
    jobs = [await elsewhere.remote(name).aenqueue() for name in ("once", "rarely")]
    await start(app, lease=1, concurrency=2)
    for job in jobs:
        await eventually(functools.partial(_held_longer, store, job.id, 15))
        assert await lease_left(store, job.id) <= 20
    finish.set()
    for job in jobs:
        await job.aresult(timeout=10)
        assert (await record_of(store, job.id)).fence == 1


async def test_a_job_from_elsewhere_whose_task_says_less_is_not_held_for_longer(
    app: App, make_app: MakeApp, store: Store, start: Start
) -> None:
    finish = asyncio.Event()

    @app.task(lease=5)
    async def task() -> None:
        await finish.wait()

    job = await make_app().remote("task").aenqueue()
    await start(app, lease=600)

    async def is_short() -> bool:
        return 0 < await lease_left(store, job.id) <= 5

    await eventually(is_short)
    finish.set()


async def _held_longer(store: Store, job_id: str, seconds: float) -> bool:
    [found] = await store.get([job_id])
    return found is not None and (found.lease_left or 0.0) > seconds


async def test_a_job_keeps_a_lease_of_its_own(app: App, store: Store, start: Start) -> None:
    finish, started = asyncio.Event(), asyncio.Event()

    @app.task(lease=60)
    async def task() -> None:
        started.set()
        await finish.wait()

    await store.enqueue([NewJob(id="own", task="task", queue="default", lease=1.5)])
    await start(app, lease=30)
    await started.wait()
    before = await lease_left(store, "own")

    async def is_renewed() -> bool:
        nonlocal before
        before, last = await lease_left(store, "own"), before
        return before > last

    await eventually(is_renewed)
    assert 0 < await lease_left(store, "own") <= 1.5
    finish.set()


# Of jobs that are never renewed.


@on("memory", "redis")
async def test_a_job_that_is_never_renewed_may_settle_until_it_is_reaped(
    app: App, store: Store, start: Start
) -> None:  # T3
    ran = []

    @app.task(lease=1, renew=None)
    async def task() -> str:
        ran.append(1)
        await asyncio.sleep(1.4)
        return "done"

    job = await task.aenqueue()
    await start(app, reap=False)
    assert await job.aresult(timeout=10) == "done"
    assert ran == [1]
    assert (await record_of(store, job.id)).losses == 0


@on("memory")
async def test_a_job_whose_lease_is_over_and_of_which_the_store_says_nothing_is_given_up(
    make_app: MakeApp, wire: Wire, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "UNCONFIRMED_LIMIT", 0.2)
    app = make_app(store=wire.open)
    reasons: list[AbortReason | None] = []

    @app.task(lease=1, renew=None)
    async def task(ctx: Context) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(ctx.signal.reason)

    async def away(method: Any, renewals: list[Renewal]) -> None:
        raise StoreUnavailable("it is away")

    wire.hooks["renew"] = away
    await task.aenqueue()
    await start(app, reap=False)
    await eventually(lambda: reasons)
    assert reasons == [AbortReason.ERROR]


@on("memory")
async def test_a_job_is_told_that_it_was_reaped_though_no_signal_comes(
    make_app: MakeApp, store: Store, start: Start
) -> None:
    app = make_app(wakeup=False)
    reasons: list[AbortReason | None] = []

    @app.task(lease=1, renew=None, max_losses=1)
    async def task(ctx: Context) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(ctx.signal.reason)

    await task.aenqueue()
    await start(app)
    await eventually(lambda: reasons)
    assert reasons == [AbortReason.COMPLETED]  # it has failed as lost


# Of jobs that are leased ahead.


@pytest.mark.usefixtures("keeps_what_is_ahead")
async def test_what_was_leased_ahead_and_has_not_started_is_not_held_for_long(
    app: App, store: Store, start: Start
) -> None:
    blocked, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def short() -> None:
        pass

    @app.task
    async def long() -> None:
        blocked.set()
        await finish.wait()

    await short.aenqueue_many([()] * 300)
    await long.aenqueue()
    await short.aenqueue_many([()] * 20)
    await start(app, concurrency=1, lease=600)
    await blocked.wait()
    # What has run is settled with the next round trip: those are the ones behind the long one.
    held = [job for job in await _running(store) if job.task == "short"][-20:]
    assert held
    assert all((job.lease_left or 0.0) <= loop.AHEAD_FOR for job in held)
    finish.set()


async def _running(store: Store) -> list[Any]:
    return (await store.search(Search(state=State.RUNNING, limit=500))).jobs


@pytest.mark.usefixtures("keeps_what_is_ahead")
@pytest.mark.parametrize("options", [{}, {"renew": None}, {"renew": 20}], ids=["renewed", "never renewed", "rarely"])
@whatever_the_store
async def test_a_job_that_was_leased_ahead_is_held_as_long_as_any_once_it_runs(
    app: App, store: Store, start: Start, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(loop, "AHEAD_FOR", 1.0)
    finish = asyncio.Event()

    @app.task
    async def short() -> None:
        pass

    @app.task(lease=60, **options)
    async def long() -> str:
        await finish.wait()
        return "done"

    await short.aenqueue_many([()] * 300)
    job = await long.aenqueue()
    await start(app, concurrency=1, lease=60)
    await eventually(lambda: _held_longer(store, job.id, 50))
    assert await lease_left(store, job.id) <= 60
    finish.set()
    assert await job.aresult(timeout=10) == "done"
