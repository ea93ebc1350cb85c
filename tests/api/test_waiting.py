"""Waiting for results: joined, and safe against lost announcements and outages."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from tenure import App, Job, State
from tenure.core.job import JobRecord
from tenure.core.lifecycle import Finish
from tenure.errors import ResultTimeout, StoreError, StoreUnavailable
from tenure.jobs import waiting
from tenure.stores.base import Store
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.values import Announcement, LeaseRequest

from .conftest import Do


class Watched(MemoryStore):
    """Counts the questions, and can be made to fail or to announce nothing."""

    def __init__(self, space: Data) -> None:
        super().__init__(space)
        self.questions: list[int] = []
        self.failure: StoreError | None = None
        self.silent = False

    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        self.questions.append(len(ids))
        if self.failure is not None:
            raise self.failure
        return await super().wait(ids)

    async def announcements(self) -> AsyncIterator[Announcement]:
        async for signal in super().announcements():
            if not self.silent:
                yield signal


def watched_app(wakeup: bool = True) -> App:
    """An app with one store object, which is what its `make_store` gives."""
    store = Watched(Data())
    return App(lambda: store, wakeup=wakeup)


def store_of(app: App) -> Watched:
    store: Store = app.internals.make_store()
    assert isinstance(store, Watched)
    return store


async def enqueued(app: App, count: int) -> list[Job[int]]:
    return await app.remote("add").aenqueue_many([(n,) for n in range(count)])


async def asked(app: App) -> None:
    """Wait until everybody who waits has asked the store."""
    while not store_of(app).questions:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)


async def test_thousands_of_waiters_are_joined_in_few_questions() -> None:
    app = watched_app()
    jobs = await enqueued(app, 3000)
    waiters = [asyncio.create_task(job.aresult(timeout=20)) for job in jobs]
    await asked(app)
    for start in range(0, 3000, 500):
        for job in jobs[start : start + 500]:
            await app.internals.session.store.complete(job.id, Finish(State.SUCCEEDED, "1"))

    assert await asyncio.gather(*waiters) == [1] * 3000
    assert len(store_of(app).questions) < 100
    assert max(store_of(app).questions) <= 1000
    assert app.internals.session.waiting._waiters == {}
    await app.aclose()


async def test_thousands_of_waiters_share_what_one_needs(app: App) -> None:  # Q37, Q62
    jobs = await app.remote("t", queue="q").aenqueue_many([(n,) for n in range(3000)])
    waiters = [asyncio.create_task(jobs[0].aresult(timeout=120))]
    await registered(app, 1)
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()

    waiters += [asyncio.create_task(job.aresult(timeout=120)) for job in jobs[1:]]
    await registered(app, 3000)

    assert len(os.listdir("/proc/self/fd")) <= files + 1
    assert threading.active_count() < threads + 10  # not of all: other tests of this process may have left some
    for n in range(3):
        request = LeaseRequest(queues=("q",), limit=1000, worker="w", ttl=60.0, nonce=n)
        leases = (await app.internals.session.store.lease(request)).leases
        await app.internals.session.store.settle(
            [(one, Finish(State.SUCCEEDED, one.job.payload[9:-2].decode())) for one in leases]
        )
    assert await asyncio.gather(*waiters) == list(range(3000))
    assert app.internals.session.waiting._waiters == {}


async def registered(app: App, count: int) -> None:
    """Wait until so many wait, and the store has been asked about all of them."""
    those = app.internals.session.waiting
    async with asyncio.timeout(60):
        while len(those._waiters) < count or those._to_look_up:
            await asyncio.sleep(0.01)
        for _ in range(2):  # the last question is under way
            await app.internals.session.store.queues()


async def test_many_may_wait_for_one_job(app: App, do: Do) -> None:
    [job] = await enqueued(app, 1)
    waiters = [asyncio.ensure_future(do(job.result, timeout=10)) for _ in range(20)]
    await asyncio.sleep(0.05)
    await job.acomplete("x")

    assert await asyncio.gather(*waiters) == ["x"] * 20


async def test_a_waiter_that_gives_up_leaves_the_others_waiting(app: App) -> None:
    [job] = await enqueued(app, 1)
    patient = asyncio.create_task(job.aresult(timeout=10))
    cancelled = asyncio.create_task(job.aresult())
    with pytest.raises(ResultTimeout):
        await job.aresult(timeout=0.05)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    await job.acomplete(1)

    assert await patient == 1


async def test_an_announced_result_comes_at_once_and_not_with_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "POLL", 60.0)
    app = watched_app()
    [job] = await enqueued(app, 1)
    waiter = asyncio.create_task(job.aresult(timeout=30))
    await asked(app)
    loop = asyncio.get_running_loop()
    started = loop.time()
    await job.acomplete(1)

    assert await waiter == 1
    assert loop.time() - started < 30
    await app.aclose()


async def test_a_lost_announcement_costs_a_second() -> None:  # I11
    app = watched_app()
    store_of(app).silent = True
    [job] = await enqueued(app, 1)
    waiter = asyncio.create_task(job.aresult(timeout=10))
    await asked(app)
    await job.acomplete(1)

    assert await waiter == 1
    await app.aclose()


async def test_polling_alone_is_enough(url: str) -> None:  # Q2
    app = App(url, wakeup=False)
    [job] = await enqueued(app, 1)
    waiter = asyncio.create_task(job.aresult(timeout=10))
    await asyncio.sleep(0.05)
    await job.acomplete(1)

    assert await waiter == 1
    await app.aclose()


async def test_an_outage_is_ridden_out_and_told_once_each_way(caplog: pytest.LogCaptureFixture) -> None:  # F17
    app = watched_app()
    store_of(app).failure = StoreUnavailable("down")
    [job] = await enqueued(app, 1)
    with caplog.at_level(logging.WARNING, "tenure"):
        waiter = asyncio.create_task(job.aresult(timeout=10))
        while len(store_of(app).questions) < 2:
            await asyncio.sleep(0.05)
        store_of(app).failure = None
        await job.acomplete(1)
        assert await waiter == 1

    assert [record.message.split(":")[0] for record in caplog.records] == [
        "the store is gone while callers wait for results; asking again every second",
        "the store is back",
    ]
    await app.aclose()


async def test_another_error_of_the_store_reaches_whoever_waits() -> None:
    app = watched_app()
    store_of(app).failure = StoreError("not this kind")
    [job] = await enqueued(app, 1)

    with pytest.raises(StoreError, match="not this kind"):
        await job.aresult(timeout=10)
    await app.aclose()


async def test_closing_the_app_ends_the_waiting() -> None:
    app = watched_app()
    [job] = await enqueued(app, 1)
    waiter = asyncio.create_task(job.aresult())
    await asked(app)

    await app.aclose()

    with pytest.raises(StoreUnavailable, match="closed"):
        await waiter
