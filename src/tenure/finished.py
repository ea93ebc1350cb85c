"""What is done to many finished jobs: named ones, or those that a search finds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from msgspec.structs import replace

from tenure.errors import HasDependents, InvalidOption
from tenure.job import FINAL, JobRecord, State
from tenure.stores.base import Store
from tenure.stores.values import Search
from tenure.walking import act, pages, steps

__all__ = ["count", "delete", "retry"]

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
