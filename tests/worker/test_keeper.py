"""Leases that live as long as their jobs, and no longer than they can be counted on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import JobRecord, Progress, State
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Finish
from tenure.errors import Aborted
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest, Reaped, Renewal
from tenure.tasks.context import Context
from tests.faults.scale import lengths, on

from .conftest import MakeApp, Start, Wire, eventually, record_of


@contextmanager
def somebody_reaps(url: str) -> Iterator[list[Reaped]]:
    """A peer in a thread of its own that takes whatever has expired, however busy this test's loop is."""
    taken: list[Reaped] = []
    over = threading.Event()

    async def reap() -> None:
        store = open_store(url)
        while not over.is_set():
            taken.extend(await store.reap(["default"]))
            await asyncio.sleep(0.02)
        await store.close()

    thread = threading.Thread(target=lambda: asyncio.run(reap()))
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def block(seconds: float) -> None:
    time.sleep(seconds)


def compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


@on("sqlite", "postgres")
@pytest.mark.parametrize(
    "lane",
    ["waits", "blocks the loop", pytest.param("computes on the loop", marks=pytest.mark.long), "computes in a thread"],
)
@pytest.mark.parametrize("seconds", lengths(2.2, 3.2))
async def test_a_job_longer_than_its_lease_runs_once(
    app: App, url: str, store: Store, start: Start, lane: str, seconds: float
) -> None:  # F4, F5
    ran = []

    @app.task(lease=1)
    async def on_the_loop() -> None:
        ran.append(1)
        if lane == "waits":
            await asyncio.sleep(seconds)
        elif lane == "blocks the loop":
            block(seconds)
        else:
            compute(seconds)

    @app.task(lease=1)
    def in_a_thread() -> None:
        ran.append(1)
        compute(seconds)

    job = await (in_a_thread if lane == "computes in a thread" else on_the_loop).aenqueue()
    with somebody_reaps(url) as reaped:
        await start(app)
        await job.aresult(timeout=15)
    assert ran == [1]
    assert reaped == []
    assert (await record_of(store, job.id)).attempt == 1


@pytest.mark.usefixtures("keeps_what_is_ahead")
async def test_all_leases_are_renewed_in_one_call(make_app: MakeApp, wire: Wire, start: Start) -> None:  # T2
    app = make_app(store=wire.open)
    finish = asyncio.Event()

    @app.task(lease=1)
    async def task() -> None:
        await finish.wait()

    await task.aenqueue_many([()] * 20)
    await start(app, concurrency=20)
    await eventually(lambda: len(wire.calls["renew"]) >= 3)
    renewed = [len(renewals) for (renewals,) in list(wire.calls["renew"])]  # the keeper goes on
    assert renewed == [20] * len(renewed)
    finish.set()


async def test_a_long_lease_is_renewed_when_two_thirds_of_it_are_left(
    make_app: MakeApp, wire: Wire, start: Start
) -> None:
    app = make_app(store=wire.open)
    asked: list[float] = []
    renewed: list[float] = []
    finish = asyncio.Event()

    @app.task(lease=3)
    async def task() -> None:
        await finish.wait()

    async def note_lease(method: Any, *args: Any) -> Any:
        at = time.monotonic()  # from here on the worker counts, whenever the job starts
        answer = await method(*args)
        if answer[1].leases:
            asked.append(at)
        return answer

    async def note_renewal(method: Any, renewals: list[Renewal]) -> Any:
        if any(each.ttl is not None for each in renewals):  # else it only asks, for it may have missed a signal
            renewed.append(time.monotonic())
        return await method(renewals)

    wire.hooks |= {"settle_and_lease": note_lease, "renew": note_renewal}
    await task.aenqueue()
    await start(app)
    await eventually(lambda: renewed)
    assert 0.9 < renewed[0] - asked[0] < 2
    finish.set()


async def test_renew_sets_another_interval(make_app: MakeApp, wire: Wire, start: Start) -> None:
    app = make_app(store=wire.open)
    finish = asyncio.Event()

    @app.task(renew=0.05)
    async def task() -> None:
        await finish.wait()

    await task.aenqueue()
    await start(app)
    await eventually(lambda: len(wire.calls["renew"]) > 5)  # else it would be renewed every ten seconds
    finish.set()


@on("redis")
async def test_a_job_that_is_never_renewed_goes_to_another_when_it_outlives_its_lease(
    app: App, store: Store, start: Start
) -> None:  # T3, H9
    attempts: list[int] = []
    reasons: list[AbortReason | None] = []

    @app.task(lease=1, renew=None)
    async def task(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(30)
            finally:
                reasons.append(ctx.signal.reason)
        return ctx.attempt

    job = await task.aenqueue()
    await start(app)
    assert await job.aresult(timeout=10) == 2
    assert attempts == [1, 2]
    assert reasons == [AbortReason.TAKEN]  # not before the store has really given it away
    assert (await record_of(store, job.id)).losses == 1


@on("redis")
@pytest.mark.parametrize("lane", ["loop", "thread"])
async def test_a_worker_whose_renewals_do_not_arrive_lets_go_before_the_store_gives_the_job_away(
    make_app: MakeApp, url: str, wire: Wire, start: Start, lane: str
) -> None:  # F7
    app = make_app(store=wire.open)
    ended: list[tuple[AbortReason | None, float]] = []

    # It lets go when nine tenths of a short lease are over: of three seconds that leaves even a busy machine the time to do so.
    @app.task(lease=3)
    async def on_the_loop(ctx: Context) -> None:
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(30)
            finally:
                ended.append((ctx.signal.reason, time.monotonic()))

    @app.task(lease=3)
    def in_a_thread(ctx: Context) -> None:
        if ctx.attempt == 1:
            reason = ctx.signal.wait_blocking(30)
            ended.append((reason, time.monotonic()))

    async def blackhole(method: Any, renewals: list[Renewal]) -> None:
        await asyncio.Event().wait()

    wire.hooks["renew"] = blackhole
    job = await (on_the_loop if lane == "loop" else in_a_thread).aenqueue()
    with somebody_reaps(url) as reaped:
        await start(app, reap=False)
        await eventually(lambda: reaped)
        given_away = time.monotonic()
        [(reason, at)] = ended
    assert reason is AbortReason.ERROR
    assert at < given_away
    assert reaped[0].id == job.id


@on("postgres")
async def test_a_worker_that_was_frozen_past_its_lease_costs_nothing_else(
    make_app: MakeApp, store: Store, wire: Wire, start: Start
) -> None:  # F2, I5
    """One worker's renewals hang until another has finished its job; it wakes, is refused, and goes on with other jobs."""
    frozen, peer = make_app(store=wire.open), make_app()
    thaw = threading.Event()
    ran: list[str] = []

    async def function(ctx: Context) -> str:
        ran.append(ctx.worker_id)
        if len(ran) == 1:
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(30)
            await eventually(thaw.is_set)
        return ctx.worker_id

    for each in (frozen, peer):
        each.task(lease=1, name="task")(function)

    async def hang(method: Any, renewals: list[Renewal]) -> Any:
        await eventually(thaw.is_set)
        return await method(renewals)

    wire.hooks["renew"] = hang
    [job] = await frozen.aenqueue(frozen.tasks["task"].bind())
    await start(frozen, id="frozen", reap=False)
    await eventually(lambda: ran)
    other = await start(peer, id="peer")
    assert await job.aresult(timeout=10) == "peer"
    thaw.set()
    await other.stop()
    [again] = await frozen.aenqueue(frozen.tasks["task"].bind())
    assert await again.aresult(timeout=10) == "frozen"
    assert ran == ["frozen", "peer", "frozen"]
    assert (await record_of(store, job.id)).result == '"peer"'


REASONS = [
    ("cancel", AbortReason.CANCELLED, State.CANCELLED),
    ("complete", AbortReason.COMPLETED, State.SUCCEEDED),
    ("delete", AbortReason.NOT_FOUND, None),
    ("retire", AbortReason.TAKEN, State.WAITING),
]


@pytest.mark.parametrize(
    ("lane", "wakeup"),
    [
        pytest.param("loop", True, id="loop-signals"),
        pytest.param("thread", True, id="thread-signals"),
        pytest.param("loop", False, id="loop-polling"),
        pytest.param("thread", False, id="thread-polling", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(("action", "reason", "state"), REASONS, ids=[action for action, *_ in REASONS])
async def test_a_running_job_is_told_why_it_must_stop_and_what_it_gives_is_dropped(
    make_app: MakeApp,
    store: Store,
    start: Start,
    action: str,
    reason: AbortReason,
    state: State | None,
    lane: str,
    wakeup: bool,
) -> None:  # Q20, Q21, Q26, Q60, Q61, T14, W18, W22
    app = make_app(wakeup=wakeup)
    started = threading.Event()
    seen: list[AbortReason | None] = []

    @app.task
    async def on_the_loop(ctx: Context) -> str:
        started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append(ctx.signal.reason)
        return "stale"

    @app.task
    def in_a_thread(ctx: Context) -> str:
        started.set()
        seen.append(ctx.signal.wait_blocking(30))
        with pytest.raises(Aborted):
            ctx.signal.raise_if_aborted()
        return "stale"

    job = await (on_the_loop if lane == "loop" else in_a_thread).aenqueue()
    worker = await start(app, beat=0.1)
    await eventually(started.is_set)
    await app.apause("default")
    assert worker.id is not None
    match action:
        case "cancel":
            await store.cancel([job.id])
        case "complete":
            await store.complete(job.id, Finish(State.SUCCEEDED, '"by hand"'))
        case "delete":
            await store.delete([job.id])
        case "retire":
            await store.retire(worker.id)
    asked = time.monotonic()
    await eventually(lambda: seen)
    assert time.monotonic() - asked < 3
    assert seen == [reason]
    await worker.stop()
    [record] = await store.get([job.id])
    assert (record.state if record else None) is state
    assert record is None or record.result in (None, '"by hand"')


async def test_a_lost_lease_ends_the_attempt_quietly(
    app: App, store: Store, start: Start, lines: Callable[[str], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    started = asyncio.Event()

    @app.task
    async def task() -> None:
        started.set()
        await asyncio.sleep(30)

    job = await task.aenqueue()
    worker = await start(app)
    await started.wait()
    await store.cancel([job.id])
    await eventually(lambda: lines("lost its lease"))
    await worker.stop()
    about = [record for record in caplog.records if job.id in record.getMessage()]
    assert len([record for record in about if "lost its lease" in record.getMessage()]) == 1
    assert {record.levelname for record in about} == {"DEBUG"}


async def test_a_late_signal_about_an_older_lease_does_not_abort_the_new_one(
    make_app: MakeApp, store: Store, wire: Wire, start: Start
) -> None:  # I5
    app = make_app(store=wire.open)
    attempts: list[int] = []
    finish = asyncio.Event()

    @app.task
    async def task(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            await asyncio.sleep(30)
        await finish.wait()
        return ctx.attempt

    job = await task.aenqueue()
    worker = await start(app, beat=0.05)
    await eventually(lambda: attempts == [1])
    # Taken from it, and leased by it again, before the signal has been looked at: only the token tells the two apart.
    await store.retire(worker.id or "")
    await eventually(lambda: attempts == [1, 2])
    await eventually(lambda: wire.calls["renew"])
    finish.set()
    assert await job.aresult(timeout=5) == 2


async def test_a_retired_worker_goes_on_as_somebody_else(app: App, store: Store, start: Start) -> None:  # W21, W29, T2
    @app.task
    async def task(ctx: Context) -> str:
        return ctx.worker_id

    worker = await start(app, id="first", beat=0.05)
    assert await (await task.aenqueue()).aresult(timeout=5) == "first"
    await store.retire("first")
    await eventually(lambda: worker.id not in ("first", None))
    assert await (await task.aenqueue()).aresult(timeout=5) == worker.id
    assert [entry.id for entry in await store.workers()] == [worker.id]


@on("sqlite")
async def test_progress_is_joined_to_one_write_a_second(
    make_app: MakeApp, store: Store, wire: Wire, start: Start
) -> None:
    app = make_app(store=wire.open)
    finish = asyncio.Event()

    @app.task
    async def task(ctx: Context) -> None:
        said = 0
        while not finish.is_set():
            said += 1
            ctx.progress(said, 1000, "working")
            await asyncio.sleep(0.001)

    job = await task.aenqueue()
    await start(app)

    async def noted() -> Progress | None:
        return (await record_of(store, job.id)).progress

    first = await eventually(noted)
    assert (first.total, first.note) == (1000, "working")
    began = time.monotonic()
    written = len(wire.calls["renew"])
    await eventually(lambda: _later(noted, first))
    assert len(wire.calls["renew"]) - written <= (time.monotonic() - began) + 1.5
    finish.set()
    await job.aresult(timeout=5)


async def _later(noted: Callable[[], Any], than: Progress) -> bool:
    progress = await noted()
    return bool(progress.done > than.done)


@on("memory")
async def test_a_blocked_loop_is_warned_about_by_the_name_of_the_job(
    app: App, start: Start, lines: Callable[[str], list[str]], caplog: pytest.LogCaptureFixture
) -> None:  # F5
    logged, until = caplog.handler.records, time.monotonic() + 20

    @app.task
    async def task() -> None:
        while not any("blocked the event loop" in each.msg for each in logged) and time.monotonic() < until:
            block(0.1)

    job = await task.aenqueue()
    await start(app)
    await job.aresult(timeout=10)
    [warning] = lines("blocked the event loop")
    assert job.id in warning
    assert "test_keeper.py" in warning


@on("memory")
async def test_a_busy_loop_is_not_warned_about(app: App, start: Start, lines: Callable[[str], list[str]]) -> None:
    @app.task
    async def task() -> None:
        for _ in range(15):
            block(0.1)
            await asyncio.sleep(0)

    job = await task.aenqueue()
    await start(app)
    await job.aresult(timeout=10)
    assert lines("blocked the event loop") == []


@on("redis")
@pytest.mark.parametrize("way", ["waits", "blocks"])
async def test_jobs_leased_ahead_that_cannot_start_are_given_back_to_whoever_is_idle(
    app: App, store: Store, start: Start, way: str
) -> None:  # T21
    """A peer leases what a worker has leased ahead, while the job that is in its way still runs."""
    in_the_way: list[str] = []
    given_back: list[JobRecord] = []

    @app.task
    async def quick(number: int) -> None: ...

    @app.task
    async def gate() -> None:
        in_the_way.append("started")
        if way == "waits":
            await asyncio.sleep(1.5)
        else:
            block(1.5)
        in_the_way.append("ended")

    async def lease_all() -> None:
        peer = open_store(app.url)
        request = LeaseRequest(queues=("default",), limit=10, worker="peer", ttl=60, nonce=7)
        while "ended" not in in_the_way and not given_back:
            if in_the_way:
                given_back.extend(lease.job for lease in (await peer.lease(request)).leases if lease.job.fence > 1)
            await asyncio.sleep(0.02)
        if "ended" in in_the_way:
            given_back.clear()
        await peer.close()

    for again in range(3):  # on a busy machine quick jobs are slow now and then, and nothing is leased ahead of them
        in_the_way.clear()
        await quick.aenqueue_many([(n,) for n in range(500)])
        await gate.aenqueue()
        await quick.aenqueue_many([(n,) for n in range(5)])
        peer = asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(lease_all()))
        if not again:
            await start(app)
        await peer
        if given_back:
            break
    assert {(job.attempt, job.losses) for job in given_back} == {(1, 0)}
