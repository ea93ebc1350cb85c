"""`RegistryPruner`: removes workers from the registry that are gone."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence

from tenure.core.patterns import covers
from tenure.stores.base import Store
from tenure.stores.values import WorkerInfo

__all__ = ["RegistryPruner", "required_silence"]

OTHER_QUEUES_SILENCE = 600.0
"""Seconds that workers of other queues must have been silent before they are removed."""

log = logging.getLogger("tenure.worker")


class RegistryPruner:
    """Removes missing workers that hold no jobs, at start and every `interval` seconds. One worker does so for all.

    This never takes jobs. While a missing worker holds any, it is only shown as missing, and its leases decide.
    """

    def __init__(self, store: Store, patterns: Callable[[], Sequence[str]], interval: float) -> None:
        self._store = store
        self._patterns = patterns
        self._interval = interval

    async def prune(self) -> float:
        """Remove workers that are due, if this worker claims the chore. Returns the seconds until the next call."""
        if await self._store.claim_chore("registry", self._interval):
            due = required_silence(await self._store.workers(), self._patterns(), self._interval)
            for worker_id in await self._store.forget(due) if due else ():
                log.warning("worker %s is missing and holds nothing: removed from the registry", worker_id)
        # Jitter: otherwise the same worker would always be first, and only workers of its queues would be removed soon.
        return self._interval * random.uniform(0.9, 1.1)  # noqa: S311


def required_silence(workers: Iterable[WorkerInfo], patterns: Sequence[str], interval: float) -> dict[str, float]:
    """The missing workers, each with the seconds of silence after which a worker that serves `patterns` may remove it."""
    return {
        worker.id: max(
            worker.missing_after, interval if covers(patterns, worker.queues) else max(interval, OTHER_QUEUES_SILENCE)
        )
        for worker in workers
        if worker.missing
    }
