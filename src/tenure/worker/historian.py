"""`Historian`: writes what a worker has counted, and how full the queues are, to the history in the store."""

from __future__ import annotations

import random

from tenure.core.measures import HistoryWrite
from tenure.jobs.history import sample
from tenure.stores.base import Store
from tenure.worker.meter import Meters

__all__ = ["Historian"]

INTERVAL = 10.0
"""Seconds between two writes: the length of the shortest slot."""


class Historian:
    """Writes every ten seconds what `meters` has counted. One of all workers also writes gauges of the queues."""

    def __init__(self, meters: Meters, release: str) -> None:
        self._meters = meters
        self._release = release
        self._pending: list[HistoryWrite] = []
        """What the store has not accepted yet. One batch: while the store is down, detail is dropped, not kept."""

    async def write(self, store: Store) -> float:
        """Write what was counted since the last call. Returns the seconds until the next one."""
        self._pending = self._meters.take() or self._pending
        writes = [*self._pending, *await sample(store)]
        if writes:
            await store.record_history(writes)
        self._pending = []
        return INTERVAL * random.uniform(0.95, 1.05)  # noqa: S311

    async def mark_release(self, store: Store) -> None:
        """Mark the first time that a worker of this release is seen."""
        if self._release and all(mark.label != self._release for mark in await store.marks()):
            await store.mark(self._release)
