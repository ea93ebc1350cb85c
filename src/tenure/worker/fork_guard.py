"""Processes that a job has forked, and that come back from its function: copies of the worker, who have no business in it."""

from __future__ import annotations

import logging
import os

from tenure.core.after_fork import call_after_fork

__all__ = ["ForkGuard"]

log = logging.getLogger("tenure.worker")


class ForkGuard:
    """The process that this was made in. A copy of it would run other jobs a second time, on connections that it shares."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = _here.pid

    def exit_if_forked(self, whose: object) -> None:
        """End this process, at once, if it is another; what it has come back from is told."""
        if self._pid != _here.pid:
            log.warning(
                "a process that %s has forked has come back from its function, and is ended: end it with os._exit",
                whose,
            )
            os._exit(0)


class _Here:
    """Kept up to date by forks: asking the system would cost every job a call."""

    def __init__(self) -> None:
        self.note()

    def note(self) -> None:
        self.pid = os.getpid()


_here = _Here()
call_after_fork(_here.note)
