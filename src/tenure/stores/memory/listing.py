"""Listings of jobs, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from tenure.job import State
from tenure.stores.base import Search
from tenure.stores.memory.shelves import StoredJob

__all__ = ["Found", "find"]

ROWS = 2000
"""Jobs that one call looks at, at most."""

Key = list[float]


class Found(msgspec.Struct):
    """The jobs of a page, where the next one starts, and how many were looked at."""

    jobs: list[StoredJob]
    cursor: str | None
    searched: int


def find(jobs: Iterable[StoredJob], search: Search) -> Found:
    """Walk the jobs in the order that the search asks for, from its cursor on, and take those that it wants."""
    order = _ORDERS[search.state]
    after: Key | None = None if search.cursor is None else msgspec.json.decode(search.cursor, type=Key)
    walk = iter(sorted((job for job in jobs if _listed(job, search)), key=order))
    if after is not None:
        walk = (job for job in walk if order(job) > after)
    found, last, searched = [], None, 0
    for job in islice(walk, ROWS):
        searched += 1
        last = job
        if _wanted(job, search):
            found.append(job)
            if len(found) == search.limit:
                break
    more = next(walk, None) is not None
    return Found(found, msgspec.json.encode(order(last)).decode() if last and more else None, searched)


def _listed(job: StoredJob, search: Search) -> bool:
    """Whether the job is part of the listing that is walked: those of one state, of one queue."""
    return (search.state is None or job.state is search.state) and (
        search.queue is None or job.new.queue == search.queue
    )


def _wanted(job: StoredJob, search: Search) -> bool:
    return (search.task is None or job.new.task == search.task) and (search.tag is None or search.tag in job.new.tags)


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
