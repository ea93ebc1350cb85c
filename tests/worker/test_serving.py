"""A worker that joins and leaves queues while it runs (W26, W28)."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import JobRecord, State
from tenure.core.lease import AbortReason
from tenure.core.patterns import joined, without
from tenure.errors import InvalidName, InvalidOption
from tenure.stores.base import Store
from tenure.tasks.context import Context
from tenure.worker.worker import Worker

from .conftest import MakeApp, Start, Wire, eventually, record_of

RELEASED = (State.WAITING, 0, 0)


async def end_of(store: Store, job_id: str) -> tuple[State, int, int]:
    record = await record_of(store, job_id)
    return record.state, record.attempt, record.losses


async def listed(app: App, worker: Worker, *queues: str) -> bool:
    return [info.queues for info in await app.aworkers() if info.id == worker.id] == [queues]


async def test_a_worker_serves_a_queue_from_then_on(app: App, start: Start) -> None:  # W26, W27
    @app.task
    async def task() -> int:
        return 1

    waiting = await task.using(queue="late").aenqueue()
    worker = await start(app, "default", poll=30)
    assert await (await task.aenqueue()).aresult(timeout=5) == 1

    await worker.serve("late")

    assert await waiting.aresult(timeout=5) == 1
    new = await task.using(queue="late").aenqueue()
    assert await new.aresult(timeout=5) == 1, "it is woken for that queue too"
    await eventually(lambda: listed(app, worker, "default", "late"))


async def test_a_pattern_may_join(app: App, start: Start) -> None:  # W26, R14
    @app.task
    async def task() -> int:
        return 1

    first = await task.using(queue="mail.a").aenqueue()
    worker = await start(app, "default")
    await worker.serve("mail.*")
    second = await task.using(queue="mail.b").aenqueue()
    assert [await job.aresult(timeout=5) for job in (first, second)] == [1, 1]


async def test_what_joins_comes_last(app: App, start: Start) -> None:  # T17
    ran: list[str] = []
    started, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def gate() -> None:
        started.set()
        await go.wait()

    @app.task
    async def task(ctx: Context) -> None:
        ran.append(ctx.job.queue)

    worker = await start(app, "first")
    await gate.using(queue="first").aenqueue()
    await started.wait()
    await worker.serve("second")
    last = await task.using(queue="second").aenqueue()
    await task.using(queue="first").aenqueue()
    go.set()
    await last.aresult(timeout=5)
    assert ran == ["first", "second"]


async def test_leaving_gives_running_jobs_back(app: App, store: Store, start: Start) -> None:  # W28, I9
    started = asyncio.Semaphore(0)
    told: list[AbortReason | None] = []

    @app.task
    async def task(ctx: Context) -> None:
        started.release()
        try:
            await asyncio.sleep(60)
        finally:
            told.append(ctx.signal.reason)

    worker = await start(app, "left", "kept", concurrency=2)
    left = await task.using(queue="left").aenqueue()
    kept = await task.using(queue="kept").aenqueue()
    await started.acquire()
    await started.acquire()

    await worker.leave("left")

    assert told == [AbortReason.SHUTDOWN]
    assert await end_of(store, left.id) == RELEASED
    assert (await record_of(store, kept.id)).state is State.RUNNING
    await eventually(lambda: listed(app, worker, "kept"))


async def test_leaving_may_finish_first(app: App, store: Store, start: Start) -> None:  # W28
    started, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def task(ctx: Context) -> AbortReason | None:
        started.set()
        await go.wait()
        return ctx.signal.reason

    worker = await start(app, "left", "kept", concurrency=2)
    running = await task.using(queue="left").aenqueue()
    await started.wait()
    leaving = asyncio.create_task(worker.leave("left", finish=True))
    late = await task.using(queue="left").aenqueue()
    other = await task.using(queue="kept").aenqueue()
    go.set()
    await leaving
    assert await running.aresult(timeout=0) is None
    assert await other.aresult(timeout=5) is None
    assert await end_of(store, late.id) == RELEASED


async def test_a_job_that_ignores_it_is_released_after_its_time(app: App, store: Store, start: Start) -> None:  # W28
    started, finish = threading.Event(), threading.Event()

    @app.task
    def task() -> str:
        started.set()
        finish.wait(20)
        return "too late"

    worker = await start(app, "left", term_timeout=0.1)
    job = await task.using(queue="left").aenqueue()
    await eventually(started.is_set)
    before = time.monotonic()
    await worker.leave("left")
    assert time.monotonic() - before < 5
    finish.set()
    assert await end_of(store, job.id) == RELEASED


@pytest.mark.usefixtures("keeps_what_is_ahead")
async def test_jobs_leased_ahead_of_the_left_queue_go_back(app: App, store: Store, start: Start) -> None:  # W28, I9
    gates: list[tuple[asyncio.Event, asyncio.Event]] = []

    @app.task
    async def quick(number: int) -> None: ...

    @app.task
    async def gate() -> None:
        started, finish = gates[-1]
        started.set()
        await finish.wait()

    worker = await start(app, "kept")

    async def left_in_the_middle() -> list[JobRecord]:
        """The jobs behind one in whose midst the worker has left their queue."""
        started, finish = asyncio.Event(), asyncio.Event()
        gates.append((started, finish))
        await quick.using(queue="left").aenqueue_many([(n,) for n in range(500)])  # short jobs make it look ahead
        await gate.using(queue="left").aenqueue()
        behind = await quick.using(queue="left").aenqueue_many([(n,) for n in range(5)])
        await worker.serve("left")
        await started.wait()
        leaving = asyncio.create_task(worker.leave("left", finish=True))
        finish.set()
        await leaving
        return [await record_of(store, job.id) for job in behind]

    for _ in range(5):  # a busy machine may make short jobs long
        records = await left_in_the_middle()
        assert [(job.state, job.attempt, job.losses) for job in records] == [RELEASED] * 5
        assert [job.seq for job in records] == sorted(job.seq for job in records)
        if any(job.fence for job in records):
            break
        await app.apurge("left")
    else:
        pytest.fail("none was leased ahead: this shows nothing")


async def test_leases_that_arrive_after_leaving_go_back(
    make_app: MakeApp, store: Store, wire: Wire, start: Start
) -> None:  # W28
    app = make_app(store=wire.open)
    arrived, deliver = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @app.task
    async def task(ctx: Context) -> None:
        ran.append(ctx.job.queue)

    async def hold_back(method: Any, *args: Any) -> Any:
        answer = await method(*args)
        if len(answer[1].leases) == 2:
            arrived.set()
            await deliver.wait()
        return answer

    wire.hooks["settle_and_lease"] = hold_back
    left = await task.using(queue="left").aenqueue()
    kept = await task.using(queue="kept").aenqueue()
    worker = await start(app, "left", "kept", concurrency=2)
    await arrived.wait()
    await worker.leave("left")
    deliver.set()
    await kept.aresult(timeout=5)
    await eventually(lambda: _is_released(store, left.id))
    assert ran == ["kept"]


async def _is_released(store: Store, job_id: str) -> bool:
    return await end_of(store, job_id) == RELEASED


async def test_a_queue_that_a_pattern_serves_may_be_left_and_joined_again(app: App, store: Store, start: Start) -> None:
    @app.task
    async def task() -> int:
        return 1

    worker = await start(app)
    assert await (await task.aenqueue()).aresult(timeout=5) == 1
    await worker.leave("default")
    stays = await task.aenqueue()
    assert await (await task.using(queue="other").aenqueue()).aresult(timeout=5) == 1
    assert await end_of(store, stays.id) == RELEASED
    await eventually(lambda: listed(app, worker, "*", "!default"))
    await worker.serve("default")
    assert await stays.aresult(timeout=5) == 1


async def test_a_worker_that_has_left_all_its_queues_waits_to_join_another(app: App, start: Start) -> None:
    @app.task
    async def task() -> int:
        return 1

    worker = await start(app, "default", poll=0.05)
    await worker.leave("default")
    job = await task.aenqueue()
    await asyncio.sleep(0.2)  # several polls
    assert (await job.arefresh()).state is State.WAITING
    await worker.serve("default")
    assert await job.aresult(timeout=5) == 1


async def test_only_a_running_worker_joins_and_leaves(app: App) -> None:  # W27
    worker = app.worker("a")
    with pytest.raises(RuntimeError, match="ready"):
        await worker.serve("b")
    await worker.start()
    await worker.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        await worker.leave("a")


@pytest.mark.parametrize("url", ["memory"], indirect=True)
async def test_what_cannot_be_served_is_refused(app: App, start: Start) -> None:
    worker = await start(app, "*", "!secret.*")
    with pytest.raises(InvalidOption, match=r"'secret\.x' cannot be served: .*'!secret\.\*'"):
        await worker.serve("secret.x")
    for bad in ("no good", "!x", ""):
        with pytest.raises(InvalidName):
            await worker.serve(bad)
        with pytest.raises(InvalidName):
            await worker.leave(bad)


@pytest.mark.parametrize(
    ("before", "queue", "after"),
    [
        (["a"], "b", ("a", "b")),
        (["a"], "a", ("a",)),
        (["*", "!b"], "b", ("*", "b")),
        (["*"], "b", ("*", "b")),
        (["a"], "m*", ("a", "m*")),
        (["*", "!m*"], "m*", ("*", "m*")),
    ],
)
def test_a_list_with_one_queue_more(before: list[str], queue: str, after: tuple[str, ...]) -> None:
    assert joined(before, queue) == after


@pytest.mark.parametrize(
    ("before", "queue", "after"),
    [
        (["a", "b"], "b", ("a",)),
        (["a"], "a", ()),
        (["a"], "b", ("a",)),
        (["*"], "b", ("*", "!b")),
        (["b", "*"], "b", ("*", "!b")),
        (["*", "!b"], "b", ("*", "!b")),
        (["a*"], "b", ("a*",)),
        (["a", "m*"], "m*", ("a",)),
        (["ma", "m*"], "m*", ("ma", "!m*")),
        (["*"], "m*", ("*", "!m*")),
    ],
)
def test_a_list_with_one_queue_less(before: list[str], queue: str, after: tuple[str, ...]) -> None:
    assert without(before, queue) == after
