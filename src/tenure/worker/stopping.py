"""What each signal means to a worker, and how long its jobs may go on once it stops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from signal import Signals

from tenure.core.options import WorkerOptions

__all__ = ["AT_ONCE", "FINISH", "ExitStatus", "Stop", "WorkerCommand", "action_for"]

SECOND_AFTER = 1.0
"""An INT counts as a second one only this many seconds after the first TERM or INT: one keystroke may arrive twice, in
two ways.
"""


@dataclass(frozen=True, slots=True)
class Stop:
    """How long running jobs may go on once no more are taken."""

    finish: float | None
    """Seconds that jobs have to finish before they are aborted; None: as long as they take."""

    clean_up: float
    """Seconds that jobs have to stop once they are aborted. Then they are released, and isolated ones killed."""


FINISH = Stop(None, 0.0)
AT_ONCE = Stop(0.0, 0.0)


class WorkerCommand(StrEnum):
    """Signals that a worker acts on without stopping."""

    KILL = "kill"
    """Kill the isolated jobs that run. These are failed attempts, under their retry policy."""

    PAUSE = "pause"
    """Take no new jobs."""

    RESUME = "resume"
    """Take jobs again."""


class ExitStatus(IntEnum):
    """Exit status of a worker's process."""

    STOPPED = 0
    """It was stopped, or there was nothing left to do."""

    FAILED = 1
    """An unexpected error; the log has it."""

    REFUSED = 2
    """It could not start, and has printed one sentence that says why."""

    RECYCLED = 75
    """It has reached `max_jobs`, `max_age` or `max_memory` and should be replaced at once."""


def action_for(signum: Signals, options: WorkerOptions, stopping_for: float | None) -> Stop | WorkerCommand:
    """What a worker does on a signal.

    `stopping_for` is the number of seconds since it was first told to stop at once; None if it was not.
    """
    match signum:
        case Signals.SIGUSR1:
            return WorkerCommand.KILL
        case Signals.SIGUSR2:
            return WorkerCommand.PAUSE
        case Signals.SIGCONT:
            return WorkerCommand.RESUME
        case Signals.SIGTERM if options.graceful_term:
            return FINISH
        case Signals.SIGINT if stopping_for is not None and stopping_for >= SECOND_AFTER:
            return AT_ONCE
        case Signals.SIGTERM | Signals.SIGINT:
            return term_stop(options)
        case _:
            return FINISH


def term_stop(options: WorkerOptions) -> Stop:
    """The stop that TERM asks for."""
    if not options.term_child:
        return AT_ONCE
    return Stop(float(options.pre_shutdown_timeout), float(options.term_timeout))  # type: ignore[arg-type]
