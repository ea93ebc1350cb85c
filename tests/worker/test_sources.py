"""Sources of a worker: what they are offered and told, and that they cannot harm it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tenure import Backoff, Fail
from tenure.app import App
from tenure.core.job import NewJob, State, new_id
from tenure.core.lifecycle import Finish, Transition
from tenure.errors import StoreUnavailable
from tenure.tasks.context import Context
from tenure.worker.attempt import Attempt
from tenure.worker.chores import Chore
from tenure.worker.sources import Host, Source
from tenure.worker.worker import Worker

from .conftest import MakeApp, Wire, eventually, whatever_the_store

pytestmark = whatever_the_store


class Shelf(Source):
    """A source in this process: entries are names of tasks, which become jobs of the queue `shelf`."""

    def __init__(self, *entries: str) -> None:
        self.entries = deque(entries)
        self.offers: list[int] = []
        self.began_jobs: list[tuple[str, int]] = []
        self.ended_jobs: list[tuple[str, State | None]] = []
        self.heard: list[tuple[str, str]] = []
        self.renewed_on: list[int] = []
        self.renewals = 0
        self.calls: list[str] = []
        self.looked_in_vain = False

    def attach(self, host: Host) -> None:
        self.host = host

    def chores(self) -> Mapping[str, Chore]:
        return {"shelf": self.take}

    async def take(self) -> float:
        room = await self.host.room.claim()
        self.offers.append(room)
        taken = [self.entries.popleft() for _ in range(min(room, len(self.entries)))]
        if taken:
            self.looked_in_vain = False
            await self.host.store.enqueue([NewJob(id=new_id(), task=task, queue="shelf") for task in taken])
            return 0.0
        self.looked_in_vain = True
        self.host.wake()
        return 0.01

    def began(self, attempt: Attempt, slot: int) -> None:
        self.began_jobs.append((attempt.lease.job.id, slot))
        self.heard.append(("began", attempt.lease.job.id))

    def ended(self, attempt: Attempt, transition: Transition) -> None:
        self.looked_in_vain = False
        self.ended_jobs.append((attempt.lease.job.id, transition.state if isinstance(transition, Finish) else None))
        self.heard.append(("ended", attempt.lease.job.id))

    async def renew(self) -> float:
        self.renewals += 1
        self.renewed_on.append(threading.get_ident())
        return 0.02

    @property
    def empty(self) -> bool:
        return self.looked_in_vain and not self.entries

    async def close(self) -> None:
        self.calls.append("close")

    async def close_renewing(self) -> None:
        self.calls.append("close_renewing")


def a_worker(app: App, *sources: Source, **options: Any) -> Worker:
    return app.internals.new_worker({"queues": ("*",), **options}, sources)


async def work_until_empty(worker: Worker) -> None:
    worker._until_empty = True
    await worker.start()
    await worker._ended()


async def test_entries_of_a_source_run_and_the_worker_stops_when_none_is_left(app: App) -> None:
    ran: list[str] = []

    @app.task
    def tidy(ctx: Context) -> None:
        ran.append(ctx.job.id)

    shelf = Shelf(*["tidy"] * 7)
    await work_until_empty(a_worker(app, shelf, concurrency=2))

    assert len(ran) == 7
    assert [job for job, _ in shelf.began_jobs] == ran
    assert shelf.ended_jobs == [(job, State.SUCCEEDED) for job in ran]


async def test_until_empty_waits_for_a_source_that_a_job_has_filled(app: App) -> None:
    shelf = Shelf("first")
    ran: list[str] = []

    @app.task
    def first() -> None:
        shelf.entries.append("second")

    @app.task
    def second() -> None:
        ran.append("second")

    await work_until_empty(a_worker(app, shelf))

    assert ran == ["second"]


async def test_no_room_is_offered_while_the_own_store_has_jobs_for_every_slot(app: App) -> None:
    gate = asyncio.Event()

    @app.task
    async def wait() -> None:
        await gate.wait()

    shelf = Shelf("wait")
    await wait.aenqueue_many([()] * 5)
    async with a_worker(app, shelf, concurrency=2) as worker:
        await eventually(lambda: len(worker._loop.running) == 2)
        await asyncio.sleep(0.05)
        assert shelf.offers == []
        gate.set()
        await eventually(lambda: not shelf.entries)
    assert all(0 < offer <= 2 for offer in shelf.offers)


async def test_an_offer_is_never_more_than_the_free_slots_even_before_what_was_taken_is_leased(app: App) -> None:
    running = most = 0

    @app.task
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    shelf = Shelf(*["count"] * 200)
    waiting: list[int] = []

    class Watching(Shelf):
        async def take(self) -> float:
            pause = await super().take()
            waiting.append(sum(queue.waiting + queue.running for queue in await self.host.store.queues()))
            return pause

    shelf.__class__ = Watching
    await work_until_empty(a_worker(app, shelf, concurrency=3))

    assert most <= 3
    assert max(shelf.offers) <= 3
    assert max(waiting) <= 3  # what waits, waits over there


async def test_a_worker_that_runs_few_more_jobs_is_not_offered_more_slots_than_that(app: App) -> None:
    @app.task
    def tidy() -> None: ...

    shelf = Shelf(*["tidy"] * 9)
    worker = a_worker(app, shelf, concurrency=5, max_jobs=2)
    await worker.start()
    await worker._ended()

    assert (shelf.offers, len(shelf.entries)) == ([2], 7)


@pytest.mark.parametrize("how", ["pause", "stop"])
async def test_a_worker_that_pauses_or_stops_offers_no_room(app: App, how: str) -> None:
    gate = asyncio.Event()

    @app.task
    async def hold() -> None:
        await gate.wait()

    shelf = Shelf()
    await hold.aenqueue()
    async with a_worker(app, shelf, concurrency=3) as worker:
        await eventually(lambda: shelf.offers)
        if how == "pause":
            await worker.pause()
        else:
            stopping = asyncio.create_task(worker.stop())
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)  # a look that was under way may end
        offers = len(shelf.offers)
        shelf.entries.append("hold")
        await asyncio.sleep(0.1)
        assert len(shelf.offers) == offers
        assert len(shelf.entries) == 1
        gate.set()
        if how == "pause":
            await worker.resume()
            await eventually(lambda: not shelf.entries)
        else:
            await stopping
            assert len(shelf.offers) == offers


async def test_nothing_is_offered_while_the_own_store_does_not_answer(make_app: MakeApp, wire: Wire) -> None:
    app = make_app()
    app.internals.make_store = wire.open

    async def down(*_: Any) -> Any:
        raise StoreUnavailable("gone")

    @app.task
    def tidy() -> None: ...

    shelf = Shelf()
    async with a_worker(app, shelf, poll=0.05):
        await eventually(lambda: len(shelf.offers) > 2)
        wire.hooks.update(dict.fromkeys(("lease", "settle_and_lease", "busy_queues", "reap"), down))
        await asyncio.sleep(0.02)
        offers = len(shelf.offers)
        shelf.entries.append("tidy")
        await asyncio.sleep(0.3)
        assert (len(shelf.offers), len(shelf.entries)) == (offers, 1)
        wire.hooks.clear()
        await eventually(lambda: not shelf.entries)


@pytest.mark.parametrize("lane", ["loop", "thread", "process"])
async def test_a_source_hears_of_each_start_and_end_once_and_in_order(app: App, lane: str) -> None:
    async def fail_first_on_the_loop(ctx: Context) -> None:
        fail_first(ctx)

    def fail_first(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            raise ValueError("again")

    isolation: Any = {"isolation": "process"} if lane == "process" else {}
    register: Any = app.task(retry=Backoff(initial=0.01, jitter=0), **isolation)
    task = register(fail_first_on_the_loop if lane == "loop" else fail_first)
    shelf = Shelf()
    async with a_worker(app, shelf, concurrency=1):
        job = await task.aenqueue()
        await eventually(lambda: len(shelf.ended_jobs) == 2)

    assert shelf.heard == [("began", job.id), ("ended", job.id)] * 2
    assert shelf.ended_jobs == [(job.id, None), (job.id, State.SUCCEEDED)]
    assert {slot for _, slot in shelf.began_jobs} == {1}


async def test_the_end_of_a_job_that_completes_in_its_own_transaction_is_heard_once(
    make_app: MakeApp, tmp_path: Path
) -> None:
    app = make_app(store=f"sqlite:///{tmp_path}/own.db")

    @app.task
    def settle(ctx: Context) -> None:
        with ctx.complete() as database:
            database.execute("CREATE TABLE IF NOT EXISTS effects (n)")

    shelf = Shelf()
    async with a_worker(app, shelf):
        job = await settle.aenqueue()
        await eventually(lambda: shelf.ended_jobs)
        await asyncio.sleep(0.05)

    assert shelf.heard == [("began", job.id), ("ended", job.id)]
    assert shelf.ended_jobs == [(job.id, State.SUCCEEDED)]


class Broken(Shelf):
    """Raises wherever it can."""

    def chores(self) -> Mapping[str, Chore]:
        return {"shelf": self.raising}

    async def raising(self) -> float:
        raise KeyError("take")

    def began(self, attempt: Attempt, slot: int) -> None:
        raise KeyError("began")

    def ended(self, attempt: Attempt, transition: Transition) -> None:
        raise KeyError("ended")

    async def renew(self) -> float:
        raise KeyError("renew")

    async def close(self) -> None:
        raise KeyError("close")

    async def close_renewing(self) -> None:
        raise KeyError("close_renewing")


async def test_a_source_that_raises_harms_neither_the_worker_nor_another_source(app: App) -> None:
    @app.task
    def tidy() -> None: ...

    @app.task(retry=None)
    def spoil() -> None:
        raise Fail("on purpose")

    shelf = Shelf("tidy", "spoil", "tidy")
    async with a_worker(app, Broken(), shelf, concurrency=1) as worker:
        await eventually(lambda: len(shelf.ended_jobs) == 3)
        assert worker.status == "running"

    assert sorted(str(state) for _, state in shelf.ended_jobs) == ["failed", "succeeded", "succeeded"]
    assert shelf.calls == ["close", "close_renewing"]
    assert await app.aworkers() == []  # it has signed off


async def test_renewing_goes_on_in_another_thread_while_a_job_blocks_the_loop(app: App) -> None:
    shelf = Shelf()
    renewals: list[int] = []

    @app.task
    async def block() -> None:
        before = shelf.renewals
        time.sleep(0.3)
        renewals.append(shelf.renewals - before)

    async with a_worker(app, shelf):
        await block.aenqueue()
        await eventually(lambda: renewals)

    assert renewals[0] >= 3
    assert threading.get_ident() not in shelf.renewed_on


async def test_two_sources_of_one_kind_have_chores_of_their_own(app: App) -> None:
    @app.task
    def tidy() -> None: ...

    shelves = Shelf(*["tidy"] * 3), Shelf(*["tidy"] * 3)
    await work_until_empty(a_worker(app, *shelves))

    assert [len(shelf.entries) for shelf in shelves] == [0, 0]
    assert len(shelves[0].ended_jobs) == 6  # each hears of all jobs of the worker
