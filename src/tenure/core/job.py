"""The job as a value: what a producer hands to a store, and what the store gives back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from tenure.core.after_fork import call_after_fork

__all__ = [
    "FINAL",
    "HISTORY",
    "AttemptEnd",
    "AttemptRecord",
    "BlockerPolicy",
    "ErrorInfo",
    "JobRecord",
    "NewJob",
    "Progress",
    "RunStep",
    "State",
    "Writes",
    "attempts_of",
    "in_brief",
    "new_id",
    "past_attempt",
]


class State(StrEnum):
    """Where a job is in its life. *Scheduled* and *retrying* are labels of `waiting`, *parked* is one of `blocked`: not states."""

    BLOCKED = "blocked"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BROKEN = "broken"

    @property
    def final(self) -> bool:
        """Whether only an operator's retry can change it again."""
        return self in FINAL


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.BROKEN})


class BlockerPolicy(StrEnum):
    """What becomes of a job when one that it waits for ends without success."""

    FAIL = "fail"
    """It fails too, with `BlockerFailed`."""

    PROCEED = "proceed"
    """It goes on; in the place of that result stands a `Failure` value."""

    WAIT = "wait"
    """It stays blocked until the other succeeds after a retry."""


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception as text, cut to a bounded length."""

    type: str
    message: str
    traceback: str | None = None
    output: str | None = None
    """The end of what the attempt wrote to stdout and stderr, if its task keeps that."""


HISTORY = 10
"""Attempts of a job that are remembered: the latest."""

BRIEF = 1_500
"""Characters of a traceback that are remembered with an attempt: its end."""


class AttemptEnd(StrEnum):
    """How an attempt came to its end."""

    RETRIED = "retried"
    FAILED = "failed"
    BROKEN = "broken"
    LOST = "lost"
    CANCELLED = "cancelled"
    """The job was, while it ran."""

    COMPLETED = "completed"
    """From outside, while it ran."""

    SUCCEEDED = "succeeded"


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that is over, or the one that runs. Times are seconds since the epoch by the store's clock."""

    number: int
    """The how-manieth attempt it was; an operator's retry begins anew with the first."""

    fence: int
    """That of its lease: no two attempts of a job have the same."""

    started_at: float
    ended_at: float | None = None
    worker: str | None = None
    outcome: AttemptEnd | None = None
    """None while it runs."""

    error: ErrorInfo | None = None
    """What it failed of, or how its worker was lost; in brief."""

    output: str | None = None
    """The end of what it wrote to stdout and stderr, if its task keeps that."""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a running job says it is."""

    done: float
    total: float | None = None
    note: str | None = None

    @property
    def percent(self) -> float | None:
        """How far it is in per cent of `total`; None without one."""
        return 100 * self.done / self.total if self.total else None


class Writes(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is written to a run of a flow."""

    attributes: dict[str, str] = {}
    """JSON by name, in place of what the run had under these names."""

    lookups: dict[str, tuple[str, ...]] = {}
    """What the run can be found by from now on: for each of these names its values, in place of those it had."""


class RunStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What makes a job a step of a run."""

    run_id: str
    """The id of the run's first job: the one that has this id itself begins the run."""

    flow: str
    reads: tuple[str, ...] = ()
    """Names of the attributes that whoever leases the job is given with it, as far as the run has them."""

    needs: tuple[str, ...] = ()
    """Names of attributes without which the job must not come to exist."""

    writes: Writes | None = None
    """What the run begins with; only of the job that begins it."""


# What is made for every job is out of the garbage collector's sight (gc=False), here and elsewhere: such values form no cycles.
class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of a task on its way into a store. Durations are seconds from the store's now."""

    id: str
    """Made by the producer, so that a repeated enqueue is the same job."""

    task: str
    queue: str
    payload: bytes = b"{}"
    """JSON of the arguments (`core/codec.py` has its shape), or the bytes of a raw task exactly as given."""

    raw: bool = False
    """Whether the payload is opaque bytes."""

    priority: int = 0
    """Lower comes first."""

    delay: float = 0.0
    """Seconds until it is due; 0 puts it in line at once."""

    run_at: float | None = None
    """Due at this time, in seconds since the epoch, instead of after `delay`."""

    expires: float | None = None
    """Seconds after which it is cancelled if it has not started by then."""

    unique: str | None = None
    """A key that one job of the task holds at a time."""

    window: float | None = None
    """Hold the unique key for this many seconds from now, success or failure notwithstanding; None: until the job is final."""

    unique_raises: bool = False
    """Whether a held key is a `UniqueConflict` rather than an answer that names the holder."""

    tags: tuple[str, ...] = ()
    keep: float | None = None
    """Seconds that the record is kept once final, in place of the queue's retention; 0: not at all."""

    lease: float | None = None
    """Seconds that a worker holds it without a word; None: as the worker asks."""

    max_attempts: int | None = None
    """Attempts before it fails for errors; 0: for ever; None: as the task says."""

    max_losses: int = 3
    """Losses before it fails as lost; 0: never."""

    after: tuple[str, ...] = ()
    """Ids of jobs that must be final first; their results are handed over in this order."""

    if_blocker_fails: BlockerPolicy = BlockerPolicy.FAIL
    step: RunStep | None = None
    """Of which run it is a step, if it is one."""

    @property
    def run_id(self) -> str | None:
        """The run that it is a step of."""
        return None if self.step is None else self.step.run_id

    @property
    def plain(self) -> bool:
        """Whether it is due at once, has no unique key, waits for no other and is no step of a run: as most are."""
        return not (self.delay or self.run_at is not None or self.unique is not None or self.after or self.step)


class JobRecord(msgspec.Struct, frozen=True, gc=False):
    """What a store knows of a job. Times are seconds since the epoch by the store's clock.

    A record that came with a lease carries what is needed to run the job; results, errors and edges of finished jobs
    come with `get`.
    """

    id: str
    task: str
    queue: str
    state: State
    payload: bytes
    raw: bool = False
    priority: int = 0
    seq: int = 0
    """Drawn each time the job joins the line at the back; with the priority it is the job's place."""

    run_at: float | None = None
    """When it is due, while it is scheduled; None once it is in line."""

    created_at: float = 0.0
    attempt: int = 0
    losses: int = 0
    fence: int = 0
    """Leases over its whole life."""

    misses: int = 0
    """How often it was handed to a worker that did not know its task, one after the other."""

    max_attempts: int | None = None
    max_losses: int = 3
    lease: float | None = None
    keep: float | None = None
    expires_at: float | None = None
    tags: tuple[str, ...] = ()
    unique: str | None = None
    run_id: str | None = None
    """The run that it is a step of: the id of that run's first step."""

    started_at: float | None = None
    """Start of the latest attempt."""

    ended_at: float | None = None
    """When it became final."""

    worker: str | None = None
    """Who holds it, or held it last."""

    lease_left: float | None = None
    """Seconds until the lease of a running job expires; negative once it has."""

    result: str | None = None
    """The result as JSON."""

    error: ErrorInfo | None = None
    """Of the latest attempt that failed or was lost; None again once one has succeeded."""

    progress: Progress | None = None
    blocked_by: int = 0
    """Open edges: how many things it still waits for."""

    results: tuple[str | None, ...] = ()
    """What the jobs it waited for have given it, as JSON, in the order of `after`."""

    successor: str | None = None
    """The step of its run that it has handed over to."""

    on_timeout: str | None = None
    """It was parked and nobody has completed it in time: the step that its holder is to hand over to, without running it."""

    reads: tuple[str, ...] = ()
    """Of a step: names of the attributes that it is given."""

    attributes: dict[str, str] | None = None
    """Of a step that came with a lease: those of the run that it reads, as JSON by name."""

    attempts: tuple[AttemptRecord, ...] = ()
    """Those that have ended without success or have left output, and those before an operator's retry; the latest `HISTORY`, the first
    first."""

    @property
    def suspect(self) -> bool:
        """Whether it has been lost often enough to be handed out only alone."""
        return self.losses >= 2

    @property
    def parked(self) -> bool:
        """Whether it waits to be completed from outside, such as by an approval, and for no other job."""
        return self.state is State.BLOCKED and None not in self.results

    @property
    def label(self) -> str:
        """The state, as people want to read it: a waiting job may be scheduled or retrying, a blocked one parked."""
        if self.parked:
            return "parked"
        if self.state is State.WAITING:
            if self.run_at is not None:
                return "scheduled" if self.attempt == 0 else "retrying"
            return "retrying" if self.attempt else "waiting"
        return self.state.value


def in_brief(error: ErrorInfo | None) -> ErrorInfo | None:
    """An error as it is remembered with an attempt: of its traceback the end."""
    if error is None or error.traceback is None or len(error.traceback) <= BRIEF:
        return error
    return ErrorInfo(error.type, error.message, error.traceback[-BRIEF:], error.output)


def past_attempt(
    number: int,
    fence: int,
    started_at: float,
    ended_at: float,
    worker: str | None,
    outcome: AttemptEnd,
    left: ErrorInfo | None,
) -> AttemptRecord:
    """An attempt that is over, by what it has left: its error, or in the place of one what a success wrote (`Finish.left`)."""
    output = None if left is None else left.output
    if outcome is AttemptEnd.SUCCEEDED:
        left = None
    elif left is not None and output is not None:
        left = ErrorInfo(left.type, left.message, left.traceback)
    return AttemptRecord(
        number=number,
        fence=fence,
        started_at=started_at,
        ended_at=ended_at,
        worker=worker,
        outcome=outcome,
        error=left,
        output=output,
    )


def attempts_of(job: JobRecord) -> list[AttemptRecord]:
    """All attempts that are known of a job which was read whole: those remembered, and the one that runs or has succeeded."""
    known = list(job.attempts)
    latest = job.state in {State.RUNNING, State.SUCCEEDED} and job.attempt > 0 and job.started_at is not None
    if latest and not any(past.fence == job.fence for past in known):
        ended = None if job.state is State.RUNNING else AttemptEnd.SUCCEEDED
        known.append(
            AttemptRecord(
                number=job.attempt,
                fence=job.fence,
                started_at=job.started_at or 0.0,
                ended_at=job.ended_at,
                worker=job.worker,
                outcome=ended,
            )
        )
    return known


def new_id() -> str:
    """Make an id that nobody else makes: a UUID of version 7, in order of time within one process's reach."""
    global _made_in  # noqa: PLW0603
    now = time.time_ns() // 1_000_000
    then, text = _made_in
    if then != now:
        text = f"{now:012x}"
        text = f"{text[:8]}-{text[8:]}-"
        _made_in = now, text
    return text + _draw()


_made_in = (0, "")
"""The millisecond in which the last id was made, and its text: many are made in the same one."""

_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))

_drawn: Iterator[str] = iter(())
"""Random ends of ids that nobody has used yet."""


def _draw() -> str:
    """Take one of the ends that were drawn together: each drawing gives up the interpreter lock."""
    global _drawn  # noqa: PLW0603
    for end in _drawn:
        return end
    text = os.urandom(10 * 256).hex()
    each = (text[start : start + 20] for start in range(0, len(text), 20))
    drawn = iter([f"7{digits[:3]}-{_VARIANT[digits[3]]}{digits[4:7]}-{digits[7:19]}" for digits in each])
    end = next(drawn)  # before another thread can see the rest, and exhaust it
    _drawn = drawn
    return end


def _forget_drawn() -> None:
    """In the child of a fork: its parent uses those."""
    global _drawn  # noqa: PLW0603
    _drawn = iter(())


call_after_fork(_forget_drawn)
