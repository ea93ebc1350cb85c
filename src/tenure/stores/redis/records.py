"""Between jobs and what is stored of them.

What never changes is written once, by the producer, as a MessagePack array:

    [created_at, kind, task, queue, priority, options, payload, number]

The script puts the time before and the number behind, each in nine bytes, so that it finds both without reading what is in
between; it never reads the payload. `kind` is 0 for a job that only waits, runs and ends.

What changes is a record, an array of 15 that the scripts write (`parts/jobs.lua`):

    [state, flags, fence, nonce, attempt, losses, misses, worker, started_at, run_at, parked_until, ended_at, result, error, seq]

Its first 25 bytes and its last nine have a fixed layout, which is what lets a script check a token or move a job without
unpacking anything. While the job runs its progress stands in the place of the result. Errors are JSON, or words of a script's
own. Both arrays end with a number that is different for each job: Lua hashes only some of the bytes of a long text, the last
one always, and a thousand texts that differ elsewhere alone would all be hashed alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.job import BlockerPolicy, ErrorInfo, JobRecord, NewJob, Progress, State
from tenure.lease import Lease, Token
from tenure.lifecycle import (
    EXPIRED,
    WAIT_TIMEOUT,
    Finish,
    Park,
    Requeue,
    Transition,
    blocker_failed,
    failure_value,
    lost,
)
from tenure.stores.base import LeaseRequest

__all__ = [
    "STATES",
    "described",
    "error_word",
    "id_of",
    "leased",
    "new_words",
    "nonce_word",
    "ref_of",
    "step_words",
    "token_word",
]

STATES = (
    State.BLOCKED,
    State.WAITING,
    State.RUNNING,
    State.SUCCEEDED,
    State.FAILED,
    State.CANCELLED,
    State.BROKEN,
)
"""By the number that they are stored as."""

Word = str | bytes | int
"""An argument of a script."""

_NUMBERS = {state: number for number, state in enumerate(STATES)}
_SOLO = 8
_UNEXPIRING = 16

# Ids.

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TEXT = b"\xff"


def ref_of(job_id: str) -> bytes:
    """The id as it is stored: the 16 bytes of a UUID, or the text behind a byte that no UUID of ours begins with."""
    if len(job_id) == 36 and not job_id.startswith("ff") and _UUID.fullmatch(job_id):
        return bytes.fromhex(job_id.replace("-", ""))
    return _TEXT + job_id.encode()


def id_of(ref: bytes) -> str:
    if ref.startswith(_TEXT):
        return ref[1:].decode()
    text = ref.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# New jobs.


class Options(msgspec.Struct, omit_defaults=True):
    """What a job was enqueued with beyond the usual. The scripts know these names."""

    raw: bool = False
    expires: float | None = None
    unique: str | None = None
    window: float | None = None
    tags: tuple[str, ...] = ()
    keep: float | None = None
    lease: float | None = None
    max_attempts: int | None = None
    max_losses: int = 3
    edges: int = 0
    if_blocker_fails: BlockerPolicy = BlockerPolicy.FAIL
    run_id: str | None = None


_pack = msgspec.msgpack.Encoder().encode
_NOTHING = Options()


def new_words(job: NewJob) -> list[bytes]:
    """A new job as the scripts read it: ref, what is stored, head, and whom it waits for."""
    edges = len(job.after)
    special = (
        edges > 0 or job.unique is not None or job.expires is not None or job.keep is not None or job.lease is not None
    )
    options = _NOTHING
    if special or job.raw or job.tags or job.max_losses != 3 or job.max_attempts is not None or job.run_id is not None:
        options = Options(
            job.raw, job.expires, job.unique, job.window, job.tags, job.keep, job.lease, job.max_attempts,
            job.max_losses, edges, job.if_blocker_fails, job.run_id,
        )  # fmt: skip
    stored = _pack((int(special), job.task, job.queue, job.priority, options, job.payload))
    head = _pack((job.queue, job.priority, int(special), job.delay, job.run_at, edges, job.unique_raises))
    # Without the byte that says how long the array is: the script writes another, and two fields more.
    return [ref_of(job.id), stored[1:], head, *map(ref_of, job.after)]


# Tokens and steps.


def nonce_word(nonce: int) -> str:
    return f"{nonce:016x}"


def token_word(token: Token) -> bytes:
    """A token as it stands in a record."""
    return b"\xce%b\xb0%016x" % (token.fence.to_bytes(4), token.nonce)


_FINAL = {state: number.to_bytes() for state, number in _NUMBERS.items()}
_FINISH, _REQUEUE, _PARK = b"\x0a", b"\x0b", b"\x0c"


def step_words(step: Transition) -> list[bytes]:
    """What becomes of a job, as the scripts read it."""
    if (
        type(step) is Finish and step.error is None and not step.children
    ):  # nearly every one; a match takes twice as long
        return [_FINAL[step.state] + _pack(step.result)]
    match step:
        case Finish(state, result, error, children):
            word = _FINISH + b"".join(map(_pack, (_NUMBERS[state], result, error_word(error), len(children))))
            return [word, *(word for child in children for word in new_words(child))]
        case Requeue(delay, run_at, counts, front, missed, error):
            return [_REQUEUE + b"".join(map(_pack, (delay, run_at, counts, front, missed, error_word(error))))]
        case Park(timeout):
            return [_PARK + _pack(timeout)]


# Records.


class Stored(msgspec.Struct, array_like=True):
    created_at: float
    kind: int
    task: str
    queue: str
    priority: int
    options: Options
    payload: bytes
    number: int


class Record(msgspec.Struct, array_like=True):
    state: int
    flags: int
    fence: int
    nonce: str
    attempt: int
    losses: int
    misses: int
    worker: str | None
    started_at: float | None
    run_at: float | None
    parked_until: float | None
    ended_at: float | None
    result: str | None
    error: str | None
    seq: int


_stored = msgspec.msgpack.Decoder(Stored).decode
_record = msgspec.msgpack.Decoder(Record).decode
_error = msgspec.json.Decoder(ErrorInfo).decode
_progress = msgspec.json.Decoder(Progress).decode
_failure = msgspec.msgpack.Decoder(list[str]).decode
_json = msgspec.json.Encoder().encode


def described(told: Sequence[Any] | None) -> JobRecord | None:
    """A job as a script has described it; None if it has found none."""
    if told is None:
        return None
    ref, stored, record, left, open_edges, edges = told
    return _job(ref, stored, record, None if left is None else float(left), int(open_edges), edges)


def leased(
    ref: bytes, stored: bytes, record: bytes | None, edges: Sequence[bytes], request: LeaseRequest, now: float
) -> Lease:
    """A job that was handed out for as long as the request says, unless it has a word in that itself.

    One that is leased for the first time, and has nothing else about it, comes without a record.
    """
    new = _stored(stored)
    number = 0 if ref.startswith(_TEXT) else int.from_bytes(ref)
    if record is None:
        options = new.options
        job = JobRecord(
            id_of(ref), new.task, new.queue, State.RUNNING, new.payload, options.raw, new.priority, new.number, None,
            new.created_at, 1, 0, 1, 0, options.max_attempts, options.max_losses, None, None, None, options.tags, None,
            options.run_id, now, None, request.worker, request.ttl,
        )  # fmt: skip
        return Lease(job, Token(1, request.nonce), request.ttl, solo=False, number=number)
    held = _record(record)
    ttl = request.ttl if new.options.lease is None else new.options.lease
    job = _joined(ref, new, held, ttl, 0, edges)
    return Lease(job, Token(held.fence, request.nonce), ttl, bool(held.flags & _SOLO), number)


def ref_of_lease(lease: Lease) -> bytes:
    """The ref of a leased job, which its number is if the id is a UUID."""
    return lease.number.to_bytes(16) if lease.number else ref_of(lease.job.id)


def _job(
    ref: bytes, stored: bytes, record: bytes | None, lease_left: float | None, open_edges: int, edges: Sequence[bytes]
) -> JobRecord:
    new = _stored(stored)
    if record is not None:
        return _joined(ref, new, _record(record), lease_left, open_edges, edges)
    untouched = Record(1, 0, 0, "", 0, 0, 0, None, None, None, None, None, None, None, new.number)
    return _joined(ref, new, untouched, None, 0, edges)


def _joined(
    ref: bytes, new: Stored, record: Record, lease_left: float | None, open_edges: int, edges: Sequence[bytes]
) -> JobRecord:
    state, options = STATES[record.state], new.options
    expires_at = None
    if options.expires is not None and not record.flags & _UNEXPIRING:
        expires_at = new.created_at + options.expires
    result, progress = record.result, None
    if state is State.RUNNING and result is not None:
        progress = _progress(result)
        result = None
    blocked_by = open_edges + (record.parked_until is not None) if state is State.BLOCKED else 0
    return JobRecord(
        id_of(ref), new.task, new.queue, state, new.payload, options.raw, new.priority, record.seq, record.run_at,
        new.created_at, record.attempt, record.losses, record.fence, record.misses, options.max_attempts,
        options.max_losses, options.lease, options.keep, expires_at, options.tags, options.unique, options.run_id,
        record.started_at, record.ended_at, record.worker, lease_left, result,
        None if record.error is None else _error_of(record.error), progress, blocked_by,
        tuple(map(_given, edges)) if edges else (),
    )  # fmt: skip


def _given(edge: bytes) -> str | None:
    """What an edge has given its job: the result of the blocker, or what stands in its place; None while it is open."""
    match edge[:1]:
        case b"R":
            return edge[1:].decode()
        case b"F":
            blocker, ended, *error = _failure(edge[1:])
            return failure_value(blocker, ended, _error_of(error[0]) if error else None)
        case _:
            return None


def error_word(error: ErrorInfo | None) -> str | None:
    """An error as it stands in a record."""
    return None if error is None else _json(error).decode()


def _error_of(text: str) -> ErrorInfo:
    word, _, rest = text.partition(" ")
    match word:
        case "expired":
            return EXPIRED
        case "wait_timeout":
            return WAIT_TIMEOUT
        case "lost":
            losses, _, reason = rest.partition(" ")
            return lost(int(losses), reason)
        case "blocker_failed":
            ended, _, blocker = rest.partition(" ")
            return blocker_failed(blocker, ended)
        case _:
            return _error(text)
