"""Custody: which worker holds an entry of another system, and what to do with an entry that was left behind.

Pure values and decisions, without I/O. docs/bridges.md tells the whole hand-over.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import NamedTuple

import msgspec

from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.core.lifecycle import Finish

__all__ = ["Begun", "Custody", "End", "Judgement", "Look", "Stopped", "Taken", "judge"]


class Taken(NamedTuple):
    """An entry that has just been taken into custody."""

    id: str
    """The id of its job, made by the caller before the take."""

    queue: str
    """The queue of the other system."""

    entry: bytes
    """Exactly as it was in the queue."""

    extra: tuple[bytes | None, ...] = ()
    """What the take has read besides, such as the fields of a hash."""


class Custody(msgspec.Struct, frozen=True):
    """An entry in custody."""

    id: str
    owner: str
    """The id of the worker that took it, or adopted it."""

    queue: str
    entry: bytes
    taken_at: float = 0.0
    """Seconds since the epoch by the clock of the other system."""

    returning: bool = False
    """Whether its owner has begun to give it back."""

    @classmethod
    def decoded(cls, job_id: bytes, stored: bytes) -> Custody:
        """Read a field of the hash `custody`: a JSON array, a newline, and the entry's bytes. `ValueError` if it is none."""
        header, _, entry = stored.partition(b"\n")
        # Not by msgspec: the name of a queue may be any bytes.
        owner, queue, taken_at, returning = json.loads(header.decode(errors="surrogateescape"))
        return cls(job_id.decode(), owner, queue, entry, float(taken_at), returning is True)

    @property
    def taken(self) -> Taken:
        """The entry as `take` would give it."""
        return Taken(self.id, self.queue, self.entry)


class Look(NamedTuple):
    """What all bridges of one other system have left there."""

    entries: list[Custody]
    owners: frozenset[str]
    """The ids of the workers that have entries in custody, or records there."""


class Begun(NamedTuple):
    """A slot, counted from 1, has started the job of an entry."""

    id: str
    slot: int


class Stopped(NamedTuple):
    """A slot no longer runs the job of an entry, which will run again."""

    id: str
    slot: int


class End(msgspec.Struct, frozen=True):
    """The job of an entry is final."""

    id: str
    state: State
    result: str | None = None
    """The result as JSON."""

    error: ErrorInfo | None = None
    slot: int | None = None
    """The slot that ran it; None if another worker did, or none."""

    @classmethod
    def of_transition(cls, job_id: str, finish: Finish, slot: int | None) -> End:
        """The end that a worker has just written to its store."""
        return cls(job_id, finish.state, finish.result, finish.error, slot)

    @classmethod
    def of_record(cls, record: JobRecord, slot: int | None = None) -> End:
        """The end of a job that the store has as final."""
        return cls(record.id, record.state, record.result, record.error, slot)


class Judgement(StrEnum):
    """What to do with an entry in custody whose job the caller does not hold."""

    WAIT = "wait"
    """A worker runs its job, or will."""

    ENQUEUE = "enqueue"
    """Store its job, under the same id: the worker that took it died before it did."""

    END = "end"
    """Write the end of its job to the other system."""

    GIVE_BACK = "give back"
    """Cancel its job, and return the entry to the front of its queue."""

    LET_GO = "let go"
    """Cancel its job: the other system has taken the entry back."""


def judge(state: State | None, *, held_there: bool, returning: bool, stored: bool = False) -> Judgement:
    """What to do with an entry whose job has this state in the store; None: the store has no such job.

    `held_there`: the other system has not taken the entry back. `returning`: a worker has begun to give it back. `stored`: the caller has
    stored the job itself, so if it is missing it was deleted, and must not come back.
    """
    if returning and state in _RETURNABLE:
        return Judgement.GIVE_BACK
    if (state is None and stored) or (state is not None and state.final):
        return Judgement.END
    if not held_there:
        return Judgement.LET_GO
    return Judgement.ENQUEUE if state is None else Judgement.WAIT


_RETURNABLE = (None, State.CANCELLED, State.WAITING)
"""States of a job that no worker runs, and that has not ended by itself."""
