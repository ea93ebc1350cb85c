"""What an app tells of many jobs at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tenure.handle import Job
from tenure.stores.base import QueueInfo, Totals, WorkerInfo

__all__ = ["JobPage", "Stats"]


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
