"""What becomes of a job: pure decisions, which know neither a store nor the time."""

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
    """The job becomes final; the children come to exist in the same step."""

    state: State
    result: str | None = None
    error: ErrorInfo | None = None
    children: tuple[NewJob, ...] = ()
    successor: NewJob | None = None
    """The next step of the same run, which comes after the children and may wait for them; only with a success. It has no unique key."""

    writes: Writes | None = None
    """What is written to the run that the job is a step of; only with a success."""

    output: str | None = None
    """What the attempt wrote, to be remembered with it; only with a success: an error has its own."""

    @property
    def left(self) -> ErrorInfo | None:
        """What is remembered of the attempt: its error; or what a success wrote, as an error of no type, which all versions can read."""
        if self.state is not State.SUCCEEDED:
            return self.error
        return ErrorInfo("", "", output=self.output) if self.output else None


class Requeue(msgspec.Struct, frozen=True):
    """The job waits again: at the back once due, or at its old place at the front."""

    delay: float = 0.0
    """Seconds until it is due, by the store's clock."""

    run_at: float | None = None
    """Due at this time instead, in seconds since the epoch."""

    counts: bool = True
    """Whether the attempt stays counted."""

    front: bool = False
    """Keep the old place: the job was interrupted through no fault of its own."""

    missed: bool = False
    """The worker did not know the task."""

    error: ErrorInfo | None = None


class Park(msgspec.Struct, frozen=True):
    """The job is blocked until it is completed from outside. The attempt is given back."""

    timeout: float | None = None
    """Seconds until it fails, nobody having completed it; None: never."""

    on_timeout: str | None = None
    """Of a step only: instead of failing it then joins the line, for its holder to hand over to this step of the flow."""


Transition = Finish | Requeue | Park


class Policy(msgspec.Struct, frozen=True):
    """The settings of one job that decide about its end, looked up on job, task, worker and app."""

    retry: Backoff | None = Backoff()
    """None: the first exception fails the job."""

    max_attempts: int | None = 25
    """None: for ever."""

    unknown_for: float = 3600.0
    """Seconds that a job whose task nobody knows is offered again before it is broken."""

    fail_interrupted: bool = False
    """Whether a job fails that its worker did not let finish."""


RELEASE = Requeue(counts=False, front=True)

COLLISIONS = 100
"""Leases of a job that may have been given back, for whatever reason, before a collision counts as any other exception does."""

AFTER_COLLISION = Backoff(initial=0.05, maximum=1.0, jitter=1.0)
"""How long a job waits that has met another; at random, or those that have met would meet again."""


def next_transition(job: JobRecord, outcome: Outcome, policy: Policy) -> Transition:
    """Say what becomes of a job once an attempt has ended."""
    match outcome:
        case Success(result, children, successor, writes):
            return Finish(State.SUCCEEDED, result, None, children, successor, writes)
        case Raised(exception, error):
            # A wrong result is a mistake in the code: another attempt would do the work again, and give the same.
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
    """Whether the errors of this job have used up its attempts; a loss never does."""
    limit = policy.max_attempts if job.max_attempts is None else job.max_attempts or None
    return limit is not None and job.attempt - job.losses >= limit


class Loss(msgspec.Struct, frozen=True):
    """What a lost lease makes of a job: it returns to the front with one loss more, or has failed as lost."""

    losses: int
    failed: bool


def after_loss(losses: int, max_losses: int, solo: bool) -> Loss:
    """Say what becomes of a job whose worker died or went silent.

    It fails only if it was held alone when its last loss happened, so that a poison job's neighbours are not blamed;
    `max_losses=1` means what it says, however the job was held; 0 never fails it.
    """
    losses += 1
    failed = max_losses > 0 and losses >= max_losses and (solo or max_losses == 1)
    return Loss(losses, failed)


REASON = 200
"""Characters kept of the reason of a retirement."""

# What stores write about jobs that end without their worker's word, so that all of them say the same.

EXPIRED = ErrorInfo("Expired", "it had not started when its time to do so was over")
INTERRUPTED = ErrorInfo("Interrupted", "its worker was told to stop, or to leave the queue, before the job had ended")
WAIT_TIMEOUT = ErrorInfo("WaitTimeout", "nobody completed the job in the time that it waited")


def lost(losses: int, reason: str | None = None) -> ErrorInfo:
    """The error of a job whose worker was lost, for this reason if it is known."""
    what = f"its worker was retired ({reason})" if reason else "its worker died or went silent"
    return ErrorInfo("Lost", f"{what}, {losses} time(s) in all")


def kept_reason(reason: str | None) -> str:
    """The reason of a retirement as every store can keep it: short, and text without NUL; empty for none."""
    return (reason or "").encode(errors="backslashreplace").decode().replace("\0", "\\x00")[:REASON].strip()


def blocker_failed(blocker: str, ended: str) -> ErrorInfo:
    """The error of a job whose blocker has ended otherwise than by success."""
    return ErrorInfo("BlockerFailed", f"job {blocker}, which it waited for, ended as {ended}")


def failure_value(blocker: str, ended: str, error: ErrorInfo | None) -> str:
    """JSON that stands in the place of a result which will not come, for a job that proceeds without it."""
    value = {"job": blocker, "state": ended}
    if error is not None:
        value |= {"type": error.type, "message": error.message}
    return msgspec.json.encode({"$failure": value}).decode()


def _unknown_delay(misses: int) -> float:
    return min(10.0 * 2.0 ** min(misses, 10), 300.0)


def _offered_for(misses: int) -> float:
    return sum(_unknown_delay(n) for n in range(misses))
