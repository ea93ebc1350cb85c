"""Whether the worker's event loop moves, seen from another thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sys
import threading
from collections.abc import Callable, Sequence

from tenure.worker.attempt import Attempt

__all__ = ["LoopMonitor"]

BLOCKED = 1.0
"""Seconds for which the loop must not have moved before that is worth a warning."""

NAMED = 3
"""How many jobs are named at most when it cannot be known which it was."""

log = logging.getLogger("tenure.worker")


class LoopMonitor:
    """Pings an event loop, and knows which job has it if there is no answer. Made on that loop. Knows no clock: it is handed the time."""

    def __init__(self, on_loop: Callable[[], Attempt | None]) -> None:
        self._on_loop = on_loop
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._pinged_at: float | None = None
        self._warned = False
        self.expected_at = math.inf
        """When whoever looks meant to look again."""

    def look(self, worker_id: str | None, now: float, held: Sequence[Attempt]) -> None:
        """Warn if this look comes so late that not even who looks can have moved; one of the jobs held since then may be why."""
        late = now - self.expected_at
        jobs = [each.lease.job for each in held if each.leased_at < self.expected_at and not each.settings.isolated]
        if late > BLOCKED and jobs:
            log.warning(
                "worker %s has stood still for %.1f s, and its leases may be lost. A call into C that holds the interpreter, in %s%s? "
                'Such a task needs isolation="process". Or else the whole process was paused',
                worker_id,
                late,
                ", ".join(f"job {job.id} of task {job.task}" for job in jobs[:NAMED]),
                f" or {len(jobs) - NAMED} more" if len(jobs) > NAMED else "",
            )

    def check(self, worker_id: str | None, now: float) -> None:
        """See whether it has answered the last ping, and ping it again; warn once if it does not answer."""
        if self._pinged_at is None:
            self._pinged_at = now
            self._warned = False
            with contextlib.suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(self._moved)
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
        """What keeps the loop from moving; None if nothing does."""
        return None if self._pinged_at is None or now - self._pinged_at <= BLOCKED else self._culprit

    @property
    def _culprit(self) -> str:
        attempt = self._on_loop()
        return "something" if attempt is None else f"job {attempt.lease.job.id} of task {attempt.lease.job.task}"

    def _moved(self) -> None:
        self._pinged_at = None
