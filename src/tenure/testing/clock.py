"""`ManualClock` stands still until a test moves it; `FollowedClock` also moves the clock of Python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tenure.errors import InvalidOption

if TYPE_CHECKING:
    import time_machine

__all__ = ["FollowedClock", "ManualClock"]


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


class FollowedClock(ManualClock):
    """A clock that Python's own clock follows inside a block of `followed`, at every move."""

    _traveller: time_machine.Traveller | None = None

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both clocks, and on Python's if it follows."""
        super().advance(seconds)
        if self._traveller is not None:
            self._traveller.move_to(self.wall())

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Stop the clock of Python in all threads, and let it follow this one until the block ends."""
        try:
            import time_machine
        except ImportError:
            raise InvalidOption(
                "system=True moves the clock of Python by the package time-machine: install it"
            ) from None
        with time_machine.travel(self.wall(), tick=False) as traveller:
            self._traveller = traveller
            try:
                yield
            finally:
                self._traveller = None
