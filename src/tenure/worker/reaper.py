"""`Reaper`: takes jobs from workers that are gone."""

from __future__ import annotations

import random

from tenure.stores.base import BATCH, Store
from tenure.worker.queues import Queues

__all__ = ["Reaper"]

INTERVAL = 1.0
"""Seconds between two runs, about. An expired lease, or a new queue, is noticed within this time."""


class Reaper:
    """Reaps expired leases of the worker's queues, in batches. Every worker has one; none is special.

    With glob patterns it also looks up which queues have jobs, so that an idle worker sends the store little else.
    """

    def __init__(self, store: Store, queues: Queues) -> None:
        self._store = store
        self._queues = queues

    async def reap(self) -> float:
        """Reap one batch. Returns the seconds until the next call; 0 if there may be more."""
        overdue = await self._queues.find_overdue()
        reaped = await self._store.reap(overdue) if overdue else ()
        # Jitter keeps workers from reaping all at the same time.
        return 0.0 if len(reaped) >= BATCH else INTERVAL * random.uniform(0.9, 1.1)  # noqa: S311
