"""Keeps USR1 and USR2, received early, from ending `tenure work` before its handlers are set. Imported first.

Early signals are remembered in `received`, and sent again once the handlers are set. They are not ignored with SIG_IGN,
because child processes would inherit that. Signals that come while the interpreter itself starts still end the process,
unless a supervisor has started it: then they are blocked (`tenure.worker.supervision.process`) and unblocked here.
"""

from __future__ import annotations

import signal
import sys

__all__ = ["received"]

received: list[int] = []
"""The numbers of the signals that came before the handlers were set, in order."""


def _remember(signum: int, frame: object) -> None:  # noqa: ARG001
    received.append(signum)


if sys.argv[1:2] == ["work"]:
    _signums = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
    for _signum in _signums:
        if signal.getsignal(_signum) is signal.SIG_DFL:
            signal.signal(_signum, _remember)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _signums)
