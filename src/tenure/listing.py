"""What an app tells of many jobs at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from tenure.handle import Job
from tenure.job import JobRecord, State
from tenure.stores.base import STEP, QueueInfo, Search, Store, Totals, WorkerInfo

__all__ = ["JobPage", "Stats", "unfinished"]


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


async def unfinished(store: Store, task: str) -> AsyncIterator[JobRecord]:
    """Every job of a task that is not final. One that moves on meanwhile may come twice, but is not missed."""
    for state in (State.BLOCKED, State.WAITING, State.RUNNING):  # the order of a job's life
        cursor: str | None = None
        while True:
            page = await store.search(Search(state=state, task=task, limit=STEP, cursor=cursor))
            for record in page.jobs:
                yield record
            if (cursor := page.cursor) is None:
                break
