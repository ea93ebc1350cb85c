"""Going over many jobs: those that a search finds, a page at a time, and steps that are each atomic."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

from msgspec.structs import replace

from tenure.job import JobRecord
from tenure.stores.base import STEP, Store
from tenure.stores.values import Search, Verdict, VerdictKind

__all__ = ["act", "pages", "steps"]


async def act(action: Callable[[Sequence[str]], Awaitable[list[Verdict]]], ids: Sequence[str]) -> int:
    """Do this to these jobs, in steps that are each atomic; to how many it was done, the others having been refused."""
    done = 0
    for step in steps(ids):
        done += sum(verdict.kind is VerdictKind.OK for verdict in await action(step))
    return done


def steps(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many of these as one step may have, one after the other."""
    return (ids[start : start + STEP] for start in range(0, len(ids), STEP))


async def pages(store: Store, search: Search) -> AsyncIterator[list[JobRecord]]:
    """Whatever the search finds. A job that moves meanwhile may come twice, or not at all."""
    cursor: str | None = None
    while True:
        page = await store.search(replace(search, limit=STEP, cursor=cursor))
        yield page.jobs
        if (cursor := page.cursor) is None:
            return
