"""What each signal asks of a worker, and how long its jobs may go on once it stops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from signal import Signals

from tenure.core.options import WorkerOptions

__all__ = ["AT_ONCE", "FINISH", "ExitStatus", "Stop", "WorkerCommand", "action_for"]

SECOND_AFTER = 1.0
"""Seconds after a first TERM or INT from which an INT is another one: one keystroke may come twice, by two ways."""


@dataclass(frozen=True, slots=True)
class Stop:
    """How long the jobs in hand may go on once no more are taken."""

    finish: float | None
    """Seconds in which they may finish; then they are told to stop. None: as long as they take."""

    clean_up: float
    """Seconds in which they may stop once they are told; then they are released, and what is isolated is killed."""


FINISH = Stop(None, 0.0)
AT_ONCE = Stop(0.0, 0.0)


class WorkerCommand(StrEnum):
    """What a signal may ask of a worker that goes on."""

    KILL = "kill"
    """Kill the isolated jobs that run; failed attempts, under their policy."""

    PAUSE = "pause"
    """Take no new jobs."""

    RESUME = "resume"
    """Take jobs again."""


class ExitStatus(IntEnum):
    """The status with which the process of a worker ends."""

    STOPPED = 0
    """It was told to, or there was nothing left to do."""

    FAILED = 1
    """Something went wrong that should not, and the log says what."""

    REFUSED = 2
    """It could not start: what it was action_for cannot be done as action_for, and one sentence says why."""

    RECYCLED = 75
    """It has reached `max_jobs`, `max_age` or `max_memory`: another should take its place at once."""


def action_for(signum: Signals, options: WorkerOptions, stopping_for: float | None) -> Stop | WorkerCommand:
    """What a signal asks of a worker that was first told to stop term_stop so many seconds ago; None: it was not."""
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
    """To stop as TERM does."""
    if not options.term_child:
        return AT_ONCE
    return Stop(float(options.pre_shutdown_timeout), float(options.term_timeout))  # type: ignore[arg-type]
