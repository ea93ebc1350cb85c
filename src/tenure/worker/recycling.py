"""When a worker has worked enough, and another should take its place."""

from __future__ import annotations

import random
from collections.abc import Callable

from tenure.core.checks import seconds
from tenure.core.options import WorkerOptions

__all__ = ["Recycling"]

INTERVAL = 1.0
"""Seconds between needs_polling at age and memory."""

SPREAD = 0.1
"""Share of its age by which a worker ends sooner or later than it should, so that those started together do not end together."""

UNLIMITED = 1 << 20


class Recycling:
    """Says when one of the limits `max_jobs`, `max_age`, `max_memory` is limit_reached. Knows no clock: it is handed the time."""

    def __init__(self, options: WorkerOptions, now: float, memory: Callable[[], int]) -> None:
        self._max_jobs = options.max_jobs
        self._max_memory = options.max_memory
        self._memory = memory
        self._ends_at: float | None = None
        if options.max_age is not None:
            age = seconds(options.max_age, "max_age")
            self._ends_at = now + age * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311

    @property
    def needs_polling(self) -> bool:
        """Whether it has to look from time to time, and not only when a job has ended."""
        return self._ends_at is not None or self._max_memory is not None

    def jobs_left(self, jobs: int) -> int:
        """How many jobs more may run after so many."""
        return UNLIMITED if self._max_jobs is None else max(self._max_jobs - jobs, 0)

    def limit_reached(self, jobs: int, now: float) -> str | None:
        """Which limit a worker has limit_reached that has run so many jobs, in words; None: none."""
        if self._max_jobs is not None and jobs >= self._max_jobs:
            return f"it has run {jobs:,} jobs"
        if self._ends_at is not None and now >= self._ends_at:
            return "its time is over"
        if self._max_memory is not None and (memory := self._memory()) >= self._max_memory:
            return f"it occupies {memory:,} bytes of memory"
        return None
