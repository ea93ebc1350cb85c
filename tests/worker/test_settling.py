"""Outcomes on their way into the store, through whatever happens to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import State
from tenure.core.lifecycle import Finish
from tenure.core.options import Retention
from tenure.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from tenure.events import Fenced
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest, Settlement, VerdictKind
from tenure.tasks.context import Context
from tenure.worker import outage, pruner
from tenure.worker import worker as worker_module
from tenure.worker.worker import Status
from tests.faults.scale import on

from .conftest import MakeApp, Start, Wire, eventually, record_of


async def test_jobs_that_end_together_are_settled_together(make_app: MakeApp, wire: Wire, start: Start) -> None:
    app = make_app(store=wire.open)
    all_there = asyncio.Barrier(100)

    @app.task
    async def task() -> None:
        await all_there.wait()

    jobs = await task.aenqueue_many([()] * 100)
    await start(app, concurrency=100)
    for job in jobs:
        await job.aresult(timeout=10)
    calls = [args[0] for name in ("settle", "settle_and_lease") for args in wire.calls[name]]
    ended = [sum(isinstance(step, Finish) for _, step in settlements) for settlements in calls]
    assert sum(ended) == 100
    assert sum(map(bool, ended)) <= 5


@pytest.mark.usefixtures("keeps_what_is_ahead")
async def test_settling_and_leasing_share_a_round_trip(make_app: MakeApp, wire: Wire, start: Start) -> None:
    app = make_app(store=wire.open)
    ran = []

    @app.task
    async def task() -> None:
        ran.append(1)

    await task.aenqueue_many([()] * 2000)
    await start(app, concurrency=10)
    await eventually(lambda: len(ran) == 2000)
    # On 10 slots one by one, 200 round trips would lease them and as many settle them.
    assert len(wire.calls["settle"]) + len(wire.calls["settle_and_lease"]) < 100
    assert sum(bool(settlements) for settlements, _ in wire.calls["settle_and_lease"]) > 1


async def test_without_look_ahead_no_more_is_leased_than_there_are_slots(
    make_app: MakeApp, wire: Wire, start: Start
) -> None:
    app = make_app(store=wire.open)
    ran = []

    @app.task
    async def task() -> None:
        ran.append(1)

    await task.aenqueue_many([()] * 200)
    await start(app, concurrency=10, look_ahead=False)
    await eventually(lambda: len(ran) == 200)
    requests: list[LeaseRequest] = [args[1] for args in wire.calls["settle_and_lease"]]
    assert max(request.limit for request in requests) == 10


async def test_long_jobs_are_not_leased_ahead(make_app: MakeApp, wire: Wire, start: Start) -> None:
    app = make_app(store=wire.open)
    ran = []

    @app.task
    async def task() -> None:
        await asyncio.sleep(0.03)
        ran.append(1)

    await task.aenqueue_many([()] * 60)
    await start(app, concurrency=2)
    await eventually(lambda: len(ran) == 60)
    requests: list[LeaseRequest] = [args[1] for args in wire.calls["settle_and_lease"]]
    assert max(request.limit for request in requests[-20:]) <= 2


async def test_a_batch_that_the_store_chokes_on_fails_only_the_bad_job(
    make_app: MakeApp, store: Store, wire: Wire, start: Start
) -> None:
    app = make_app(store=wire.open)
    all_there = asyncio.Barrier(16)

    @app.task
    async def task(number: int) -> int:
        await all_there.wait()
        return number

    def choke(settlements: list[Settlement]) -> None:
        for _, step in settlements:
            if isinstance(step, Finish) and step.result == "11":
                raise ValueError("eleven cannot be stored")

    async def settle(method: Any, settlements: list[Settlement]) -> Any:
        choke(settlements)
        return await method(settlements)

    async def settle_and_lease(method: Any, settlements: list[Settlement], request: LeaseRequest) -> Any:
        choke(settlements)
        return await method(settlements, request)

    fenced: list[Fenced] = []
    app.listen(Fenced)(fenced.append)
    wire.hooks |= {"settle": settle, "settle_and_lease": settle_and_lease}
    jobs = await task.aenqueue_many([(n,) for n in range(16)])
    await start(app, concurrency=16)

    async def states() -> list[State]:
        return [(await record_of(store, job.id)).state for job in jobs]

    await eventually(lambda: _all_final(states))
    assert [number for number, state in enumerate(await states()) if state is State.FAILED] == [11]
    error = (await record_of(store, jobs[11].id)).error
    assert error is not None
    assert "eleven" in error.message
    assert fenced == [], "to find out whether the store settles anything is no event"


async def test_a_job_whose_settle_was_refused_is_held_until_its_failure_is_settled(
    make_app: MakeApp, store: Store, wire: Wire, start: Start
) -> None:
    app = make_app(store=wire.open)
    refused = asyncio.Event()
    release = asyncio.Event()

    @app.task
    async def child() -> None: ...

    @app.task(lease=1, retry=None)
    async def parent(ctx: Context) -> None:
        ctx.enqueue(child.using(unique="key", unique_raises=True).bind())

    async def settle_and_lease(method: Any, settlements: list[Settlement], request: LeaseRequest) -> Any:
        if refused.is_set() and settlements:
            await release.wait()
        verdicts, leased = await method(settlements, request)
        if any(verdict.kind is VerdictKind.REFUSED for verdict in verdicts):
            wire.calls["renew"].clear()
            refused.set()
        return verdicts, leased

    wire.hooks["settle_and_lease"] = settle_and_lease
    await child.using(unique="key", queue="elsewhere").aenqueue()
    job = await parent.aenqueue()
    await start(app, "default")
    await refused.wait()

    # The failure is on its way, for longer than the lease: nobody else may have the job meanwhile.
    await eventually(lambda: len(wire.calls["renew"]) >= 4)
    release.set()

    async def failed() -> bool:
        return (await record_of(store, job.id)).state is State.FAILED

    await eventually(failed)
    assert (await record_of(store, job.id)).attempt == 1


async def _all_final(states: Callable[[], Any]) -> bool:
    return all(state.final for state in await states())


class Breakdown:
    """Lets every call of these kinds fail until it is over."""

    def __init__(self, wire: Wire, error: Exception, *calls: str) -> None:
        self._error = error
        self.over = threading.Event()
        self.failed = 0
        for name in calls:
            wire.hooks[name] = self._fail

    async def _fail(self, method: Any, *args: Any) -> Any:
        if self.over.is_set():
            return await method(*args)
        self.failed += 1
        raise self._error


EVERYTHING = (
    "open",
    "settle",
    "settle_and_lease",
    "renew",
    "beat",
    "register",
    "reap",
    "busy_queues",
    "prune",
    "queues",
    "wait_for_work",
)


@on("sqlite", "redis")
@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("gone"), OutcomeUnknown("perhaps"), StoreFull("full"), StoreError("what nobody knows")],
    ids=lambda e: type(e).__name__,
)
async def test_an_outcome_is_kept_through_an_outage_and_told_of_once(
    make_app: MakeApp, wire: Wire, start: Start, lines: Callable[[str], list[str]], error: Exception
) -> None:  # F17, G7, H23, Q12
    app = make_app(store=wire.open)
    started, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def task() -> str:
        started.set()
        await finish.wait()
        return "kept"

    job = await task.aenqueue()
    worker = await start(app, beat=0.1)
    await started.wait()
    outage = Breakdown(wire, error, *EVERYTHING)
    finish.set()
    await eventually(lambda: outage.failed > 6)
    assert worker.status is Status.RUNNING
    outage.over.set()
    assert await job.aresult(timeout=10) == "kept"
    await eventually(lambda: lines("is back"))
    assert len(lines("is down")) == 1
    assert len(lines("is back")) == 1


async def test_a_settle_whose_answer_was_lost_is_settled_once(
    make_app: MakeApp, store: Store, wire: Wire, start: Start
) -> None:  # F16, I6
    app = make_app(store=wire.open)
    ran = []

    @app.task
    async def task() -> int:
        ran.append(1)
        return len(ran)

    async def lose_the_answer(method: Any, settlements: list[Settlement], *request: LeaseRequest) -> Any:
        answer = await method(settlements, *request)
        if settlements and "settle" in wire.hooks:
            del wire.hooks["settle"], wire.hooks["settle_and_lease"]
            raise OutcomeUnknown("the connection was cut")
        return answer

    wire.hooks |= {"settle": lose_the_answer, "settle_and_lease": lose_the_answer}
    job = await task.aenqueue()
    await start(app)
    assert await job.aresult(timeout=10) == 1
    await eventually(lambda: not wire.hooks)
    [queue] = await store.queues()
    assert (queue.totals.succeeded, queue.totals.processed) == (1, 1)


@on("postgres")
async def test_a_store_that_is_absent_at_the_start_is_waited_for(
    make_app: MakeApp, wire: Wire, start: Start, lines: Callable[[str], list[str]]
) -> None:  # F14
    app = make_app(store=wire.open)

    @app.task
    async def task() -> int:
        return 1

    job = await task.aenqueue()
    outage = Breakdown(wire, StoreUnavailable("not yet"), *EVERYTHING)
    await start(app)
    await eventually(lambda: outage.failed > 4)
    outage.over.set()
    assert await job.aresult(timeout=10) == 1
    assert len(lines("is down")) == 1


async def test_a_worker_can_be_stopped_while_the_store_is_gone(
    make_app: MakeApp, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:  # I18
    monkeypatch.setattr(worker_module, "SETTLE_TIMEOUT", 0.1)
    app = make_app(store=wire.open)
    started = asyncio.Event()

    @app.task
    async def task() -> None:
        started.set()
        await asyncio.sleep(30)

    await task.aenqueue()
    worker = app.worker(term_timeout=0.1)
    await worker.start()
    await started.wait()
    Breakdown(wire, StoreUnavailable("gone"), *EVERYTHING, "leave")
    async with asyncio.timeout(20):
        await worker.stop(grace=0)
    assert worker.status is Status.STOPPED


async def test_a_worker_whose_keeper_dies_goes_down_loudly(
    make_app: MakeApp, wire: Wire, lines: Callable[[str], list[str]]
) -> None:  # taste 15
    opened: list[Store] = []

    def open_once() -> Store:
        if opened:
            raise RuntimeError("no second connection")
        opened.append(wire.open())
        return opened[0]

    worker = make_app(store=open_once).worker()
    await worker.start()
    await eventually(lambda: worker.status is Status.STOPPED)
    with pytest.raises(RuntimeError, match=" died"):
        await worker.stop()
    assert lines(" died")


async def test_a_chore_that_fails_is_logged_and_tried_again(
    make_app: MakeApp, wire: Wire, start: Start, lines: Callable[[str], list[str]]
) -> None:  # G7
    app = make_app(store=wire.open)
    Breakdown(wire, RuntimeError("a bug"), "reap")

    @app.task
    async def task() -> int:
        return 1

    await start(app, "default")
    assert await (await task.aenqueue()).aresult(timeout=5) == 1
    await eventually(lambda: lines("reaper failed"))


@on("sqlite")
async def test_a_chore_that_the_store_refuses_is_said_once_and_is_no_outage(
    make_app: MakeApp, wire: Wire, start: Start, lines: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "LONGEST", 0.02)
    app = make_app(store=wire.open)
    refused = Breakdown(wire, StoreUnavailable("you may not"), "reap")

    @app.task
    async def task() -> int:
        return 1

    await start(app, "default")
    await eventually(lambda: refused.failed > 20)
    assert await (await task.aenqueue()).aresult(timeout=5) == 1
    assert len(lines("the store refuses the reaper, retrying: you may not")) == 1
    assert not lines("is down")
    refused.over.set()
    await eventually(lambda: lines("the store no longer refuses the reaper"))


@on("redis")
async def test_jobs_of_a_worker_that_fell_silent_are_reaped_by_any_other(
    app: App, store: Store, start: Start
) -> None:  # Q29, H13, I12
    @app.task(lease=1)
    async def task(ctx: Context) -> int:
        return ctx.job.losses

    jobs = await task.aenqueue_many([()] * 3)
    request = LeaseRequest(queues=("default",), limit=3, worker="silent", ttl=1, nonce=5)
    assert len((await store.lease(request)).leases) == 3
    await start(app)
    for job in jobs:
        assert await job.aresult(timeout=20) == 1


@on("memory")
async def test_a_worker_that_does_not_reap_leaves_them(
    app: App, store: Store, wire: Wire, make_app: MakeApp, start: Start
) -> None:  # H6
    app = make_app(store=wire.open)

    @app.task
    async def task() -> int:
        return 1

    await start(app, reap=False)
    await (await task.aenqueue()).aresult(timeout=5)
    await asyncio.sleep(1.5)
    assert not any(wire.calls[name] for name in ("reap", "prune", "turn", "forget"))


async def test_finished_jobs_are_pruned_by_the_app_s_retention(
    make_app: MakeApp, store: Store, start: Start
) -> None:  # T11, I16
    app = make_app(keep={"*": Retention(count=5), "kept": Retention(count=50)})

    @app.task
    async def task() -> None: ...

    for queue in ("default", "kept"):
        await task.using(queue=queue).aenqueue_many([()] * 20)
    await start(app, concurrency=10, prune_interval=0.05)

    async def kept() -> dict[str, int]:
        return {queue.name: queue.succeeded for queue in await store.queues() if not queue.waiting + queue.running}

    await eventually(lambda: _equals(kept, {"default": 5, "kept": 20}))


async def _equals(value: Callable[[], Any], wanted: Any) -> bool:
    return bool(await value() == wanted)


async def test_many_finished_jobs_are_pruned_before_the_interval_is_over(
    make_app: MakeApp, store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:  # I16
    monkeypatch.setattr(pruner, "PRUNE_AFTER_JOBS", 500)
    app = make_app(keep=Retention(count=100))

    @app.task
    async def task() -> None: ...

    await start(app, concurrency=10, prune_interval=3600)
    await task.aenqueue_many([()] * 2500)

    async def kept() -> int:
        [queue] = await store.queues()
        return queue.succeeded if not queue.waiting + queue.running else 2500

    await eventually(lambda: _below(kept, 700), within=30)


async def _below(value: Callable[[], Any], limit: int) -> bool:
    return bool(await value() < limit)
