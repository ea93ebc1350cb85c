"""The memory store keeps the contract, and what holds for it alone: one process, many loops and threads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.core.job import new_id
from tenure.stores import open_store
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.values import Announcement, AnnouncementKind
from tenure.testing.clock import ManualClock
from tenure.testing.conformance import MakeStore, PutIn, StoreConformance
from tenure.testing.conformance.scene import SUCCEED, a_job, enqueue, lease, lease_one, settle


class TestMemory(StoreConformance):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def make_store(self, clock: ManualClock) -> AsyncIterator[MakeStore]:
        data = Data(clock)
        made: list[MemoryStore] = []

        def make() -> MemoryStore:
            made.append(MemoryStore(data))
            return made[-1]

        yield make
        for store in made:
            await store.close()

    @pytest.fixture
    def put_in(self, store: MemoryStore) -> PutIn:
        async def put_in(queue: str, entry: bytes) -> None:
            store.put_in(queue, entry)

        return put_in


async def test_stores_of_one_name_share_their_jobs_and_others_do_not() -> None:
    name = new_id()
    [job_id] = await enqueue(open_store(f"memory://{name}"))

    assert (await lease_one(open_store(f"memory://{name}"))).job.id == job_id
    assert await open_store(f"memory://{name}x").get([job_id]) == [None]
    assert await MemoryStore().get([job_id]) == [None]


async def on_another_thread(work: Callable[[], Awaitable[None]]) -> None:
    """Do it on a thread and an event loop of its own, while this loop goes on."""

    async def run() -> None:
        await work()

    await asyncio.to_thread(lambda: asyncio.run(run()))


async def test_work_that_another_thread_enqueues_wakes_an_idle_worker() -> None:
    data = Data()
    store = MemoryStore(data)

    async def produce() -> None:
        await enqueue(MemoryStore(data))

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(store.wait_for_work(["q"], 60.0))
        group.create_task(on_another_thread(produce))


async def test_what_another_thread_settles_is_announced_here() -> None:
    data = Data()
    store = MemoryStore(data)
    [job_id] = await enqueue(store)
    await store.wait([job_id])

    async def consume() -> None:
        other = MemoryStore(data)
        await settle(other, await lease_one(other), SUCCEED)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(on_another_thread(consume))
        async for signal in store.announcements():
            assert signal == Announcement(AnnouncementKind.DONE, job_id)
            break


def test_a_listener_whose_loop_is_gone_disturbs_nobody() -> None:
    data = Data()

    async def wait_and_go() -> None:
        store = MemoryStore(data)
        await enqueue(store, a_job(id="1"))
        await store.wait(["1"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                async for _ in store.announcements():
                    pass

    async def settle_it() -> None:
        store = MemoryStore(data)
        await settle(store, await lease_one(store), SUCCEED)

    asyncio.run(wait_and_go())
    asyncio.run(settle_it())


def test_many_threads_never_get_the_same_job() -> None:  # W5, I4
    data = Data()
    start = threading.Barrier(4)

    async def drain() -> list[str]:
        store = MemoryStore(data)
        start.wait()
        await enqueue(store, *[a_job() for _ in range(200)])
        leased = []
        while leases := await lease(store, limit=3):
            leased += [each.job.id for each in leases]
            await store.settle([(each, SUCCEED) for each in leases])
        return leased

    with ThreadPoolExecutor(4) as threads:
        drained = [each.result() for each in [threads.submit(asyncio.run, drain()) for _ in range(4)]]

    ids = [id_ for leased in drained for id_ in leased]
    assert len(ids) == len(set(ids)) == 800


def test_after_a_fork_the_child_goes_on_with_a_copy() -> None:  # F22
    store = MemoryStore()

    async def count() -> int:
        return (await store.queues())[0].waiting

    asyncio.run(store.enqueue([a_job()]))
    child = os.fork()
    if child == 0:
        asyncio.run(store.enqueue([a_job()]))
        os._exit(asyncio.run(count()))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert asyncio.run(count()) == 1
