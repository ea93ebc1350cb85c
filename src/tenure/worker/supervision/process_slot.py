"""`ProcessSlot`: one of a supervisor's N worker processes, and when it is replaced."""

from __future__ import annotations

import asyncio
import time

from tenure.core.backoff import Backoff
from tenure.worker.stopping import ExitStatus
from tenure.worker.supervision.process import WorkerProcess

__all__ = ["RESTART", "ProcessSlot", "restart_delay"]

HEALTHY = 30.0
"""A process that has run for this many seconds counts as healthy: its death does not delay the next one."""

RESTART = Backoff(initial=0.5, maximum=30.0)
"""Pauses before a process that keeps dying is started again."""

ANSWER_WITHIN = 10.0
"""Seconds within which a process must have sent a message."""


def restart_delay(exit_code: int, age: float, deaths: int, *, registered: bool) -> tuple[float, int]:
    """Seconds until a process that has exited is replaced, and the number of early deaths in a row.

    It is replaced at once if it asked for that or was healthy. The first death of a process that was working counts as
    an accident.
    """
    if exit_code == ExitStatus.RECYCLED or age >= HEALTHY:
        return 0.0, 0
    deaths += 1
    pauses = deaths - 1 if registered else deaths
    return (RESTART.jittered(pauses) if pauses else 0.0), deaths


class ProcessSlot:
    """One of the N processes of a supervisor, over all restarts."""

    def __init__(self) -> None:
        self.process: WorkerProcess | None = None
        self.successor: WorkerProcess | None = None
        """A process with newer code, which takes over when it is working."""

        self.start: asyncio.TimerHandle | None = None
        """Timer that starts the next process."""

        self.deaths = 0
        """Early deaths in a row."""

        self.failure: str | None = None
        """Why the last process never started to work; None if it did."""

        self.reloading = False
        """Whether its process was stopped to be replaced by one with newer code."""

        self.done = False
        """Whether its process found nothing left to do, with `until_empty`."""

    @property
    def trouble(self) -> str:
        """What keeps its process from leasing jobs, as a phrase; empty if it can."""
        process = self.process
        if self.done:
            return ""
        if process is None:
            return f"a process is missing ({self.failure})" if self.failure else "a process is missing"
        if not process.registered:
            return f"{process} is starting"
        if time.monotonic() - process.last_message_at > ANSWER_WITHIN:
            return f"{process} has not answered for {time.monotonic() - process.last_message_at:.0f} s"
        return f"{process}: {process.trouble}" if process.trouble else ""
