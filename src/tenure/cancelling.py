"""Cancelling many jobs: named ones, those of one call, those that a search finds."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from tenure.errors import InvalidOption, PayloadError
from tenure.job import JobRecord, State
from tenure.stores.base import Store
from tenure.stores.values import Search
from tenure.task import Call
from tenure.walking import act, pages

__all__ = ["UNFINISHED", "cancel", "cancel_equal", "cancel_found", "count_equal", "count_found"]

UNFINISHED = (State.BLOCKED, State.WAITING, State.RUNNING)
"""States in which a job can be cancelled, in the order of its life."""


async def cancel(store: Store, ids: Sequence[str]) -> int:
    """Cancel these jobs, in steps that are each atomic; how many were not final before."""
    return await act(store.cancel, ids)


async def cancel_equal(store: Store, call: Call[Any], queue: str | None = None) -> int:
    """Cancel the unfinished jobs of this call's task, in this queue or in all, that have equal arguments; how many."""
    searches, equal = _alike(call, queue)
    return sum([await cancel_found(store, search, equal) for search in searches])


async def count_equal(store: Store, call: Call[Any], queue: str | None = None) -> int:
    """How many jobs `cancel_equal` would cancel now."""
    searches, equal = _alike(call, queue)
    return sum([await count_found(store, search, equal) for search in searches])


def _alike(call: Call[Any], queue: str | None) -> tuple[list[Search], Callable[[JobRecord], bool]]:
    """What finds the jobs of this call's task, under each of its names, and whether one of them has equal arguments."""
    key = call.caller.key(call.payload)

    def equal(job: JobRecord) -> bool:
        with contextlib.suppress(PayloadError):  # what cannot be read is equal to nothing
            return job.payload == call.payload or call.caller.key(job.payload) == key
        return False

    task = call.caller.app.tasks.get(call.caller.name)
    names = dict.fromkeys((call.caller.name, *(task.aliases if task is not None else ())))
    return [Search(task=name, queue=queue) for name in names], equal


async def count_found(store: Store, search: Search, wanted: Callable[[JobRecord], bool] = lambda _: True) -> int:
    """How many jobs `cancel_found` would cancel now."""
    return len({job.id async for jobs in _unfinished(store, search) for job in jobs if wanted(job)})


async def cancel_found(store: Store, search: Search, wanted: Callable[[JobRecord], bool] = lambda _: True) -> int:
    """Cancel the unfinished jobs that a search finds and that are wanted; how many. A state that is final is refused."""
    cancelled = 0
    async for jobs in _unfinished(store, search):
        cancelled += await cancel(store, [job.id for job in jobs if wanted(job)])
    return cancelled


async def _unfinished(store: Store, search: Search) -> AsyncIterator[list[JobRecord]]:
    """Pages of jobs that are not final. One that moves on meanwhile may come twice, but is not missed."""
    if search.state is not None and search.state.final:
        raise InvalidOption(f"a job that is {search.state} has ended: jobs to cancel are {', '.join(UNFINISHED)}")
    for state in UNFINISHED if search.state is None else (search.state,):
        async for jobs in pages(store, replace(search, state=state)):
            yield jobs
    if search.state is None:
        # What ran until just now may wait again. What has never run came later than the first look, and is no part of this.
        async for jobs in pages(store, replace(search, state=State.WAITING)):
            yield [job for job in jobs if job.fence]
