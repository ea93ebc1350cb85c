"""The first listener: what happens to jobs, in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenure import events
from tenure.escape import escaped
from tenure.events import Event
from tenure.job import ErrorInfo
from tenure.observe.lines import Bound, Human, Json, Lines, Said, bind

__all__ = ["LOGGER", "Bound", "Human", "Json", "Lines", "Logs", "bind", "told"]

LOGGER = "tenure.jobs"

_QUIET = (events.LeaseLost, events.Fenced, events.WorkerRetired, events.WorkerPruned)
"""What workers log themselves."""

LEVELS: Mapping[type[Event], int] = {
    **{kind: logging.DEBUG for kind in events.KINDS.values() if kind not in _QUIET},
    events.Succeeded: logging.INFO,
    events.Completed: logging.INFO,
    events.Cancelled: logging.INFO,
    events.Expired: logging.INFO,
    events.Retried: logging.WARNING,
    events.Reoffered: logging.WARNING,
    events.Lost: logging.WARNING,
    events.WorkerMissing: logging.WARNING,
    events.Failed: logging.ERROR,
    events.Broken: logging.ERROR,
}
"""One line at INFO, or above, for every job that has ended; more for what should not happen, all else for those who look for it."""

_BITS = {
    level: sum(kind.bit for kind, own in LEVELS.items() if own == level)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
}


class Logs:
    """Logs events through a logger of the standard library, by default `tenure.jobs`; arguments and results are not in them.

    Records have the event's time, and what it says in the attributes `event`, `job_id`, `task`, `queue`, `attempt`, `worker`, `duration`,
    `error` and so on.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logging.getLogger(LOGGER) if logger is None else logger

    def wants(self) -> int:
        enabled = self._logger.isEnabledFor
        return sum(bits for level, bits in _BITS.items() if enabled(level))

    def prepare(self, happened: Sequence[Event]) -> tuple[Lines, str] | Sequence[Event] | None:
        wants = self.wants()
        wanted = [event for event in happened if event.bit & wants]
        if not wanted or (handler := Lines.only(self._logger)) is None:
            return wanted or None
        return handler, handler.text(self._logger.name, map(told, wanted))

    def take(self, prepared: Sequence[tuple[Lines, str] | Sequence[Event]]) -> None:
        texts: dict[Lines, list[str]] = {}
        for part in prepared:
            match part:
                case (Lines() as handler, str(text)):
                    texts.setdefault(handler, []).append(text)
                case _:
                    for event in part:
                        self._log(told(event))
        for handler, parts in texts.items():
            handler.write("".join(parts))

    def _log(self, said: Said) -> None:
        at, level, message, event = said
        record = self._logger.makeRecord(self._logger.name, level, __file__, 0, "%s", (message,), None)
        record.created, record.msecs = at, (at - int(at)) * 1000
        vars(record).update(event.fields())
        self._logger.handle(record)


def told(event: Event) -> Said:
    """An event as a line of the log."""
    kind = type(event)
    say = _SAY.get(kind)
    message = f"{event.kind.replace('_', ' ')}: {_named(event)}" if say is None else say(event)
    return event.at, LEVELS.get(kind, logging.DEBUG), escaped(message), event


def _named(event: Event) -> str:
    return ", ".join(f"{name} {value}" for name, value in event.fields().items() if name != "event")


def _job(event: Any) -> str:
    return f"job {event.job_id} of task {event.task}"


def _attempt(event: Any) -> str:
    number = "" if event.attempt is None else f", attempt {event.attempt}"
    return number if event.duration is None else f"{number}, in {_span(event.duration)}"


def _span(seconds: float) -> str:
    return (
        f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3f} s" if seconds < 60 else f"{seconds:.0f} s"
    )


def _why(error: ErrorInfo | None) -> str:
    # The repr keeps line breaks and escape codes of a message out of the log: one job, one line.
    return "no reason given" if error is None else f"{error.type}: {error.message[:200]!r}"


_SAY: Mapping[type[Event], Callable[[Any], str]] = {
    events.Succeeded: lambda event: (
        f"job {event.job_id} of task {event.task} succeeded, attempt {event.attempt}, in {event.duration * 1000:.3g} ms"
        if event.duration is not None and event.duration < 0.9995
        else f"{_job(event)} succeeded{_attempt(event)}"
    ),
    events.Failed: lambda event: f"{_job(event)} ended as failed{_attempt(event)}: {_why(event.error)}",
    events.Broken: lambda event: f"{_job(event)} ended as broken{_attempt(event)}: {_why(event.error)}",
    events.Retried: lambda event: (
        f"{_job(event)} runs again in {event.delay:.3g} s{_attempt(event)}: {_why(event.error)}"
    ),
    events.Reoffered: lambda event: f"{_job(event)} is offered to others in {event.delay:.3g} s: {_why(event.error)}",
    events.Released: lambda event: f"{_job(event)} is released",
    events.Rescheduled: lambda event: f"{_job(event)} is rescheduled",
    events.Parked: lambda event: f"{_job(event)} waits to be completed",
    events.Lost: lambda event: f"{_job(event)} was lost by worker {event.worker}, loss {event.losses}",
    events.Cancelled: lambda event: f"{_job(event)} was cancelled",
    events.Completed: lambda event: f"{_job(event)} was completed from outside",
    events.Expired: lambda event: f"{_job(event)} has expired, and is cancelled",
    events.WorkerMissing: lambda event: f"worker {event.worker} is missing: silent for {event.silent_for:.0f} s",
}
