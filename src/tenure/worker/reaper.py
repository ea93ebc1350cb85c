"""Taking jobs from workers that are gone."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

from tenure.stores.base import STEP, Store

__all__ = ["Reaper"]

INTERVAL = 1.0
"""Seconds between looks, about: an expired lease is noticed within this time."""

log = logging.getLogger("tenure.worker")


class Reaper:
    """Takes jobs of the worker's queues whose leases have expired, in bounded steps. Every worker has one, none is special."""

    def __init__(self, store: Store, queues: Callable[[], Sequence[str]]) -> None:
        self._store = store
        self._queues = queues

    async def reap(self) -> float:
        """Take what has expired; seconds until the next look, or none if there was more than one step takes."""
        queues = self._queues()
        reaped = await self._store.reap(queues) if queues else []
        for job in reaped:
            log.warning(
                "job %s of task %s was lost by worker %s, %s",
                job.id, job.task, job.worker, "it fails" if job.failed else f"loss {job.losses}, back to the front",
            )  # fmt: skip
        # Jitter keeps many workers from looking in step.
        return 0.0 if len(reaped) >= STEP else INTERVAL * random.uniform(0.75, 1.25)  # noqa: S311
