"""What each signal asks of a worker, and how long its jobs may go on once it stops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from signal import Signals

from tenure.core.options import WorkerOptions

__all__ = ["AT_ONCE", "FINISH", "Command", "Exit", "Stop", "asked"]

AGAIN = 1.0
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


class Command(StrEnum):
    """What a signal may ask of a worker that goes on."""

    KILL = "kill"
    """Kill the isolated jobs that run; failed attempts, under their policy."""

    PAUSE = "pause"
    """Take no new jobs."""

    RESUME = "resume"
    """Take jobs again."""


class Exit(IntEnum):
    """The status with which the process of a worker ends."""

    STOPPED = 0
    """It was told to, or there was nothing left to do."""

    FAILED = 1
    """Something went wrong that should not, and the log says what."""

    REFUSED = 2
    """It could not start: what it was asked cannot be done as asked, and one sentence says why."""

    RECYCLED = 75
    """It has reached `max_jobs`, `max_age` or `max_memory`: another should take its place at once."""


def asked(signum: Signals, options: WorkerOptions, told_for: float | None) -> Stop | Command:
    """What a signal asks of a worker that was first told to stop now so many seconds ago; None: it was not."""
    match signum:
        case Signals.SIGUSR1:
            return Command.KILL
        case Signals.SIGUSR2:
            return Command.PAUSE
        case Signals.SIGCONT:
            return Command.RESUME
        case Signals.SIGTERM if options.graceful_term:
            return FINISH
        case Signals.SIGINT if told_for is not None and told_for >= AGAIN:
            return AT_ONCE
        case Signals.SIGTERM | Signals.SIGINT:
            return now(options)
        case _:
            return FINISH


def now(options: WorkerOptions) -> Stop:
    """To stop as TERM does."""
    if not options.term_child:
        return AT_ONCE
    return Stop(float(options.pre_shutdown_timeout), float(options.term_timeout))  # type: ignore[arg-type]
