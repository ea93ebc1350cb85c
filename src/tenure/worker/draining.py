"""`Draining`: decides when a worker stops taking jobs so that a suspect job gets its turn."""

from __future__ import annotations

import random

__all__ = ["Draining"]

FIRST = 1.0
"""Length of the first drain, in seconds."""

REST_FACTOR = 4.0
"""After a drain the worker takes jobs for about this many times the drain's length."""


class Draining:
    """Decides when to let the slots run empty. It reads no clock: callers pass the time.

    A suspect (a job whose workers keep dying) that is not isolated is leased only to a worker that holds nothing. A
    busy worker never gets there by itself, so it has to stop taking jobs for a while.

    The cost is bounded. Draining takes at most about a fifth of a worker's time, at random times so that workers do not
    drain together. Each drain is twice as long as the one before, so even jobs of an hour end within one sooner or
    later.
    """

    def __init__(self) -> None:
        self._length = FIRST
        self._ends_at = 0.0
        self._next_at = 0.0

    def begin(self, now: float) -> None:
        """Begin a drain because a suspect is waiting, unless the last one was too recent."""
        if now >= self._next_at:
            self._ends_at = now + self._length
            self._next_at = self._ends_at + self._length * REST_FACTOR * random.uniform(0.5, 1.5)  # noqa: S311
            self._length *= 2

    def remaining(self, now: float) -> float:
        """Seconds for which the worker takes no jobs; 0 or less if it may."""
        return self._ends_at - now

    def done(self) -> None:
        """Record that the worker holds nothing, so its next lease request may return the suspect."""
        self._length = FIRST
        self._ends_at = 0.0
