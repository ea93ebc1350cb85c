"""Lists, cancels, retries and deletes many jobs: by id, by equal arguments, or by a search."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tenure.core.checks import Check, flag, instant, refused
from tenure.core.checks import name as checked_name
from tenure.core.job import FINAL, JobRecord, State
from tenure.core.keywords import Filters
from tenure.errors import HasDependents, InvalidOption, PayloadError
from tenure.jobs.handle import Job
from tenure.stores.base import BATCH, Store
from tenure.stores.values import QueueInfo, Search, Totals, Verdict, VerdictKind, WorkerInfo

if TYPE_CHECKING:
    from tenure.tasks.task import Call

__all__ = [
    "UNFINISHED",
    "JobPage",
    "Stats",
    "cancel",
    "cancel_equal",
    "cancel_found",
    "count_equal",
    "count_finished",
    "count_found",
    "delete",
    "delete_without_dependents",
    "pages",
    "retry",
    "search_of",
    "state_of",
]

UNFINISHED = (State.BLOCKED, State.WAITING, State.RUNNING)
"""States in which a job can be cancelled, in the order of its life."""

UNSUCCESSFUL = (State.FAILED, State.BROKEN)
"""States of the finished jobs that are meant if no state is given."""


# Listing.


class JobPage(list[Job[Any]]):
    """One page of a listing of jobs."""

    cursor: str | None
    """Pass it as `cursor=` to get the next page; None at the end. A page may be short, even empty, and not be the last."""


class Stats(msgspec.Struct, frozen=True):
    """How many jobs have ended in which way since the store was created. Retention does not lower these counts."""

    totals: Totals
    queues: dict[str, Totals]
    workers: dict[str, Totals]
    """Only the workers that are registered now."""

    @classmethod
    def of(cls, queues: Iterable[QueueInfo], workers: Iterable[WorkerInfo]) -> Stats:
        by_queue = {queue.name: queue.totals for queue in queues}
        rows = [msgspec.structs.astuple(totals) for totals in by_queue.values()]
        totals = Totals(*map(sum, zip(*rows, strict=True)))
        return cls(totals, by_queue, {worker.id: worker.totals for worker in workers})


def search_of(filters: Filters | Mapping[str, Any]) -> Search:
    """The search that a user's arguments mean; `InvalidName` or `InvalidOption` if one of them cannot match any job."""
    if unknown := filters.keys() - Filters.__annotations__.keys():
        raise TypeError(f"there is no filter {min(unknown)!r}: use {', '.join(Filters.__annotations__)}")
    given = {name: value for name, value in filters.items() if value is not None}
    if given.get("scheduled") is not None:
        given.setdefault("state", State.WAITING)
    search = Search(**{name: _CHECKS[name](value, name) for name, value in given.items()})
    if search.scheduled is not None and search.state is not State.WAITING:
        raise InvalidOption(f"scheduled divides the jobs that are waiting, not those that are {search.state}")
    if search.before is not None and (search.state is None or not search.state.final):
        raise InvalidOption(f"before is about the end of jobs: give a state too, one of {', '.join(sorted(FINAL))}")
    return search


def _text(value: object, option: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 200 or "\0" in value:
        raise refused(option, "a text of 1 to 200 characters", value)
    return value


_CHECKS: Mapping[str, Check] = {
    "state": lambda value, _: state_of(value),
    "queue": lambda value, _: checked_name("queue", value),
    "task": lambda value, _: checked_name("task", value if isinstance(value, str) else getattr(value, "name", value)),
    "tag": lambda value, _: checked_name("tag", value),
    "scheduled": flag,
    "error": _text,
    "text": _text,
    "worker": lambda value, _: checked_name("worker", value),
    "before": instant,
}
"""The check of each filter."""


def state_of(value: State | str) -> State:
    """The state of this name; `InvalidOption` if there is none."""
    try:
        return State(value)
    except ValueError:
        raise InvalidOption(f"there is no state {value!r:.80}: it is one of {', '.join(State)}") from None


async def pages(store: Store, search: Search) -> AsyncIterator[list[JobRecord]]:
    """All jobs that the search finds, page by page. A job that changes state meanwhile may come twice, or not at all."""
    cursor: str | None = None
    while True:
        page = await store.search(replace(search, limit=BATCH, cursor=cursor))
        yield page.jobs
        if (cursor := page.cursor) is None:
            return


# Cancelling unfinished jobs.


async def cancel(store: Store, ids: Sequence[str]) -> int:
    """Cancel the jobs with these ids, one atomic batch after the other. Returns how many were not final before."""
    return await _in_batches(store.cancel, ids)


async def cancel_equal(store: Store, call: Call[Any], queue: str | None = None) -> int:
    """Cancel the unfinished jobs of the call's task that have equal arguments, in `queue` or in all. Returns how many."""
    searches, equal = _equal_to(call, queue)
    return sum([await cancel_found(store, search, equal) for search in searches])


async def count_equal(store: Store, call: Call[Any], queue: str | None = None) -> int:
    """How many jobs `cancel_equal` would cancel now."""
    searches, equal = _equal_to(call, queue)
    return sum([await count_found(store, search, equal) for search in searches])


async def cancel_found(store: Store, search: Search, matches: Callable[[JobRecord], bool] = lambda _: True) -> int:
    """Cancel the unfinished jobs that the search finds and `matches` accepts. Returns how many.

    `InvalidOption` if the search names a final state.
    """
    cancelled = 0
    async for jobs in _unfinished_pages(store, search):
        cancelled += await cancel(store, [job.id for job in jobs if matches(job)])
    return cancelled


async def count_found(store: Store, search: Search, matches: Callable[[JobRecord], bool] = lambda _: True) -> int:
    """How many jobs `cancel_found` would cancel now."""
    return len({job.id async for jobs in _unfinished_pages(store, search) for job in jobs if matches(job)})


def _equal_to(call: Call[Any], queue: str | None) -> tuple[list[Search], Callable[[JobRecord], bool]]:
    """Searches for the jobs of the call's task, one for each of its names, and a test for equal arguments."""
    key = call.caller._key(call.payload)

    def equal(job: JobRecord) -> bool:
        with contextlib.suppress(PayloadError):  # arguments that cannot be decoded equal no others
            return job.payload == call.payload or call.caller._key(job.payload) == key
        return False

    task = call.caller.app.tasks.get(call.caller.name)
    names = dict.fromkeys((call.caller.name, *(task.aliases if task is not None else ())))
    return [Search(task=name, queue=queue) for name in names], equal


async def _unfinished_pages(store: Store, search: Search) -> AsyncIterator[list[JobRecord]]:
    """Pages of jobs that are not final. A job that changes state meanwhile may come twice, but is not missed."""
    if search.state is not None and search.state.final:
        raise InvalidOption(f"a job that is {search.state} has ended: jobs to cancel are {', '.join(UNFINISHED)}")
    for state in UNFINISHED if search.state is None else (search.state,):
        async for jobs in pages(store, replace(search, state=state)):
            yield jobs
    if search.state is None:
        # A job that ran until just now may wait again. One that has never run was enqueued after the first look, and is not meant.
        async for jobs in pages(store, replace(search, state=State.WAITING)):
            yield [job for job in jobs if job.fence]


# Retrying and deleting finished jobs.


async def count_finished(store: Store, search: Search) -> int:
    """How many finished jobs the search finds."""
    return sum([len(jobs) async for jobs in _finished_pages(store, search)])


async def retry(store: Store, ids: Sequence[str], search: Search) -> int:
    """Put the jobs with these ids, or those that the search finds, back in line. Returns how many; the store refused the others."""
    if not _is_search("retry", ids, search):
        return await _in_batches(store.retry, ids)
    retried = 0
    async for jobs in _finished_pages(store, search):
        # A step that has handed over cannot be retried, and the id of a first step would mean the run.
        retried += await _in_batches(store.retry, [job.id for job in jobs if job.successor is None])
    return retried


async def delete(store: Store, ids: Sequence[str], search: Search, *, cascade: bool = False) -> int:
    """Delete the jobs with these ids, or those that the search finds. Returns how many.

    If other jobs wait for one of them and `cascade` is False, that is `HasDependents` for a given id, and a job that was found is left.
    """
    if not _is_search("delete", ids, search):
        return sum([len(await store.delete(batch, cascade=cascade)) for batch in _batches(ids)])
    deleted = 0
    async for jobs in _finished_pages(store, search):
        deleted += await delete_without_dependents(store, [job.id for job in jobs], cascade=cascade)
    return deleted


async def delete_without_dependents(store: Store, ids: Sequence[str], *, cascade: bool) -> int:
    """Delete those of these jobs that no other waits for, by halving a batch that is refused until one job is left of it."""
    try:
        return len(await store.delete(ids, cascade=cascade))
    except HasDependents:
        half = len(ids) // 2
        return sum(
            [await delete_without_dependents(store, part, cascade=cascade) for part in (ids[:half], ids[half:]) if half]
        )


def _is_search(action: str, ids: Sequence[str], search: Search) -> bool:
    """Whether jobs are to be found by a search; `InvalidOption` if there are ids too."""
    given = search != Search()
    if ids and given:
        raise InvalidOption(
            f"say which jobs to {action} either by themselves or by queue, task, tag, state and other filters"
        )
    return given


async def _finished_pages(store: Store, search: Search) -> AsyncIterator[list[JobRecord]]:
    """Pages of finished jobs, each job once.

    The latest end comes first, so a job that ends meanwhile is not among those still to come, unless it ends in another state.
    """
    if search.state is not None and not search.state.final:
        raise InvalidOption(
            f"a job that is {search.state} has not ended, cancel or purge such jobs: here state is one of {', '.join(sorted(FINAL))}"
        )
    seen: set[str] = set()
    for state in UNSUCCESSFUL if search.state is None else (search.state,):
        async for jobs in pages(store, replace(search, state=state)):
            new = [job for job in jobs if job.id not in seen]
            seen.update(job.id for job in new)
            yield new


# In batches.


async def _in_batches(operation: Callable[[Sequence[str]], Awaitable[list[Verdict]]], ids: Sequence[str]) -> int:
    """Apply the operation to these jobs, one atomic batch after the other. Returns how many it was applied to, not refused."""
    done = 0
    for batch in _batches(ids):
        done += sum(verdict.kind is VerdictKind.OK for verdict in await operation(batch))
    return done


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
