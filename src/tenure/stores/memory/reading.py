"""What everybody reads: single jobs, listings, queues, workers, results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from tenure.job import JobRecord, State
from tenure.stores.base import Page, QueueInfo, Search, Totals, WorkerInfo
from tenure.stores.memory.shelves import StoredJob
from tenure.stores.memory.space import Space
from tenure.stores.memory.wakeup import Mailbox

__all__ = ["get", "queues", "search", "wait", "workers"]

ROWS = 2000
"""Jobs that one page looks at, at most."""


def get(space: Space, ids: Sequence[str]) -> list[JobRecord | None]:
    """Read jobs, None for each that does not exist."""
    return [space.record(space.jobs[id_]) if id_ in space.jobs else None for id_ in ids]


def queues(space: Space) -> list[QueueInfo]:
    """Count the jobs of every queue."""
    return [queue.info() for _, queue in sorted(space.queues.items())]


def workers(space: Space) -> list[WorkerInfo]:
    """List the registry."""
    boot = space.clock.boot()
    return [
        msgspec.structs.replace(worker.info, silent_for=boot - worker.beat, totals=Totals(**worker.totals))
        for worker in sorted(space.workers.values(), key=lambda worker: worker.info.started_at)
    ]


def wait(space: Space, ids: Sequence[str], mailbox: Mailbox) -> dict[str, JobRecord | None]:
    """Give what is final or does not exist, and have the rest announced to this mailbox."""
    found: dict[str, JobRecord | None] = {}
    for id_ in ids:
        job = space.jobs.get(id_)
        if job is None or job.state.final:
            found[id_] = None if job is None else space.record(job)
        else:
            job.awaited = True
            space.waiters[id_].add(mailbox)
    return found


Key = list[float]
"""Where a job stands in a listing."""


def search(space: Space, search: Search) -> Page:
    """List jobs in the order that their state asks for, from the cursor on."""
    key = _ORDERS[search.state]
    walk = iter(sorted((job for job in space.jobs.values() if _listed(job, search)), key=key))
    if search.cursor is not None:
        last_seen = msgspec.json.decode(search.cursor, type=Key)
        walk = (job for job in walk if key(job) > last_seen)
    found: list[StoredJob] = []
    looked_at = 0
    cursor = None
    for job in islice(walk, ROWS):
        looked_at += 1
        cursor = msgspec.json.encode(key(job)).decode()
        if _wanted(job, search):
            found.append(job)
            if len(found) == search.limit:
                break
    more = next(walk, None) is not None
    return Page([space.record(job) for job in found], cursor if more else None, looked_at)


def _listed(job: StoredJob, search: Search) -> bool:
    """Whether the job is in the listing that is walked: all of one state, of one queue."""
    return search.state in {None, job.state} and search.queue in {None, job.new.queue}


def _wanted(job: StoredJob, search: Search) -> bool:
    return search.task in {None, job.new.task} and (search.tag is None or search.tag in job.new.tags)


def _place(job: StoredJob) -> Key:
    # What is scheduled is not in line yet: after those who are, by its time.
    return [0, job.new.priority, job.seq] if job.run_at is None else [1, job.run_at, job.seq]


def _newest_end_first(job: StoredJob) -> Key:
    return [-(job.ended_at or 0.0), -job.number]


_ORDERS: dict[State | None, Callable[[StoredJob], Key]] = {
    None: lambda job: [-job.number],
    State.WAITING: _place,
    State.BLOCKED: lambda job: [job.new.priority, job.seq],
    State.RUNNING: lambda job: [job.started_at or 0.0, job.number],
    State.SUCCEEDED: _newest_end_first,
    State.FAILED: _newest_end_first,
    State.CANCELLED: _newest_end_first,
    State.BROKEN: _newest_end_first,
}
