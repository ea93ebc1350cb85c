"""Removing finished jobs that retention does not keep."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tenure.core.options import AppOptions
from tenure.stores.base import BATCH, Store

__all__ = ["Pruner"]

LOOK = 1.0
"""Seconds between looks at how many jobs have been finished."""

SOON = 10_000
"""Finished jobs after which to prune, however short ago it was done: at 50,000 jobs a second a minute piles up millions."""


class Pruner:
    """Prunes every `interval` seconds, and sooner when many jobs have been finished; a step at a time."""

    def __init__(self, store: Store, options: AppOptions, interval: float, finished: Callable[[], int]) -> None:
        self._store = store
        self._options = options
        self._interval = interval
        self._finished = finished
        self._pruned_at = 0
        self._due = time.monotonic() + interval * random.random()  # noqa: S311

    async def prune(self) -> float:
        """Remove one step's worth if it is time; seconds until the next look."""
        now = time.monotonic()
        finished = self._finished()
        if now < self._due and finished - self._pruned_at < SOON:
            return min(LOOK, self._due - now)
        if await self._store.prune(self._options.keep, self._options.keep_in) >= BATCH:
            # As long a rest as the step took: a backlog of old records takes at most half of the store's time.
            return time.monotonic() - now
        self._pruned_at = finished
        self._due = now + self._interval
        return min(LOOK, self._interval)
