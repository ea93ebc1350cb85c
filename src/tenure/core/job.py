"""The job as a value: `NewJob` is what a producer passes to a store, `JobRecord` what a store returns."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from tenure.core.after_fork import call_after_fork
from tenure.core.origin import origin_of

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
    "shortened",
]


class State(StrEnum):
    """The state of a job. *Scheduled* and *retrying* are only labels of `waiting`, *parked* of `blocked`."""

    BLOCKED = "blocked"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BROKEN = "broken"

    @property
    def final(self) -> bool:
        """Whether only an operator's retry can change the job again."""
        return self in FINAL


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.BROKEN})


class BlockerPolicy(StrEnum):
    """What becomes of a job when one of its blockers ends without success."""

    FAIL = "fail"
    """The job fails too, with `BlockerFailed`."""

    PROCEED = "proceed"
    """The job runs; in place of the missing result it gets a JSON object `{"$failure": …}`."""

    WAIT = "wait"
    """The job stays blocked until the blocker succeeds after a retry."""


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception as text of bounded length."""

    type: str
    message: str
    traceback: str | None = None
    output: str | None = None
    """The end of what the attempt wrote to stdout and stderr, if its task captures output."""


HISTORY = 10
"""How many attempts of a job are remembered, the latest ones."""

BRIEF = 1_500
"""Characters of a traceback that are remembered with an attempt, up to its end."""


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    RETRIED = "retried"
    FAILED = "failed"
    BROKEN = "broken"
    LOST = "lost"
    CANCELLED = "cancelled"
    """The job was cancelled while it ran."""

    COMPLETED = "completed"
    """The job was completed from outside while it ran."""

    SUCCEEDED = "succeeded"


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that has ended, or the one that runs. Times are seconds since the epoch by the store's clock."""

    number: int
    """Attempt number, from 1. An operator's retry starts again at 1."""

    fence: int
    """The fence of its lease: no two attempts of a job have the same."""

    started_at: float
    ended_at: float | None = None
    worker: str | None = None
    outcome: AttemptEnd | None = None
    """None while the attempt runs."""

    error: ErrorInfo | None = None
    """The error that it failed with, or how its worker was lost; the traceback is cut to `BRIEF`."""

    output: str | None = None
    """The end of what it logged, and of what it wrote if it ran in a child process, if its task has `output=`."""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress that a running job has reported."""

    done: float
    total: float | None = None
    note: str | None = None
    tail: str | None = None
    """The last 2,000 characters of the output so far; None if its task keeps none (`output=`), or it has none yet."""

    @property
    def percent(self) -> float | None:
        """`done` in per cent of `total`; None without a total."""
        return 100 * self.done / self.total if self.total else None


class Writes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Attributes and lookup values that are written to a run of a flow."""

    attributes: dict[str, str] = {}
    """JSON by attribute name; replaces what the run had under these names."""

    lookups: dict[str, tuple[str, ...]] = {}
    """Lookup values by attribute name; replace those that the run had under these names."""


class RunStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts that make a job a step of a run."""

    run_id: str
    """The id of the run, which is the id of its first job."""

    flow: str
    reads: tuple[str, ...] = ()
    """Names of the attributes that the store hands out with a lease of the job; those that the run lacks are left out."""

    needs: tuple[str, ...] = ()
    """Names of the attributes without which the store refuses to create the job."""

    writes: Writes | None = None
    """The first attributes of the run; only for the job that begins it."""


# gc=False, here and elsewhere: the garbage collector need not track values that are made for every job and form no cycles.
class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call of a task on its way into a store. Durations are seconds from the moment at which the store adds it."""

    id: str
    """Made by the producer, so that enqueueing it again is the same job."""

    task: str
    queue: str
    payload: bytes = b"{}"
    """The arguments as JSON (`core/codec.py` describes the format), or the bytes of a raw task unchanged."""

    raw: bool = False
    """Whether the payload is opaque bytes."""

    priority: int = 0
    """Lower comes first."""

    delay: float = 0.0
    """Seconds until it is due; 0: at once."""

    run_at: float | None = None
    """Due at this time, in seconds since the epoch, instead of after `delay`."""

    expires: float | None = None
    """Seconds after which it is cancelled if it has not started by then."""

    unique: str | None = None
    """The unique key: one job of the task owns it at a time."""

    window: float | None = None
    """Seconds that the job owns the unique key, also after it has ended; None: until the job is final."""

    unique_raises: bool = False
    """Whether a unique key that another job owns raises `UniqueConflict`; otherwise that job is returned."""

    tags: tuple[str, ...] = ()
    keep: float | None = None
    """Seconds that the record is kept once the job is final; 0: not at all; None: as the queue's retention says."""

    lease: float | None = None
    """Seconds from a renewal of the lease to its expiry; None: as the worker's option says."""

    max_attempts: int | None = None
    """Attempts after which an error fails it; 0: no limit; None: as the task's option says."""

    max_losses: int = 3
    """Losses after which it fails as lost; 0: no limit."""

    after: tuple[str, ...] = ()
    """Ids of the jobs that must be final first; it gets their results in this order."""

    if_blocker_fails: BlockerPolicy = BlockerPolicy.FAIL
    step: RunStep | None = None
    """The run that it is a step of, and how; None if it is not a step."""

    headers: dict[str, str] | None = None
    """Short texts by name that travel with the job; Tenure does not read them. None if it has none, never empty."""

    @property
    def run_id(self) -> str | None:
        """The id of the run that it is a step of; None if it is not a step."""
        return None if self.step is None else self.step.run_id

    @property
    def plain(self) -> bool:
        """Whether it is due at once, has no unique key, no blockers and no run; most jobs are plain."""
        return not (self.delay or self.run_at is not None or self.unique is not None or self.after or self.step)


class JobRecord(msgspec.Struct, frozen=True, gc=False):
    """A job as a store returns it. Times are seconds since the epoch by the store's clock.

    A record that comes with a lease has the fields that are needed to run the job. `get` also fills in results, errors,
    attempts and blockers.
    """

    id: str
    task: str
    queue: str
    state: State
    payload: bytes
    raw: bool = False
    priority: int = 0
    seq: int = 0
    """A number drawn each time the job joins the back of the queue. (priority, seq) is the position of the job."""

    run_at: float | None = None
    """When it is due, while it is scheduled; None once it is due."""

    created_at: float = 0.0
    attempt: int = 0
    losses: int = 0
    fence: int = 0
    """How often it has been leased, over its whole life."""

    misses: int = 0
    """How often in a row it was leased to a worker that did not know its task."""

    max_attempts: int | None = None
    max_losses: int = 3
    lease: float | None = None
    keep: float | None = None
    expires_at: float | None = None
    tags: tuple[str, ...] = ()
    unique: str | None = None
    run_id: str | None = None
    """The id of the run that it is a step of, which is the id of the run's first step; None if it is not a step."""

    started_at: float | None = None
    """Start of the latest attempt."""

    ended_at: float | None = None
    """When it became final."""

    worker: str | None = None
    """The worker that holds it, or held it last."""

    lease_left: float | None = None
    """Seconds until the lease of a running job expires; negative once it has."""

    result: str | None = None
    """The result as JSON."""

    error: ErrorInfo | None = None
    """The error of the latest attempt that failed or was lost; None again after a success."""

    progress: Progress | None = None
    blocked_by: int = 0
    """How many blockers it still waits for."""

    results: tuple[str | None, ...] = ()
    """The results of its blockers as JSON, in the order of `after`; None for one that has not ended."""

    successor: str | None = None
    """The id of the next step of its run."""

    on_timeout: str | None = None
    """The step to continue with, without running the job, because it was parked and was not completed in time."""

    reads: tuple[str, ...] = ()
    """Of a step: names of the attributes that it reads."""

    attributes: dict[str, str] | None = None
    """Of a step that came with a lease: the attributes that it reads, as JSON by name."""

    ready_at: float | None = None
    """When it last became due, by its time, a retry, its unblocking or an operator; None: when it was created."""

    headers: dict[str, str] | None = None
    """Short texts by name that its producer has sent with it; None if it has none."""

    attempts: tuple[AttemptRecord, ...] = ()
    """The latest `HISTORY` attempts that ended without success, left output, or came before an operator's retry, oldest
    first."""

    @property
    def waited(self) -> float | None:
        """Seconds that it waited, from being due to the start of its latest attempt; None before its first one.

        An attempt that follows a release or a loss counts from the same moment as the one before.
        """
        if self.started_at is None:
            return None
        return max(self.started_at - (self.created_at if self.ready_at is None else self.ready_at), 0.0)

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that has enqueued it; None if none has."""
        return origin_of(self.tags)[0]

    @property
    def tick(self) -> datetime | None:
        """The instant that a schedule has enqueued it for, in UTC; None if none has."""
        tick = origin_of(self.tags)[1]
        return None if tick is None else datetime.fromtimestamp(tick, UTC)

    @property
    def suspect(self) -> bool:
        """Whether it was lost so often (twice) that a worker leases it only when it runs nothing else."""
        return self.losses >= 2

    @property
    def parked(self) -> bool:
        """Whether it waits to be completed from outside, such as by an approval, and not for other jobs."""
        return self.state is State.BLOCKED and None not in self.results

    @property
    def label(self) -> str:
        """The state in more detail, for people: a waiting job may be scheduled or retrying, a blocked job parked."""
        if self.parked:
            return "parked"
        if self.state is State.WAITING:
            if self.run_at is not None:
                return "scheduled" if self.attempt == 0 else "retrying"
            return "retrying" if self.attempt else "waiting"
        return self.state.value


def shortened(job: JobRecord, most: int | None) -> JobRecord:
    """The job for a listing: payload, result and error message cut to `most` bytes or characters, no traceback and no output.

    None: the job as it is.
    """
    if most is None:
        return job
    error = job.error
    return msgspec.structs.replace(
        job,
        payload=job.payload[:most],
        result=None if job.result is None else job.result[:most],
        error=None if error is None else ErrorInfo(error.type[:most], error.message[:most]),
    )


def in_brief(error: ErrorInfo | None) -> ErrorInfo | None:
    """An error as it is remembered with an attempt: its traceback is cut to the last `BRIEF` characters."""
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
    """The record of an attempt that has ended. `left` is `Finish.left`: its error, or the output of a success."""
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
    """All known attempts of a job that `get` returned: those remembered, and the one that runs or has succeeded."""
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
    """Make a unique id: a UUID of version 7, so that ids sort by the millisecond in which they were made."""
    global _made_in  # noqa: PLW0603
    now = time.time_ns() // 1_000_000
    then, text = _made_in
    if then != now:
        text = f"{now:012x}"
        text = f"{text[:8]}-{text[8:]}-"
        _made_in = now, text
    return text + _draw()


_made_in = (0, "")
"""The millisecond in which the last id was made, and its text, because many ids are made in the same millisecond."""

_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))

_drawn: Iterator[str] = iter(())
"""Random ends of ids that have not been used yet."""


def _draw() -> str:
    """Take one random end. 256 are drawn at a time, because each call of `urandom` releases the interpreter lock."""
    global _drawn  # noqa: PLW0603
    for end in _drawn:
        return end
    text = os.urandom(10 * 256).hex()
    each = (text[start : start + 20] for start in range(0, len(text), 20))
    drawn = iter([f"7{digits[:3]}-{_VARIANT[digits[3]]}{digits[4:7]}-{digits[7:19]}" for digits in each])
    end = next(drawn)  # before other threads can see the rest and use it up
    _drawn = drawn
    return end


def _forget_drawn() -> None:
    """Drop the drawn ends in the child of a fork, because its parent uses them."""
    global _drawn  # noqa: PLW0603
    _drawn = iter(())


call_after_fork(_forget_drawn)
