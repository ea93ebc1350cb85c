"""Starting, working and stopping."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import JobRecord, State
from tenure.core.lease import AbortReason
from tenure.stores.base import Store
from tenure.tasks.context import Context
from tenure.worker.worker import Status

from .conftest import MakeApp, Start, Wire, eventually, record_of


async def test_a_worker_is_ready_then_running_then_stopping_then_stopped(app: App) -> None:  # G1, G2, G3, Q3
    started, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def task() -> str:
        started.set()
        await finish.wait()
        return "done"

    worker = app.worker()
    seen = [worker.status]
    stop = await worker.start()
    seen.append(worker.status)
    job = await task.aenqueue()
    await started.wait()
    stopping = asyncio.create_task(stop())
    await eventually(lambda: worker.status is not Status.RUNNING)
    seen.append(worker.status)
    finish.set()
    await stopping
    seen.append(worker.status)
    assert seen == ["ready", "running", "stopping", "stopped"]
    assert await job.aresult(timeout=0) == "done"


async def test_a_worker_starts_only_once(app: App, start: Start) -> None:
    worker = await start(app)
    with pytest.raises(RuntimeError, match="can be started once"):
        await worker.start()


async def test_a_worker_that_never_started_can_be_stopped(app: App) -> None:
    worker = app.worker()
    await worker.stop()
    assert worker.status is Status.STOPPED


async def test_a_block_starts_and_stops_a_worker(app: App) -> None:
    @app.task
    async def task() -> int:
        return 7

    async with app.worker() as worker:
        assert await (await task.aenqueue()).aresult(timeout=5) == 7
    assert worker.status is Status.STOPPED


async def test_no_job_is_leased_after_stop(app: App, store: Store) -> None:  # G4, I18
    started, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def task() -> None:
        started.set()
        await finish.wait()

    worker = app.worker(concurrency=2)
    await worker.start()
    first = await task.aenqueue()
    await started.wait()
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker.status is Status.STOPPING)
    late = await task.aenqueue()
    finish.set()
    await stopping
    assert (await record_of(store, first.id)).state is State.SUCCEEDED
    assert (await record_of(store, late.id)).fence == 0


@pytest.mark.usefixtures("keeps_what_is_ahead")
async def test_jobs_leased_ahead_are_released_to_the_front_when_the_worker_stops(
    app: App, store: Store
) -> None:  # Q9, I9
    gates: list[tuple[asyncio.Event, asyncio.Event]] = []

    @app.task
    async def quick(number: int) -> None: ...

    @app.task
    async def gate() -> None:
        started, finish = gates[-1]
        started.set()
        await finish.wait()

    async def stopped_in_the_middle() -> list[JobRecord]:
        """The jobs behind one in whose midst the worker was stopped."""
        started, finish = asyncio.Event(), asyncio.Event()
        gates.append((started, finish))
        worker = app.worker()
        await quick.aenqueue_many([(n,) for n in range(500)])  # short jobs make the worker look ahead
        await gate.aenqueue()
        behind = await quick.aenqueue_many([(n,) for n in range(5)])
        await worker.start()
        await started.wait()
        stopping = asyncio.create_task(worker.stop())
        later = await quick.aenqueue(99)
        finish.set()
        await stopping
        return [await record_of(store, job.id) for job in [*behind, later]]

    for _ in range(5):  # a busy machine may make short jobs long
        waiting = await stopped_in_the_middle()
        assert [(job.state, job.attempt, job.losses) for job in waiting] == [(State.WAITING, 0, 0)] * 6
        assert [job.seq for job in waiting] == sorted(job.seq for job in waiting)
        if any(job.fence for job in waiting):
            break
        await app.apurge("default")
    else:
        pytest.fail("none was leased ahead: this shows nothing")


async def test_leases_that_arrive_after_stop_are_released(make_app: MakeApp, store: Store, wire: Wire) -> None:  # I18
    app = make_app(store=wire.open)
    arrived, deliver = asyncio.Event(), asyncio.Event()

    @app.task
    async def task() -> None: ...

    async def hold_back(method: Any, *args: Any) -> Any:
        answer = await method(*args)
        if answer[1].leases:
            arrived.set()
            await deliver.wait()
        return answer

    wire.hooks["settle_and_lease"] = hold_back
    worker = app.worker()
    await worker.start()
    job = await task.aenqueue()
    await arrived.wait()
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker.status is Status.STOPPING)
    deliver.set()
    await stopping
    record = await record_of(store, job.id)
    assert (record.state, record.attempt, record.fence) == (State.WAITING, 0, 1)


async def test_when_the_grace_is_over_a_coroutine_is_cancelled_and_its_job_released(
    app: App, store: Store
) -> None:  # Q9, I18
    started = asyncio.Event()
    seen: list[AbortReason | None] = []

    @app.task
    async def task(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(ctx.signal.reason)

    worker = app.worker()
    await worker.start()
    job = await task.aenqueue()
    await started.wait()
    await worker.stop(grace=0.05)
    record = await record_of(store, job.id)
    assert seen == [AbortReason.SHUTDOWN]
    assert (record.state, record.attempt, record.losses) == (State.WAITING, 0, 0)


async def test_a_job_that_ends_within_the_grace_is_settled(app: App) -> None:  # I18
    started = asyncio.Event()

    @app.task
    async def task() -> str:
        started.set()
        await asyncio.sleep(0.05)
        return "in time"

    worker = app.worker()
    await worker.start()
    job = await task.aenqueue()
    await started.wait()
    await worker.stop(grace=10)
    assert await job.aresult(timeout=0) == "in time"


async def test_a_job_that_does_its_work_although_told_to_stop_has_succeeded(app: App) -> None:
    started = asyncio.Event()

    @app.task
    async def task() -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    worker = app.worker()
    await worker.start()
    job = await task.aenqueue()
    await started.wait()
    await worker.stop(grace=0)
    assert await job.aresult(timeout=0) == "done all the same"


async def test_a_thread_that_ignores_its_signal_does_not_hold_up_the_stop(app: App, store: Store) -> None:  # I18
    started, finish = threading.Event(), threading.Event()

    @app.task
    def task() -> str:
        started.set()
        finish.wait(20)
        return "too late"

    worker = app.worker(term_timeout=0.1)
    await worker.start()
    job = await task.aenqueue()
    await eventually(started.is_set)
    before = time.monotonic()
    await worker.stop(grace=0)
    assert time.monotonic() - before < 10
    finish.set()
    record = await record_of(store, job.id)
    assert (record.state, record.attempt) == (State.WAITING, 0)


async def test_a_thread_that_heeds_its_signal_is_released(app: App, store: Store) -> None:
    started = threading.Event()

    @app.task
    def task(ctx: Context) -> None:
        started.set()
        ctx.signal.wait_blocking(20)
        ctx.signal.raise_if_aborted()

    worker = app.worker()
    await worker.start()
    job = await task.aenqueue()
    await eventually(started.is_set)
    await worker.stop(grace=0)
    record = await record_of(store, job.id)
    assert (record.state, record.attempt) == (State.WAITING, 0)


async def test_several_workers_share_a_process(app: App, start: Start) -> None:  # Q8, Q1
    both = asyncio.Barrier(2)
    holders = set()

    @app.task
    async def task(ctx: Context) -> None:
        holders.add(ctx.worker_id)
        await both.wait()

    workers = [await start(app), await start(app)]
    jobs = await task.aenqueue_many([(), ()])
    for job in jobs:
        await job.aresult(timeout=5)
    assert holders == {worker.id for worker in workers}
    assert {worker.id for worker in await app.aworkers()} == holders


async def test_the_registry_knows_a_worker_while_it_runs(app: App, start: Start) -> None:  # R24, R36
    started, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def task() -> None:
        started.set()
        await finish.wait()

    worker = await start(app, "a*", "default", "!ab", concurrency=3, id="me", beat=0.05)
    await task.aenqueue()
    await started.wait()
    await eventually(lambda: _held(app, 1))
    [entry] = await app.aworkers()
    assert (entry.id, entry.queues, entry.tasks) == ("me", ("a*", "default", "!ab"), ("task",))
    assert (entry.concurrency, entry.held) == (3, 1)
    finish.set()
    await worker.stop()
    assert await app.aworkers() == []


async def _held(app: App, held: int) -> bool:
    [entry] = await app.aworkers()
    return entry.held == held


async def test_an_idle_worker_asks_the_store_rarely(make_app: MakeApp, wire: Wire, start: Start) -> None:  # I16
    app = make_app(store=wire.open)
    await start(app, "default")
    await eventually(lambda: wire.calls["wait_for_work"])
    began = time.monotonic()
    wire.calls.clear()
    await asyncio.sleep(1.2)
    asked = {name: len(calls) for name, calls in list(wire.calls.items())}
    assert sum(asked.values()) <= 5 * (time.monotonic() - began), asked
