"""What an attempt produced: the answers that a task may raise or return, and what the worker saw."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tenure.checks import Duration, instant, seconds
from tenure.errors import InvalidOption
from tenure.job import ErrorInfo, NewJob

__all__ = [
    "Answer",
    "Fail",
    "Interrupted",
    "Outcome",
    "Raised",
    "Released",
    "Reschedule",
    "Retry",
    "Succeeded",
    "Undecodable",
    "Unknown",
    "Wait",
]


class Answer(Exception):
    """How a task may end an attempt other than by a value; raise it or return it."""


class Retry(Answer):
    """Run the job again, at the back of the queue: after `after` seconds, or by the backoff of the task if that is None.

    Counts as an attempt, so it fails the job once `max_attempts` is reached.
    """

    def __init__(self, why: str = "", *, after: Duration | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.after = None if after is None else seconds(after, "after")


class Fail(Answer):
    """Fail the job at once, whatever attempts are left."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class Reschedule(Answer):
    """Run the job again at a time, or after some seconds; the attempt is given back, it was no failure."""

    def __init__(self, *, after: Duration | None = None, at: datetime | None = None) -> None:
        if (after is None) == (at is None):
            raise InvalidOption("Reschedule takes either after= or at=")
        super().__init__(after if at is None else at)
        self.after = None if after is None else seconds(after, "after")
        self.at = None if at is None else instant(at, "at")


class Wait(Answer):
    """Hold no worker until somebody calls `job.complete(value)`; that value is the job's result.

    Nobody having done so within `timeout` seconds fails the job; None waits for ever.
    """

    def __init__(self, *, timeout: Duration | None = None) -> None:
        super().__init__(timeout)
        self.timeout = None if timeout is None else seconds(timeout, "timeout")


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The function returned; `children` are the jobs that it enqueued to exist if and only if it succeeds."""

    result: str | None
    children: tuple[NewJob, ...] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised something that is no answer."""

    exception: BaseException
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Unknown:
    """The worker has no task of that name; `known_elsewhere` if a live worker has."""

    error: ErrorInfo
    known_elsewhere: bool


@dataclass(frozen=True, slots=True)
class Undecodable:
    """The payload cannot be read, or does not fit the task's signature."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Released:
    """The attempt did not start, or its job is no longer the worker's."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The attempt had started, and its worker stops or leaves the queue."""


Outcome = Succeeded | Raised | Retry | Fail | Reschedule | Wait | Unknown | Undecodable | Released | Interrupted
