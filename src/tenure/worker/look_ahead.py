"""`LookAhead`: decides how many jobs to lease before there is a free slot for them."""

from __future__ import annotations

__all__ = ["LookAhead"]

AHEAD = 0.020
"""Seconds of work to lease ahead of the free slots: about a round trip to the store, plus a hiccup."""

LIMIT = 1000
"""Jobs leased ahead at most."""

WEIGHT = 0.05
"""Weight of the newest job in the mean run time: about the last 20 jobs count."""

LONGEST = 0.2
"""Run times count as at most this many seconds, so that the mean of short jobs recovers soon after one long job."""

WINDOW = 0.010
"""Seconds over which the rate is measured, at least."""

STARTED = 0.040
"""After jobs had to be released unstarted, lease as many at a time as start in this many seconds.

A little less than `START_WITHIN` of the keeper.
"""

MORE_EVERY = 0.1
"""Seconds after which it tries twice as many: longer than it takes to find out that they are too many."""

UNLIMITED = 1 << 20


class LookAhead:
    """Measures how fast jobs go through the worker, and decides how many its buffer may hold.

    It reads no clock: callers pass the time.
    """

    def __init__(self, slots: int, now: float, *, enabled: bool) -> None:
        self._slots = slots
        self._enabled = enabled
        self._mean = AHEAD  # none is leased ahead before a short job has run
        self._ran = 0
        self._since = now
        self._wanted = 0
        self._most = UNLIMITED
        self._more_at = now
        self._stalled = False

    def ran(self, seconds: float) -> None:
        """Record a job's run time."""
        self._mean += (min(seconds, LONGEST) - self._mean) * WEIGHT
        self._ran += 1
        self._stalled = False

    def stalled(self, given_back: int) -> None:
        """Record that `given_back` jobs were released because they did not start in time.

        Lease none ahead until a job has ended. Then lease no more at a time than did start, and increase slowly.
        """
        self._stalled = True
        self._most = max(self._wanted - given_back, 1)

    def wanted(self, free: int, now: float) -> int:
        """How many jobs the buffer should hold: one for each free slot, plus what all slots do in 20 ms.

        Nothing is leased ahead while jobs take longer than that each. Jobs that the worker could not even start,
        because its functions block the loop, are not leased although slots are free.
        """
        ahead = 0
        if self._enabled and self._mean < AHEAD and not self._stalled:
            ahead = min(round(self._slots * AHEAD / self._mean), LIMIT)
        self._wanted = min(free + ahead, self._manageable(now))
        return self._wanted

    def _manageable(self, now: float) -> int:
        if self._most < UNLIMITED:
            elapsed = now - self._since
            if elapsed >= WINDOW:
                self._most = max(self._most, round(self._ran / elapsed * STARTED))
                self._ran = 0
                self._since = now
            if now >= self._more_at:
                self._most *= 2
                self._more_at = now + MORE_EVERY
        return self._most
