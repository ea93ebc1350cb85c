"""Taking jobs from workers that are gone."""

from __future__ import annotations

import random

from tenure.stores.base import BATCH, Store
from tenure.worker.queues import Queues

__all__ = ["Reaper"]

INTERVAL = 1.0
"""Seconds between looks, about: an expired lease is noticed within this time, and a new queue."""


class Reaper:
    """Takes jobs of the worker's queues whose leases have expired, in bounded steps. Every worker has one, none is special.

    Where the queues are known by patterns it asks which have something to do: an idle worker asks the store for little else.
    """

    def __init__(self, store: Store, queues: Queues) -> None:
        self._store = store
        self._queues = queues

    async def reap(self) -> float:
        """Take what has expired; seconds until the next look, or none if there was more than one step takes."""
        overdue = await self._queues.find_overdue()
        reaped = await self._store.reap(overdue) if overdue else ()
        # Jitter keeps many workers from looking in step.
        return 0.0 if len(reaped) >= BATCH else INTERVAL * random.uniform(0.9, 1.1)  # noqa: S311
