"""How many jobs to lease before they can start."""

from __future__ import annotations

__all__ = ["LookAhead"]

AHEAD = 0.020
"""Seconds of work to lease ahead of the free slots: about what a round trip to the store, and a hiccup, may take."""

LIMIT = 1000
"""Jobs leased ahead at most."""

WEIGHT = 0.05
"""Share of the newest job in the mean run time: about the last 20 count."""

LONGEST = 0.2
"""Run times count no more than this, so that the mean of short jobs recovers soon after one long job."""

WINDOW = 0.010
"""Seconds over which the rate is measured at least."""

STARTED = 0.040
"""Seconds of starting jobs that are leased at a time after some had to be given back: a little less than they have."""

MORE_EVERY = 0.1
"""Seconds after which it tries twice as many: longer than it takes to find out that they are too many."""

UNLIMITED = 1 << 20


class LookAhead:
    """Measures how fast jobs go through the worker, and says how many of them its buffer may hold.

    Knows no clock: it is handed the time.
    """

    def __init__(self, slots: int, now: float, *, enabled: bool) -> None:
        self._slots = slots
        self._enabled = enabled
        self._mean = AHEAD  # none is leased ahead before a short one has run
        self._ran = 0
        self._since = now
        self._wanted = 0
        self._most = UNLIMITED
        self._more_at = now
        self._stalled = False

    def ran(self, seconds: float) -> None:
        """Note that a job has ended after this time."""
        self._mean += (min(seconds, LONGEST) - self._mean) * WEIGHT
        self._ran += 1
        self._stalled = False

    def stalled(self, given_back: int) -> None:
        """Note that so many jobs had to be given back unstarted: lease none ahead until a job has ended.

        Want no more at a time than did start, and then carefully more.
        """
        self._stalled = True
        self._most = max(self._wanted - given_back, 1)

    def wanted(self, free: int, now: float) -> int:
        """How many jobs the buffer should hold: one for each free slot, and what all slots do in 20 ms ahead of them.

        Nothing is leased ahead while jobs take that long each. What a worker cannot even start (its functions block the
        loop, say) is not worth leasing, free slots or not.
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
