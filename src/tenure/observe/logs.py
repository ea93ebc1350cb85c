"""`Logs`, the listener that writes what happens to jobs to the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tenure import events
from tenure.core.escape import escaped
from tenure.core.failure import AttemptFailure
from tenure.core.job import ErrorInfo
from tenure.events import Event
from tenure.observe.log_lines import Bound, Human, Json, Lines, LogLine, bind

__all__ = ["LOGGER", "Bound", "Human", "Json", "Lines", "Logs", "bind", "line_of"]

LOGGER = "tenure.jobs"

REASON = 200
"""Longest part of an error's message in a line, in characters."""

_QUIET = (events.LeaseLost, events.Fenced, events.WorkerRetired, events.WorkerPruned)
"""Events that workers log themselves."""

LEVELS: Mapping[type[Event], int] = {
    **{kind: logging.DEBUG for kind in events.KINDS.values() if kind not in _QUIET},
    events.Succeeded: logging.INFO,
    events.Completed: logging.INFO,
    events.Cancelled: logging.INFO,
    events.Expired: logging.INFO,
    events.ScheduleSkipped: logging.INFO,
    events.ScheduleChanged: logging.INFO,
    events.Retried: logging.WARNING,
    events.Reoffered: logging.WARNING,
    events.Lost: logging.WARNING,
    events.WorkerMissing: logging.WARNING,
    events.Failed: logging.ERROR,
    events.Broken: logging.ERROR,
}
"""One line at INFO or above for every job that has ended; WARNING or ERROR for what should not happen; the rest at DEBUG."""

_BITS = {
    level: sum(kind.bit for kind, own in LEVELS.items() if own == level)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
}


class Logs:
    """Logs events through a logger of the standard library, by default `tenure.jobs`. Arguments and results are not logged.

    Records have the event's time, and its fields as the attributes `event`, `job_id`, `task`, `queue`, `attempt`, `worker`,
    `duration`, `error` and so on. The record of a job's last failed attempt has the exception as `exc_info`; for earlier
    ones a second record has it, at DEBUG.
    """

    def __init__(
        self, logger: logging.Logger | None = None, failures: Mapping[str, AttemptFailure] | None = None
    ) -> None:
        """`failures` has the exceptions of attempts that are being settled, by job id."""
        self._logger = logging.getLogger(LOGGER) if logger is None else logger
        self._failures = {} if failures is None else failures

    def wants(self) -> int:
        enabled = self._logger.isEnabledFor
        return sum(bits for level, bits in _BITS.items() if enabled(level))

    def prepare(self, happened: Sequence[Event]) -> tuple[Lines, str] | Sequence[LogLine] | None:
        wants = self.wants()
        wanted = [event for event in happened if event.bit & wants]
        if not wanted:
            return None
        if (handler := Lines.only(self._logger)) is None:
            return list(self._lines_of(wanted))
        return handler, handler.text(self._logger.name, self._lines_of(wanted))

    def take(self, prepared: Sequence[tuple[Lines, str] | Sequence[LogLine]]) -> None:
        texts: dict[Lines, list[str]] = {}
        for part in prepared:
            match part:
                case (Lines() as handler, str(text)):
                    texts.setdefault(handler, []).append(text)
                case _:
                    for line in part:
                        self._log(line)
        for handler, parts in texts.items():
            handler.write("".join(parts))

    def _lines_of(self, happened: Iterable[Event]) -> Iterable[LogLine]:
        return self._with_failures(happened) if self._failures else map(line_of, happened)

    def _with_failures(self, happened: Iterable[Event]) -> Iterator[LogLine]:
        for event in happened:
            line = line_of(event)
            failure = self._failures.get(event.job_id) if isinstance(event, events.EndEvent) else None
            if failure is None:
                yield line
            elif isinstance(event, events.Failed | events.Broken):
                yield (*line[:4], failure)
            else:
                yield line
                if isinstance(event, events.Retried) and self._logger.isEnabledFor(logging.DEBUG):
                    message = escaped(f"traceback of {_job(event)}, attempt {event.attempt}")
                    yield event.at, logging.DEBUG, message, event, failure

    def _log(self, line: LogLine) -> None:
        at, level, message, event, failure = line
        exc_info = None if failure is None else (type(failure.error), failure.error, failure.frames)
        record = self._logger.makeRecord(self._logger.name, level, __file__, 0, "%s", (message,), exc_info)
        if failure is not None:
            record.exc_text = failure.trace.rstrip("\n")
        record.created, record.msecs = at, (at - int(at)) * 1000
        vars(record).update(event.fields())
        self._logger.handle(record)


def line_of(event: Event) -> LogLine:
    """The log line of an event."""
    kind = type(event)
    message_of = _MESSAGES.get(kind)
    message = f"{event.kind.replace('_', ' ')}: {_named(event)}" if message_of is None else message_of(event)
    return event.at, LEVELS.get(kind, logging.DEBUG), escaped(message), event, None


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


def _why(event: Any) -> str:
    error: ErrorInfo | None = event.error
    if error is None:  # what ended it, such as the inbox, has the reason in the record alone
        return f"tenure job {event.job_id} says why"
    return f"{error.type}: {error.message[:REASON]}{'…' if len(error.message) > REASON else ''}"


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")


_SKIPPED = {
    "skipped": "its last job is not final",
    "duplicate": "another job owns the unique key",
    "missed": "it was not fired in time",
    "refused": "a before_enqueue hook refused it",
}

_MESSAGES: Mapping[type[Event], Callable[[Any], str]] = {
    events.Succeeded: lambda event: (
        f"job {event.job_id} of task {event.task} succeeded, attempt {event.attempt}, in {event.duration * 1000:.3g} ms"
        if event.duration is not None and event.duration < 0.9995
        else f"{_job(event)} succeeded{_attempt(event)}"
    ),
    events.Failed: lambda event: f"{_job(event)} ended as failed{_attempt(event)}: {_why(event)}",
    events.Broken: lambda event: f"{_job(event)} ended as broken{_attempt(event)}: {_why(event)}",
    events.Retried: lambda event: f"{_job(event)} runs again in {event.delay:.3g} s{_attempt(event)}: {_why(event)}",
    events.Reoffered: lambda event: f"{_job(event)} is offered to others in {event.delay:.3g} s: {_why(event)}",
    events.Released: lambda event: f"{_job(event)} is released",
    events.Rescheduled: lambda event: f"{_job(event)} is rescheduled",
    events.Parked: lambda event: f"{_job(event)} waits to be completed",
    events.Lost: lambda event: f"{_job(event)} was lost by worker {event.worker}, loss {event.losses}",
    events.Cancelled: lambda event: f"{_job(event)} was cancelled",
    events.Completed: lambda event: f"{_job(event)} was completed from outside",
    events.Expired: lambda event: f"{_job(event)} has expired, and is cancelled",
    events.ScheduleFired: lambda event: (
        f"schedule {event.schedule} enqueued job {event.job_id} of task {event.task} for {_instant(event.tick)}, "
        f"{_span(event.lag)} late"
    ),
    events.ScheduleSkipped: lambda event: (
        f"schedule {event.schedule} enqueued nothing for {_instant(event.tick)}: {_SKIPPED.get(event.why, event.why)}"
        + ("" if event.job_id is None else f" (job {event.job_id})")
    ),
    events.ScheduleChanged: lambda event: f"schedule {event.schedule} was {event.change}",
    events.WorkerMissing: lambda event: f"worker {event.worker} is missing: silent for {event.silent_for:.0f} s",
}
