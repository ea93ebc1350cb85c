"""`Pruner`: removes finished jobs that are past their retention."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tenure.core.options import AppOptions
from tenure.stores.base import BATCH, Store

__all__ = ["Pruner"]

CHECK_INTERVAL = 1.0
"""Seconds between checks of how many jobs have finished."""

PRUNE_AFTER_JOBS = 10_000
"""Prune after this many finished jobs although the interval is not over: at 50,000 jobs a second, a minute adds up to
millions.
"""


class Pruner:
    """Prunes every `interval` seconds, and sooner when many jobs have finished; one batch at a time."""

    def __init__(self, store: Store, options: AppOptions, interval: float, finished: Callable[[], int]) -> None:
        self._store = store
        self._options = options
        self._interval = interval
        self._finished = finished
        self._pruned_at = 0
        self._due = time.monotonic() + interval * random.random()  # noqa: S311

    async def prune(self) -> float:
        """Remove one batch if it is time. Returns the seconds until the next call."""
        now = time.monotonic()
        finished = self._finished()
        if now < self._due and finished - self._pruned_at < PRUNE_AFTER_JOBS:
            return min(CHECK_INTERVAL, self._due - now)
        if await self._store.prune(self._options.keep, self._options.keep_in) >= BATCH:
            # Rest as long as the batch took, so that a backlog of old records takes at most half of the store's time.
            return time.monotonic() - now
        self._pruned_at = finished
        self._due = now + self._interval
        return min(CHECK_INTERVAL, self._interval)
