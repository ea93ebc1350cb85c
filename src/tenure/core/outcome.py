"""What an attempt produced: the answers that a task may raise or return, and what the worker saw."""

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
    "Answer",
    "Done",
    "Fail",
    "Interrupted",
    "NamedStep",
    "Next",
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


class NamedStep(Protocol):
    """A step of a flow, as far as it takes to name it."""

    @property
    def step_name(self) -> str: ...


class Wait(Answer):
    """Hold no worker until somebody calls `job.complete(value)`; that value is the job's result, as if it had returned it.

    Nobody having done so within `timeout` seconds fails the job, or, of a step, hands over to the step that `on_timeout`
    names; None waits for ever.
    """

    def __init__(self, *, timeout: Duration | None = None, on_timeout: str | NamedStep = "fail") -> None:
        super().__init__(timeout)
        self.timeout = None if timeout is None else seconds(timeout, "timeout")
        self.on_timeout = None if on_timeout == "fail" else _step_name(on_timeout, "on_timeout")
        """The name of a step; None: it fails."""

        if timeout is None and self.on_timeout is not None:
            raise InvalidOption(f"Wait(on_timeout={self.on_timeout!r:.80}) needs the timeout after which that is to be")


class Next(Answer):
    """Let this step of the flow follow, whatever `then` says, with these attributes written to the run before.

    `using` says how it is to be enqueued.
    """

    def __init__(self, step: str | NamedStep, /, **attributes: Any) -> None:
        self.step = _step_name(step, "Next")
        super().__init__(self.step)
        self.attributes: Mapping[str, Any] = attributes
        self.fields: Mapping[str, Any] = {}
        """What the next job says of itself in place of what its step does."""

        self.after: tuple[Any, ...] = ()
        """What it waits for."""

    def using(self, *, after: Iterable[Any] | Unset = UNSET, **options: Unpack[NextKeywords]) -> Next:
        """The same with other options for the next job, which mean what they mean for a task.

        `after`: jobs, runs, bound calls and bound starts, which come to exist in the same step, that it waits for. Their results
        are handed to it in this order, in its parameter `results`.
        """
        given = options if isinstance(after, Unset) else {**options, "after": after}
        other = Next(self.step)
        other.attributes = self.attributes
        other.fields, other.after = job_fields(f"Next({self.step!r})", "Next", given, self.fields, self.after)
        return other


class Done(Answer):
    """End the run of a flow with this result, whatever `then` says; nothing is written to the run's attributes."""

    def __init__(self, value: Any = None) -> None:
        super().__init__(value)
        self.value = value


def _step_name(step: object, where: str) -> str:
    name = step if isinstance(step, str) else getattr(step, "step_name", None)
    if not isinstance(name, str):
        raise InvalidOption(f"{where} takes a step of the flow, or its name, got {step!r:.80}")
    return name


class Succeeded(msgspec.Struct, frozen=True, gc=False):  # made for every job, and a dataclass takes four times as long
    """The function returned; `children` are the jobs that it enqueued to exist if and only if it succeeds."""

    result: str | None
    children: tuple[NewJob, ...] = ()
    successor: NewJob | None = None
    """Of a step: the one that it hands over to."""

    writes: Writes | None = None
    """Of a step: what it writes to its run."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised something that is no answer."""

    exception: BaseException
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Collided:
    """The database has undone the transaction in which the job was to end, because it met another one: no fault of the job's."""

    raised: Raised


@dataclass(frozen=True, slots=True)
class Unknown:
    """The worker has no task of that name; `known_elsewhere` if a live worker has."""

    error: ErrorInfo
    known_elsewhere: bool


@dataclass(frozen=True, slots=True)
class Undecodable:
    """The payload cannot be read, or does not fit the task's signature."""

    error: ErrorInfo
    exception: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """The attempt did not start, or its job is no longer the worker's."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The attempt had started, and its worker stops or leaves the queue."""


Outcome = (
    Succeeded | Raised | Collided | Retry | Fail | Reschedule | Wait | Unknown | Undecodable | Released | Interrupted
)
