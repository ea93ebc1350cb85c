"""When a worker stops taking jobs so that a suspect gets its turn."""

from __future__ import annotations

import random

__all__ = ["Draining"]

FIRST = 1.0
"""Seconds that the first clearing may last."""

REST_FACTOR = 4.0
"""How many times as long as a clearing the worker then goes on as usual, about."""


class Draining:
    """Decides when to let the slots run empty. Knows no clock: it is handed the time.

    A suspect that is not isolated is handed out only to a worker that holds nothing, and a busy one never does: it has to stop
    taking jobs for a while. The harm is bounded: it gives a clearing no more than about a fifth of its time, at times that differ from
    worker to worker, and doubles the length from one try to the next, so that sooner or later even an hour's jobs have
    ended within one.
    """

    def __init__(self) -> None:
        self._length = FIRST
        self._ends_at = 0.0
        self._next_at = 0.0

    def begin(self, now: float) -> None:
        """Begin a clearing, unless the last one is too recent."""
        if now >= self._next_at:
            self._ends_at = now + self._length
            self._next_at = self._ends_at + self._length * REST_FACTOR * random.uniform(0.5, 1.5)  # noqa: S311
            self._length *= 2

    def remaining(self, now: float) -> float:
        """Seconds for which no job must be taken; 0 or less: take them."""
        return self._ends_at - now

    def done(self) -> None:
        """Note that the worker holds nothing: its next request may be given the suspect."""
        self._length = FIRST
        self._ends_at = 0.0
