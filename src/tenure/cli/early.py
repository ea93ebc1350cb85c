"""Keeps USR1 and USR2 from ending `tenure work` before it has handlers of its own. Imported before anything that takes time.

What comes meanwhile is remembered in `received`, and sent again once there are handlers. It is not ignored by the system, because that
would be inherited by the processes that are started. Signals that come while the interpreter itself starts still end the process,
unless a supervisor has started it: then they wait (`tenure.worker.supervision.process`), and are let in here.
"""

from __future__ import annotations

import signal
import sys

__all__ = ["received"]

received: list[int] = []
"""The signals that came before there were handlers, in their order."""


def _remember(signum: int, frame: object) -> None:  # noqa: ARG001
    received.append(signum)


if sys.argv[1:2] == ["work"]:
    _signums = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
    for _signum in _signums:
        if signal.getsignal(_signum) is signal.SIG_DFL:
            signal.signal(_signum, _remember)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _signums)
