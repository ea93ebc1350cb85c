"""Decides what becomes of a job: the transition after an attempt, or after a loss. Pure: no store and no clock."""

from __future__ import annotations

from typing import assert_never

import msgspec

from tenure.core.backoff import Backoff
from tenure.core.job import ErrorInfo, JobRecord, NewJob, State, Writes
from tenure.core.outcome import (
    Abandoned,
    Collided,
    Fail,
    Interrupted,
    Outcome,
    Raised,
    Reschedule,
    Retry,
    Success,
    Undecodable,
    Unknown,
    Wait,
)
from tenure.errors import InvalidResult

__all__ = [
    "EXPIRED",
    "WAIT_TIMEOUT",
    "Finish",
    "Loss",
    "Park",
    "Policy",
    "Requeue",
    "Transition",
    "after_loss",
    "blocker_failed",
    "failure_value",
    "kept_reason",
    "lost",
    "next_transition",
]


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The job becomes final. Its children are created in the same operation."""

    state: State
    result: str | None = None
    error: ErrorInfo | None = None
    children: tuple[NewJob, ...] = ()
    successor: NewJob | None = None
    """The next step of the same run, which may wait for the children; only with a success. It has no unique key."""

    writes: Writes | None = None
    """Writes to the run that the job is a step of; only with a success."""

    output: str | None = None
    """The output of the attempt, remembered with it; only with a success, because an error carries the output itself."""

    @property
    def left(self) -> ErrorInfo | None:
        """What is remembered of the attempt: its error; of a success its output, in an `ErrorInfo` without a type."""
        if self.state is not State.SUCCEEDED:
            return self.error
        return ErrorInfo("", "", output=self.output) if self.output else None


class Requeue(msgspec.Struct, frozen=True):
    """The job waits again: at the back of the queue once it is due, or at its old position."""

    delay: float = 0.0
    """Seconds until it is due, by the store's clock."""

    run_at: float | None = None
    """When it is due instead of after `delay`, in seconds since the epoch."""

    counts: bool = True
    """Whether the attempt counts."""

    front: bool = False
    """Whether the job returns to its old position, because it was interrupted through no fault of the job."""

    missed: bool = False
    """Whether the worker did not know the task."""

    error: ErrorInfo | None = None


class Park(msgspec.Struct, frozen=True):
    """The job is blocked until it is completed from outside. The attempt does not count."""

    timeout: float | None = None
    """Seconds until it fails unless it is completed; None: never."""

    on_timeout: str | None = None
    """For a step only: the step of the flow to continue with after the timeout, instead of failing."""


Transition = Finish | Requeue | Park


class Policy(msgspec.Struct, frozen=True):
    """The settings of one job that decide its transitions, looked up on job, task, worker and app."""

    retry: Backoff | None = Backoff()
    """None: the first exception fails the job."""

    max_attempts: int | None = 25
    """Attempts after which an error fails the job; None: no limit."""

    unknown_for: float = 3600.0
    """Seconds that a job whose task no worker knows is offered again before it is broken."""

    fail_interrupted: bool = False
    """Whether a job fails that its worker interrupts, instead of returning to the queue."""


RELEASE = Requeue(counts=False, front=True)

COLLISIONS = 100
"""After this many uncounted attempts of a job, a collision counts like any other exception."""

AFTER_COLLISION = Backoff(initial=0.05, maximum=1.0, jitter=1.0)
"""The delay of a job after a collision; random, because otherwise the same jobs would collide again."""


def next_transition(job: JobRecord, outcome: Outcome, policy: Policy) -> Transition:
    """The transition of a job after an attempt with this outcome."""
    match outcome:
        case Success(result, children, successor, writes):
            return Finish(State.SUCCEEDED, result, None, children, successor, writes)
        case Raised(exception, error):
            # A wrong result is a bug in the code: another attempt would do the work again and return the same.
            if isinstance(exception, InvalidResult):
                return Finish(State.FAILED, error=error)
            if policy.retry is None or not policy.retry.covers(exception) or exhausted(job, policy):
                return Finish(State.FAILED, error=error)
            return Requeue(policy.retry.jittered(job.attempt - job.losses), error=error)
        case Collided(raised):
            given_back = job.fence - job.attempt
            if policy.fail_interrupted or given_back >= COLLISIONS:
                return next_transition(job, raised, policy)
            return Requeue(AFTER_COLLISION.jittered(given_back + 1), counts=False, error=raised.error)
        case Retry():
            error = ErrorInfo("Retry", outcome.why)
            if exhausted(job, policy):
                return Finish(State.FAILED, error=error)
            if outcome.after is not None:
                return Requeue(outcome.after, error=error)
            return Requeue((policy.retry or Backoff()).jittered(job.attempt - job.losses), error=error)
        case Fail():
            return Finish(State.FAILED, error=ErrorInfo("Fail", outcome.why))
        case Reschedule():
            return Requeue(outcome.after or 0.0, run_at=outcome.at, counts=False)
        case Wait():
            return Park(outcome.timeout, outcome.on_timeout)
        case Unknown(error, known_elsewhere):
            if not known_elsewhere and _offered_for(job.misses) >= policy.unknown_for:
                return Finish(State.BROKEN, error=error)
            return Requeue(_unknown_delay(job.misses), counts=False, missed=True, error=error)
        case Undecodable(error):
            return Finish(State.BROKEN, error=error)
        case Abandoned():
            return RELEASE
        case Interrupted():
            return Finish(State.FAILED, error=INTERRUPTED) if policy.fail_interrupted else RELEASE
        case _:
            assert_never(outcome)


def exhausted(job: JobRecord, policy: Policy) -> bool:
    """Whether the job has used up its attempts; losses do not count."""
    limit = policy.max_attempts if job.max_attempts is None else job.max_attempts or None
    return limit is not None and job.attempt - job.losses >= limit


class Loss(msgspec.Struct, frozen=True):
    """What a lost lease makes of a job: it returns to its position with one loss more, or fails as lost."""

    losses: int
    failed: bool


def after_loss(losses: int, max_losses: int, solo: bool) -> Loss:
    """What becomes of a job whose worker died or went silent.

    The job fails at `max_losses` only if it was leased alone (`solo`), so that jobs that ran beside a poison job do not fail
    with it. `max_losses=1` fails it at the first loss in any case; 0 never fails it.
    """
    losses += 1
    failed = max_losses > 0 and losses >= max_losses and (solo or max_losses == 1)
    return Loss(losses, failed)


REASON = 200
"""Characters of the reason of a retirement that are stored."""

# The errors of jobs that end without a settlement of their worker. All stores use these.

EXPIRED = ErrorInfo("Expired", "the job expired before it started")
INTERRUPTED = ErrorInfo("Interrupted", "its worker stopped, or left the queue, before the job had ended")
WAIT_TIMEOUT = ErrorInfo("WaitTimeout", "the job was not completed before its timeout")


def lost(losses: int, reason: str | None = None) -> ErrorInfo:
    """The error of a job whose worker was lost; `reason` is that of a retirement."""
    what = f"its worker was retired ({reason})" if reason else "its worker died or went silent"
    return ErrorInfo("Lost", f"{what}, {losses} time(s) in all")


def kept_reason(reason: str | None) -> str:
    """The reason of a retirement as every store accepts it: at most `REASON` characters, no NUL; empty if there is none."""
    return (reason or "").encode(errors="backslashreplace").decode().replace("\0", "\\x00")[:REASON].strip()


def blocker_failed(blocker: str, ended: str) -> ErrorInfo:
    """The error of a job whose blocker ended without success."""
    return ErrorInfo("BlockerFailed", f"job {blocker}, which it waited for, ended as {ended}")


def failure_value(blocker: str, ended: str, error: ErrorInfo | None) -> str:
    """The JSON that a job gets in place of the result of a failed blocker, if it proceeds."""
    value = {"job": blocker, "state": ended}
    if error is not None:
        value |= {"type": error.type, "message": error.message}
    return msgspec.json.encode({"$failure": value}).decode()


def _unknown_delay(misses: int) -> float:
    return min(10.0 * 2.0 ** min(misses, 10), 300.0)


def _offered_for(misses: int) -> float:
    return sum(_unknown_delay(n) for n in range(misses))
