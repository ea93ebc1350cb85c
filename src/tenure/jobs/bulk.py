"""Lists, cancels, retries and deletes many jobs: named ones, equal ones, or those that a search finds."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tenure.core.checks import name as checked_name
from tenure.core.job import FINAL, JobRecord, State
from tenure.errors import HasDependents, InvalidOption, PayloadError
from tenure.jobs.handle import Job
from tenure.stores.base import BATCH, Store
from tenure.stores.values import QueueInfo, Search, Totals, Verdict, VerdictKind, WorkerInfo

if TYPE_CHECKING:
    from tenure.tasks.task import Call, Task

__all__ = [
    "UNFINISHED",
    "JobPage",
    "Stats",
    "act",
    "cancel",
    "cancel_equal",
    "cancel_found",
    "count",
    "count_equal",
    "count_found",
    "delete",
    "pages",
    "retry",
    "search_of",
    "state_of",
    "steps",
]


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
    key = call.caller._key(call.payload)

    def equal(job: JobRecord) -> bool:
        with contextlib.suppress(PayloadError):  # what cannot be read is equal to nothing
            return job.payload == call.payload or call.caller._key(job.payload) == key
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


GONE_WRONG = (State.FAILED, State.BROKEN)
"""The states that are meant when none is named."""


async def count(store: Store, search: Search, error: str | None = None) -> int:
    """How many jobs a search finds that have ended, and with this type of error if one is given."""
    return sum([len(jobs) async for jobs in _found(store, search, error)])


async def retry(store: Store, ids: Sequence[str], search: Search, error: str | None = None) -> int:
    """Put these jobs back in line, or those that are found; how many were, the others having been refused."""
    if not _sought("retry", ids, search, error):
        return await act(store.retry, ids)
    retried = 0
    async for jobs in _found(store, search, error):
        # The id of a step that has handed over is nobody's to retry, or means the run.
        retried += await act(store.retry, [job.id for job in jobs if job.successor is None])
    return retried


async def delete(
    store: Store, ids: Sequence[str], search: Search, error: str | None = None, *, cascade: bool = False
) -> int:
    """Remove these jobs, `HasDependents` if others wait for one; or those that are found, but for such; how many went."""
    if not _sought("delete", ids, search, error):
        return sum([len(await store.delete(step, cascade=cascade)) for step in steps(ids)])
    deleted = 0
    async for jobs in _found(store, search, error):
        deleted += await _delete_free(store, [job.id for job in jobs], cascade=cascade)
    return deleted


async def _delete_free(store: Store, ids: Sequence[str], *, cascade: bool) -> int:
    """Remove those of these jobs that nobody waits for: by halves, until what is refused stands alone."""
    try:
        return len(await store.delete(ids, cascade=cascade))
    except HasDependents:
        half = len(ids) // 2
        return sum([await _delete_free(store, part, cascade=cascade) for part in (ids[:half], ids[half:]) if half])


def _sought(what: str, ids: Sequence[str], search: Search, error: str | None) -> bool:
    """Whether jobs are to be looked for; `InvalidOption` if some are named besides."""
    sought = search != Search() or error is not None
    if ids and sought:
        raise InvalidOption(
            f"say which jobs to {what} either by themselves or by queue, task, tag, state and type of error"
        )
    return sought


async def _found(store: Store, search: Search, error: str | None) -> AsyncIterator[list[JobRecord]]:
    """Pages of jobs that have ended, each job once.

    The latest end comes first: what ends meanwhile comes before all that is yet to be seen, unless it ends in another state.
    """
    if search.state is not None and not search.state.final:
        raise InvalidOption(
            f"a job that is {search.state} has not ended, cancel or purge such jobs: here state is one of {', '.join(sorted(FINAL))}"
        )
    seen: set[str] = set()
    for state in GONE_WRONG if search.state is None else (search.state,):
        async for jobs in pages(store, replace(search, state=state)):
            new = [job for job in jobs if job.id not in seen and _has(error, job)]
            seen.update(job.id for job in new)
            yield new


def _has(error: str | None, job: JobRecord) -> bool:
    return error is None or (job.error is not None and job.error.type == error)


async def act(action: Callable[[Sequence[str]], Awaitable[list[Verdict]]], ids: Sequence[str]) -> int:
    """Do this to these jobs, in steps that are each atomic; to how many it was done, the others having been refused."""
    done = 0
    for step in steps(ids):
        done += sum(verdict.kind is VerdictKind.OK for verdict in await action(step))
    return done


def steps(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many of these as one step may have, one after the other."""
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))


async def pages(store: Store, search: Search) -> AsyncIterator[list[JobRecord]]:
    """Whatever the search finds. A job that moves meanwhile may come twice, or not at all."""
    cursor: str | None = None
    while True:
        page = await store.search(replace(search, limit=BATCH, cursor=cursor))
        yield page.jobs
        if (cursor := page.cursor) is None:
            return


class JobPage(list[Job[Any]]):
    """A part of a listing."""

    cursor: str | None
    """Where the next page begins; None at the end. A page may be short, even empty, and still not be the last."""


class Stats(msgspec.Struct, frozen=True):
    """What has happened since the store was made; retention does not lower it."""

    totals: Totals
    queues: dict[str, Totals]
    workers: dict[str, Totals]
    """Of the workers that are registered now."""

    @classmethod
    def of(cls, queues: Iterable[QueueInfo], workers: Iterable[WorkerInfo]) -> Stats:
        by_queue = {queue.name: queue.totals for queue in queues}
        rows = [msgspec.structs.astuple(totals) for totals in by_queue.values()]
        totals = Totals(*map(sum, zip(*rows, strict=True)))
        return cls(totals, by_queue, {worker.id: worker.totals for worker in workers})


def search_of(
    state: State | str | None, queue: str | None, task: str | Task[..., Any] | None, tag: str | None
) -> Search:
    """Which jobs a user means; `InvalidName` or `InvalidOption` for what can be none."""
    return Search(
        state=None if state is None else state_of(state),
        queue=None if queue is None else checked_name("queue", queue),
        task=None if task is None else checked_name("task", task if isinstance(task, str) else task.name),
        tag=None if tag is None else checked_name("tag", tag),
    )


def state_of(value: State | str) -> State:
    """The state of this name; `InvalidOption` if there is none."""
    try:
        return State(value)
    except ValueError:
        raise InvalidOption(f"there is no state {value!r:.80}: it is one of {', '.join(State)}") from None
