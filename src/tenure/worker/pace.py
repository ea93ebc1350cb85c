"""How many short jobs to lease before there is a slot for them."""

from __future__ import annotations

__all__ = ["Pace"]

AHEAD = 0.020
"""Seconds of work to have in the buffer: about what a round trip to the store, and a hiccup, may take."""

LIMIT = 1000
"""Jobs leased ahead at most."""

WINDOW = 0.010
"""Seconds over which the rate is measured at least."""

WEIGHT = 0.05
"""Share of the newest job in the mean run time: about the last 20 count."""

LONGEST = 0.2
"""Run times count no more than this, so that the mean of short jobs recovers soon after one long job."""


class Pace:
    """Measures how fast jobs go through the worker. Knows no clock: it is handed the time."""

    def __init__(self, now: float) -> None:
        self._mean = 0.0
        self._rate = 0.0
        self._ran = 0
        self._since = now
        self._stalled = False

    def ran(self, seconds: float) -> None:
        """Note that a job has ended after this time."""
        self._mean += (min(seconds, LONGEST) - self._mean) * WEIGHT
        self._ran += 1
        self._stalled = False

    def stalled(self) -> None:
        """Note that jobs leased ahead had to be given back: none more until a job has ended."""
        self._stalled = True

    def ahead(self, now: float) -> int:
        """How many jobs make 20 ms of work at the rate of late; none while they take that long each."""
        elapsed = now - self._since
        if elapsed >= WINDOW:
            self._rate = self._ran / elapsed
            self._ran = 0
            self._since = now
        if self._stalled or self._mean >= AHEAD:
            return 0
        return min(int(self._rate * AHEAD), LIMIT)
