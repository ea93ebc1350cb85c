"""`ManualClock`: a clock that stands still until a test moves it."""

from __future__ import annotations

import threading

__all__ = ["ManualClock"]


class ManualClock:
    """Wall clock and boot clock of a host.

    `advance` moves both, `set_wall` the wall clock alone. Safe to share between threads.
    """

    def __init__(self, wall: float = 1_700_000_000.0, boot: float = 1_000.0) -> None:
        self._lock = threading.Lock()
        self._wall = wall
        self._boot = boot

    def wall(self) -> float:
        with self._lock:
            return self._wall

    def boot(self) -> float:
        with self._lock:
            return self._boot

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock forward by `seconds`, or back if they are negative. The boot clock does not change."""
        with self._lock:
            self._wall += seconds

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both clocks."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards, got {seconds} s")
        with self._lock:
            self._wall += seconds
            self._boot += seconds
