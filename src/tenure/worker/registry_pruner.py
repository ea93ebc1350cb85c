"""Keeping the list of workers true."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence

from tenure.core.patterns import covers
from tenure.stores.base import Store
from tenure.stores.values import WorkerInfo

__all__ = ["RegistryPruner", "required_silence"]

OTHERS = 600.0
"""Seconds that workers of other queues must have been silent before they are forgotten."""

log = logging.getLogger("tenure.worker")


class RegistryPruner:
    """Forgets missing workers that hold nothing, at start and every `interval` seconds; one worker does so for all.

    Jobs are never taken by this: while a worker holds any it is only shown as missing, and their leases decide.
    """

    def __init__(self, store: Store, patterns: Callable[[], Sequence[str]], interval: float) -> None:
        self._store = store
        self._patterns = patterns
        self._interval = interval

    async def prune(self) -> float:
        """Forget who is due for it, if it is this worker's turn; seconds until it is worth asking again."""
        if await self._store.claim_chore("registry", self._interval):
            due = required_silence(await self._store.workers(), self._patterns(), self._interval)
            for worker_id in await self._store.forget(due) if due else ():
                log.warning("worker %s is missing and holds nothing: it is struck off the registry", worker_id)
        # Jitter: or the same worker would always ask first, and those of its queues alone be forgotten soon.
        return self._interval * random.uniform(0.9, 1.1)  # noqa: S311


def required_silence(workers: Iterable[WorkerInfo], patterns: Sequence[str], interval: float) -> dict[str, float]:
    """The workers that are missing, and how long each must have been silent for one who serves these queues to forget it."""
    return {
        worker.id: max(worker.missing_after, interval if covers(patterns, worker.queues) else max(interval, OTHERS))
        for worker in workers
        if worker.missing
    }
