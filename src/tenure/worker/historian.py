"""`Historian`: writes what a worker has counted, and how full the queues are, to the history in the store."""

from __future__ import annotations

import random

from tenure.core.measures import HistoryWrite
from tenure.errors import OutcomeUnknown
from tenure.jobs.history import sample
from tenure.stores.base import Store
from tenure.worker.meter import Meters

__all__ = ["Historian"]

INTERVAL = 10.0
"""Seconds between two writes: the length of the shortest slot."""

MARKING = 5.0
"""Seconds for which one worker that marks its release keeps others from marking theirs."""


class Historian:
    """Writes every ten seconds what `meters` has counted. One of all workers also writes gauges of the queues."""

    def __init__(self, meters: Meters, release: str) -> None:
        self._meters = meters
        self._release = release
        self._marked = False
        self._begun = False
        self._pending: list[HistoryWrite] = []
        """What the store has not accepted yet. One batch: while the store is down, detail is dropped, not kept."""

    async def run(self, store: Store) -> float:
        """Mark the release if that is not done, and write what was counted. Returns the seconds until the next call.

        The first call comes before the worker has run anything, so that totals are known from which to count. The second
        comes at a random time, so that workers take turns.
        """
        if not self._marked:
            self._marked = await self._mark_release(store)
        await self.write(store)
        begun, self._begun = self._begun, True
        return INTERVAL * (random.uniform(0.95, 1.05) if begun else random.random())  # noqa: S311

    async def write(self, store: Store) -> None:
        """Write what was counted since the last call."""
        self._pending = self._meters.take() or self._pending
        writes = [*self._pending, *await sample(store)]
        try:
            if writes:
                await store.record_history(writes)
        except OutcomeUnknown:
            self._pending = []  # it may be written, and would count twice
            raise
        self._pending = []

    async def _mark_release(self, store: Store) -> bool:
        """Mark the first time that a worker of this release is seen. False if another worker may be doing that now."""
        if not self._release or any(mark.label == self._release for mark in await store.marks()):
            return True
        # All workers of a deploy start at once, and find no mark.
        if not await store.claim_chore("mark", MARKING):
            return False
        await store.mark(self._release)
        return True
