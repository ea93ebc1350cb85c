"""`LoopMonitor`: checks from another thread whether the worker's event loop moves."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
from collections.abc import Callable, Sequence
from time import monotonic

from tenure.core.loops import call_soon
from tenure.worker.attempt import Attempt

__all__ = ["LoopMonitor"]

BLOCKED = 1.0
"""Seconds for which the loop must be blocked before a warning is logged."""

MAX_NAMED = 3
"""Jobs named in the warning, at most, when it is unknown which one is the cause."""

log = logging.getLogger("tenure.worker")


class LoopMonitor:
    """Pings an event loop, and names the job that blocks it if there is no answer.

    Create it on that loop. Callers pass the time, of the monotonic clock; it reads the clock itself only when the loop answers.
    """

    def __init__(self, on_loop: Callable[[], Attempt | None]) -> None:
        self._on_loop = on_loop
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._pinged_at: float | None = None
        self._warned = False
        self._answered_at = -math.inf
        self._lag = 0.0
        self.expected_at = math.inf
        """When the next call of `look` should come."""

    def look(self, worker_id: str | None, now: float, held: Sequence[Attempt]) -> None:
        """Warn if this call comes so late that the whole process must have stood still.

        One of the jobs held since then may be the cause.
        """
        late = now - self.expected_at
        jobs = [each.lease.job for each in held if each.leased_at < self.expected_at and not each.settings.isolated]
        if late > BLOCKED and jobs:
            log.warning(
                "worker %s stood still for %.1f s, so it may have lost its leases. Does a C call hold the interpreter, in %s%s? "
                'Run such a task with isolation="process". Otherwise the whole process was paused',
                worker_id,
                late,
                ", ".join(f"job {job.id} of task {job.task}" for job in jobs[:MAX_NAMED]),
                f" or {len(jobs) - MAX_NAMED} more" if len(jobs) > MAX_NAMED else "",
            )

    def check(self, worker_id: str | None, now: float) -> None:
        """Check whether the loop has answered the last ping, and ping it again.

        Warns once for each time it is blocked.
        """
        if self._pinged_at is None:
            self._pinged_at = now
            self._warned = False
            call_soon(self._loop, self._moved)
        elif self.blocked(now) and not self._warned:
            self._warned = True
            frame = sys._current_frames().get(self._thread)
            log.warning(
                "worker %s: %s has blocked the event loop for over a second, now at %s: "
                "make it a plain def, or await something that does not block",
                worker_id,
                self._culprit,
                "an unknown place" if frame is None else f"{frame.f_code.co_filename!r}, line {frame.f_lineno}",
            )

    def blocked(self, now: float) -> str | None:
        """The job that blocks the loop; None if it moves."""
        return None if self._pinged_at is None or now - self._pinged_at <= BLOCKED else self._culprit

    def lag(self, now: float) -> float:
        """Seconds that the loop took to answer the last ping, or has not answered for; 0 if it was not pinged lately.

        A worker that runs no job does not ping its loop.
        """
        pinged_at = self._pinged_at  # once, because the loop sets it to None on its own thread
        waiting = 0.0 if pinged_at is None else now - pinged_at
        return max(waiting, self._lag if now - self._answered_at <= BLOCKED else 0.0)

    @property
    def _culprit(self) -> str:
        attempt = self._on_loop()
        return "something" if attempt is None else f"job {attempt.lease.job.id} of task {attempt.lease.job.task}"

    def _moved(self) -> None:
        if self._pinged_at is not None:
            self._answered_at = monotonic()
            self._lag = self._answered_at - self._pinged_at
        self._pinged_at = None
