"""Helpers for the tests of the suite: make jobs, enqueue, lease and settle them, and read the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from tenure.core.job import ErrorInfo, JobRecord, NewJob, State, new_id
from tenure.core.lease import Lease, new_nonce
from tenure.core.lifecycle import Finish, Requeue, Transition
from tenure.stores.base import Store
from tenure.stores.values import Leased, LeaseRequest, QueueInfo, Search, Verdict, WorkerInfo
from tenure.testing.clock import ManualClock

__all__ = [
    "BOOM",
    "FAIL",
    "LONG",
    "RELEASE",
    "RETRY",
    "SUCCEED",
    "MakeStore",
    "PutIn",
    "a_job",
    "a_suspect",
    "a_worker",
    "ageless_queues",
    "ask",
    "assert_counters_equal_a_recount",
    "counts",
    "enqueue",
    "everything",
    "lease",
    "lease_one",
    "line",
    "listening",
    "lose",
    "record",
    "settle",
    "state",
    "success",
]

MakeStore = Callable[[], Store]
"""Makes one more store object on the same data, as another worker or process would."""

PutIn = Callable[[str, bytes], Awaitable[None]]
"""Puts an entry in the inbox of a queue, as a program that does not use Tenure would."""

LONG = 20.0
"""Seconds that nothing here takes, even on a busy machine, unless something is wrong."""

BOOM = ErrorInfo("ValueError", "boom", "Traceback (most recent call last): …")
SUCCEED = Finish(State.SUCCEEDED, "42")
FAIL = Finish(State.FAILED, error=BOOM)
RETRY = Requeue(error=BOOM)
RELEASE = Requeue(counts=False, front=True)


def success(result: str = "42", **more: Any) -> Finish:
    """A success with this result."""
    return Finish(State.SUCCEEDED, result, **more)


def a_job(**changes: Any) -> NewJob:
    """A new job of task `t` in queue `q`, with a new id."""
    return NewJob(**{"id": new_id(), "task": "t", "queue": "q"} | changes)


def a_worker(worker_id: str = "w", **changes: Any) -> WorkerInfo:
    usual: dict[str, Any] = {"host": "h", "pid": 7, "queues": ("q", "*"), "tasks": ("t",), "concurrency": 1}
    return WorkerInfo(id=worker_id, **usual | changes)


async def enqueue(store: Store, *jobs: NewJob) -> list[str]:
    """Enqueue these jobs in one call, or a plain one if none is given; returns the ids of the answers."""
    return [answer.id for answer in await store.enqueue(jobs or (a_job(),))]


async def ask(store: Store, *queues: str, limit: int = 1, **changes: Any) -> Leased:
    """Ask for leases for worker `w`, from queue `q` unless others are given."""
    usual: dict[str, Any] = {"worker": "w", "ttl": 30.0, "nonce": new_nonce()}
    return await store.lease(LeaseRequest(queues=queues or ("q",), limit=limit, **usual | changes))


async def lease(store: Store, *queues: str, limit: int = 100, **changes: Any) -> list[Lease]:
    return (await ask(store, *queues, limit=limit, **changes)).leases


async def lease_one(store: Store, *queues: str, **changes: Any) -> Lease:
    [leased] = await lease(store, *queues, limit=1, **changes)
    return leased


async def settle(store: Store, leased: Lease, transition: Transition) -> Verdict:
    [verdict] = await store.settle([(leased, transition)])
    return verdict


async def record(store: Store, job_id: str) -> JobRecord:
    [found] = await store.get([job_id])
    assert found is not None, f"there is no job {job_id}"
    return found


async def state(store: Store, job_id: str) -> State:
    return (await record(store, job_id)).state


async def counts(store: Store, queue: str = "q") -> QueueInfo:
    [found] = [info for info in await store.queues() if info.name == queue] or [QueueInfo(name=queue)]
    return found


async def ageless_queues(store: Store) -> list[QueueInfo]:
    """All queues, without the ages of their oldest jobs, which grow by themselves."""
    return [replace(info, oldest=None) for info in await store.queues()]


async def everything(store: Store, **search: Any) -> list[JobRecord]:
    """The jobs of all pages of a listing."""
    found: list[JobRecord] = []
    cursor = None
    while True:
        page = await store.search(Search(**{"limit": 500} | search, cursor=cursor))
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


async def line(store: Store, queue: str = "q") -> list[str]:
    """The ids of the jobs in line, the next one first."""
    waiting = await everything(store, state=State.WAITING, queue=queue)
    return [job.id for job in waiting if job.run_at is None]


async def lose(store: Store, clock: ManualClock, leased: Lease) -> None:
    """Let the lease of a job expire and reap it, together with other leases that are as old."""
    clock.advance(leased.ttl)
    assert leased.job.id in {reaped.id for reaped in await store.reap([leased.job.queue])}


async def listening(store: Store) -> None:
    """Wait until a store object receives announcements, because it may miss those before."""
    async with asyncio.timeout(LONG):
        while not store.announcement_epoch:  # noqa: ASYNC110  (no event to wait for)
            await asyncio.sleep(0.01)


async def a_suspect(store: Store, clock: ManualClock, **changes: Any) -> str:
    """The id of a job in line that has been lost twice. The queue must be empty at first."""
    [job_id] = await enqueue(store, a_job(**{"max_losses": 0} | changes))
    for _ in range(2):
        await lose(store, clock, await lease_one(store, changes.get("queue", "q")))
    return job_id


async def assert_counters_equal_a_recount(store: Store) -> None:
    """I20: the counters equal a count of all jobs."""
    jobs = await everything(store)
    for queue in await store.queues():
        here = [job for job in jobs if job.queue == queue.name]
        for place in State:
            found = [job for job in here if job.state is place]
            if place is State.WAITING:
                assert queue.waiting == sum(job.run_at is None for job in found), queue
                assert queue.scheduled == sum(job.run_at is not None for job in found), queue
            else:
                assert getattr(queue, place.value) == len(found), (queue, place)
