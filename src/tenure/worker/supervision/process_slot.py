"""Where one of a supervisor's processes belongs, and how soon the next one takes it."""

from __future__ import annotations

import asyncio
import time

from tenure.core.backoff import Backoff
from tenure.worker.stopping import ExitStatus
from tenure.worker.supervision.process import WorkerProcess

__all__ = ["RESTART", "ProcessSlot", "restart_delay"]

HEALTHY = 30.0
"""Seconds after which the death of a process is no sign that the next one will die as well."""

RESTART = Backoff(initial=0.5, maximum=30.0)
"""Pauses before a process that keeps dying is started again."""

ANSWER_WITHIN = 10.0
"""Seconds in which a process that is asked how it is must have answered."""


def restart_delay(exit_code: int, age: float, deaths: int, *, registered: bool) -> tuple[float, int]:
    """Seconds until a process that ended by itself is replaced, and how many have now died early in a row.

    At once if it asked for it or had been well; the first death of one that was at work is taken for an accident.
    """
    if exit_code == ExitStatus.RECYCLED or age >= HEALTHY:
        return 0.0, 0
    deaths += 1
    pauses = deaths - 1 if registered else deaths
    return (RESTART.jittered(pauses) if pauses else 0.0), deaths


class ProcessSlot:
    """Where one of the N processes belongs."""

    def __init__(self) -> None:
        self.process: WorkerProcess | None = None
        self.successor: WorkerProcess | None = None
        """With newer code: takes over when it is at work."""

        self.start: asyncio.TimerHandle | None = None
        """When the next one starts."""

        self.deaths = 0
        """Early ones in a row."""

        self.failure: str | None = None
        """Why the last one was never at work."""

        self.reloading = False
        """Its process was told to make room for one with newer code."""

        self.done = False
        """Nothing was left to do, and nobody is to look for more."""

    @property
    def trouble(self) -> str:
        """What keeps its process from leasing jobs; empty if nothing does."""
        process = self.process
        if self.done:
            return ""
        if process is None:
            return f"a process is not there ({self.failure})" if self.failure else "a process is not there"
        if not process.registered:
            return f"{process} is starting"
        if time.monotonic() - process.last_message_at > ANSWER_WITHIN:
            return f"{process} has not answered for {time.monotonic() - process.last_message_at:.0f} s"
        return f"{process}: {process.trouble}" if process.trouble else ""
