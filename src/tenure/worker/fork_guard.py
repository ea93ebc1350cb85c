"""`ForkGuard`: ends processes that a job has forked and that return from its function."""

from __future__ import annotations

import logging
import os

from tenure.core.after_fork import call_after_fork

__all__ = ["ForkGuard"]

log = logging.getLogger("tenure.worker")


class ForkGuard:
    """Remembers the process that created it.

    A fork of it would run jobs a second time, on connections that it shares with the worker.
    """

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = _current.pid

    def exit_if_forked(self, origin: object) -> None:
        """Exit at once if this process is a fork. `origin` is the function it returned from, for the log."""
        if self._pid != _current.pid:
            log.warning(
                "a process forked by %s returned from its function and was ended: call os._exit in the child",
                origin,
            )
            os._exit(0)


class _ProcessId:
    """The current process id, updated after each fork: a call of `os.getpid` for every job would cost more."""

    def __init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        self.pid = os.getpid()


_current = _ProcessId()
call_after_fork(_current.refresh)
