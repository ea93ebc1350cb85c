"""`Recycling`: decides when a worker has reached one of its limits and should be replaced."""

from __future__ import annotations

import random
from collections.abc import Callable

from tenure.core.checks import seconds
from tenure.core.options import WorkerOptions

__all__ = ["Recycling"]

INTERVAL = 1.0
"""Seconds between checks of age and memory."""

SPREAD = 0.1
"""Random share by which a worker's `max_age` is shortened or lengthened, so that workers started together do not end
together.
"""

UNLIMITED = 1 << 20


class Recycling:
    """Checks the limits `max_jobs`, `max_age` and `max_memory`. It reads no clock: callers pass the time."""

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
        """Whether the limits must be checked periodically, and not only when a job has ended."""
        return self._ends_at is not None or self._max_memory is not None

    def jobs_left(self, jobs: int) -> int:
        """How many more jobs may run after `jobs` jobs."""
        return UNLIMITED if self._max_jobs is None else max(self._max_jobs - jobs, 0)

    def limit_reached(self, jobs: int, now: float) -> str | None:
        """The limit that a worker has reached after `jobs` jobs, as a phrase for the log; None if it has reached none."""
        if self._max_jobs is not None and jobs >= self._max_jobs:
            return f"it has run {jobs:,} jobs"
        if self._ends_at is not None and now >= self._ends_at:
            return "it has reached its max_age"
        if self._max_memory is not None and (memory := self._memory()) >= self._max_memory:
            return f"it occupies {memory:,} bytes of memory"
        return None
