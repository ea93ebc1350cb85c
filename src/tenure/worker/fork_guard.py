"""Processes that a job has forked, and that come back from its function: copies of the worker, who have no business in it."""

from __future__ import annotations

import logging
import os

__all__ = ["ForkGuard"]

log = logging.getLogger("tenure.worker")


class ForkGuard:
    """The process that this was made in. A copy of it would run other jobs a second time, on connections that it shares."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = _current.pid

    def exit_if_forked(self, origin: object) -> None:
        """End this process, at once, if it is another; what it has come back from is told."""
        if self._pid != _current.pid:
            log.warning(
                "a process that %s has forked has come back from its function, and is ended: end it with os._exit",
                origin,
            )
            os._exit(0)


class _ProcessId:
    """Kept up to date by forks: asking the system would cost every job a call."""

    def __init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        self.pid = os.getpid()


_current = _ProcessId()
os.register_at_fork(after_in_child=_current.refresh)
