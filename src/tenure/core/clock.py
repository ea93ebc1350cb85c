"""Clock: the wall clock and the boot clock of a host, which tests replace by clocks that they move."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """The source of time of a store that lives on this host."""

    def wall(self) -> float:
        """Seconds since the epoch. Decides when a job is due. May jump."""
        ...

    def boot(self) -> float:
        """Seconds since the machine was booted, sleep included. Decides when a lease has expired. Never jumps."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    def wall(self) -> float:
        return time.time()

    def boot(self) -> float:
        return time.clock_gettime(_BOOT)


# macOS has no CLOCK_BOOTTIME; its monotonic clock is shared by all processes too, and stops only while the machine sleeps.
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
