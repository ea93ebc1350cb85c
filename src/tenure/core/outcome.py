"""Outcome of an attempt: the answers that a task may raise or return, and what the worker observed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Unpack

import msgspec

from tenure.core.checks import Duration, instant, seconds
from tenure.core.job import ErrorInfo, NewJob, Writes
from tenure.core.keywords import NextKeywords
from tenure.core.options import UNSET, Unset, job_fields
from tenure.errors import InvalidOption

__all__ = [
    "Abandoned",
    "Answer",
    "Done",
    "Fail",
    "Interrupted",
    "NamedStep",
    "Next",
    "Outcome",
    "Raised",
    "Reschedule",
    "Retry",
    "Success",
    "Undecodable",
    "Unknown",
    "Wait",
]


class Answer(Exception):
    """Base of what a task may raise or return to end an attempt other than with a result."""


class Retry(Answer):
    """Run the job again, at the back of the queue: after `after` seconds; None: after the delay of the task's backoff.

    This counts as an attempt, so the job fails once `max_attempts` is reached.
    """

    def __init__(self, why: str = "", *, after: Duration | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.after = None if after is None else seconds(after, "after")


class Fail(Answer):
    """Fail the job at once, even if it has attempts left."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class Reschedule(Answer):
    """Run the job again at a time (`at`), or after `after` seconds. The attempt does not count."""

    def __init__(self, *, after: Duration | None = None, at: datetime | None = None) -> None:
        if (after is None) == (at is None):
            raise InvalidOption("Reschedule takes either after= or at=")
        super().__init__(after if at is None else at)
        self.after = None if after is None else seconds(after, "after")
        self.at = None if at is None else instant(at, "at")


class NamedStep(Protocol):
    """Anything that names a step of a flow."""

    @property
    def step_name(self) -> str: ...


class Wait(Answer):
    """Park the job, without a worker, until it is completed with `job.complete(value)`. That value becomes its result.

    If it is not completed within `timeout` seconds, the job fails; a step continues with the step that `on_timeout` names
    instead. None: it waits for ever.
    """

    def __init__(self, *, timeout: Duration | None = None, on_timeout: str | NamedStep = "fail") -> None:
        super().__init__(timeout)
        self.timeout = None if timeout is None else seconds(timeout, "timeout")
        self.on_timeout = None if on_timeout == "fail" else _step_name(on_timeout, "on_timeout")
        """The name of a step; None: the job fails."""

        if timeout is None and self.on_timeout is not None:
            raise InvalidOption(f"Wait(on_timeout={self.on_timeout!r:.80}) needs a timeout: give timeout= too")


class Next(Answer):
    """Continue the run with this step instead of `then`, after these attributes were written to the run.

    `using` sets options of the next job.
    """

    def __init__(self, step: str | NamedStep, /, **attributes: Any) -> None:
        self.step = _step_name(step, "Next")
        super().__init__(self.step)
        self.attributes: Mapping[str, Any] = attributes
        self.fields: Mapping[str, Any] = {}
        """Fields of the next job that override those of its step."""

        self.after: tuple[Any, ...] = ()
        """The blockers of the next job."""

    def using(self, *, after: Iterable[Any] | Unset = UNSET, **options: Unpack[NextKeywords]) -> Next:
        """The same with other options for the next job, which mean what they mean for a task.

        `after`: jobs, runs, bound calls and bound starts that the next job waits for. Bound calls and starts are enqueued in
        the same operation. The next job gets the results in this order, in its parameter `results`.
        """
        given = options if isinstance(after, Unset) else {**options, "after": after}
        other = Next(self.step)
        other.attributes = self.attributes
        other.fields, other.after = job_fields(f"Next({self.step!r})", "Next", given, self.fields, self.after)
        return other


class Done(Answer):
    """End the run of a flow with this result, instead of continuing with `then`. Writes no attributes."""

    def __init__(self, value: Any = None) -> None:
        super().__init__(value)
        self.value = value


def _step_name(step: object, where: str) -> str:
    name = step if isinstance(step, str) else getattr(step, "step_name", None)
    if not isinstance(name, str):
        raise InvalidOption(f"{where} takes a step of the flow, or its name, got {step!r:.80}")
    return name


class Success(
    msgspec.Struct, frozen=True, gc=False
):  # a struct, because one is made for every job and a dataclass takes four times as long
    """The function returned. `children` are the jobs that it enqueued with its success, created only if it succeeds."""

    result: str | None
    children: tuple[NewJob, ...] = ()
    successor: NewJob | None = None
    """Of a step: the next step."""

    writes: Writes | None = None
    """Of a step: its writes to the run."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised an exception that is not an `Answer`."""

    exception: BaseException
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Collided:
    """The database rolled back the transaction that was to end the job, because it collided with another transaction."""

    raised: Raised


@dataclass(frozen=True, slots=True)
class Unknown:
    """The worker has no task of that name; `known_elsewhere`: whether another live worker has."""

    error: ErrorInfo
    known_elsewhere: bool


@dataclass(frozen=True, slots=True)
class Undecodable:
    """The payload cannot be decoded, or does not fit the task's signature."""

    error: ErrorInfo
    exception: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The attempt did not start, or its worker no longer holds the job. The job returns to the queue."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The attempt had started when its worker stopped or left the queue."""


Outcome = (
    Success | Raised | Collided | Retry | Fail | Reschedule | Wait | Unknown | Undecodable | Abandoned | Interrupted
)
