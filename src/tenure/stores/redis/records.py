"""Converts between jobs and their stored form.

The part of a job that never changes is a MessagePack array, written once by the producer:

    [created_at, kind, task, queue, priority, options, payload, number]

The script adds the time at the front and the number at the end, nine bytes each, so that it can read both without
parsing what is between them; it never reads the payload. `kind` is 0 for a job that only waits, runs and ends,
otherwise flags.

The part that changes is a record, an array of 15 fields that the scripts write (`parts/jobs.lua`):

    [state, flags, fence, nonce, attempt, losses, misses, worker, started_at, run_at, parked, ended_at, result, error, seq]

Its first 25 bytes and its last nine have a fixed layout, so that a script can check a token or move a job without
unpacking the record. While the job runs, `result` holds its progress. `parked` is the time at which the parking ends,
or an array of that time and the step that follows a timeout; after a timeout it is that step; after a hand-over it is
the ref of the successor. `error` is JSON, or starts with a word of `RecordedError`.

Both arrays end with a number that differs for each job. Lua hashes only some bytes of a long string, always including
the last one, so a thousand strings that differ only elsewhere would have the same hash.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.core.job import (
    AttemptEnd,
    AttemptRecord,
    BlockerPolicy,
    ErrorInfo,
    JobRecord,
    Progress,
    State,
    past_attempt,
)
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import EXPIRED, WAIT_TIMEOUT, blocker_failed, failure_value, lost
from tenure.stores.redis.replies import RecordedError
from tenure.stores.values import LeaseRequest

__all__ = [
    "NUMBERS",
    "READS",
    "SPECIAL",
    "STATES",
    "STEP",
    "Options",
    "as_text",
    "decode_job",
    "decode_job_with_history",
    "decode_lease",
    "error_templates",
    "error_text",
    "from_text",
    "id_of",
    "ref_of",
    "ref_patterns",
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
"""States by the number that a record stores."""

NUMBERS = {state: number for number, state in enumerate(STATES)}
SPECIAL, _SOLO, _UNEXPIRING, STEP = 1, 8, 16, 64
"""Flags of a record. `SPECIAL` and `STEP` are also flags of a `kind`, with `READS` and with flag 2, which a script sets
if another job of the same call waits for the job."""

READS = 4
"""Flag of a `kind`: a step that reads attributes."""

# Ids.

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TEXT = b"\xff"
_GLOB = re.compile(rb"[*?\[\]\\]")
"""Characters with a meaning in a Redis pattern."""


def ref_of(job_id: str) -> bytes:
    """The stored form of an id: the 16 bytes of a UUID that does not begin with ff; else a byte 255 and the text."""
    if len(job_id) == 36 and not job_id.startswith("ff") and _UUID.fullmatch(job_id):
        return bytes.fromhex(job_id.replace("-", ""))
    return _TEXT + job_id.encode()


def id_of(ref: bytes) -> str:
    if ref.startswith(_TEXT):
        return ref[1:].decode()
    text = ref.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def ref_patterns(prefix: str) -> list[bytes]:
    """Redis patterns that match the refs of all ids with this prefix."""
    patterns = [_GLOB.sub(rb"\\\g<0>", _TEXT + prefix.encode()) + b"*"]
    whole = prefix + "00000000-0000-0000-0000-000000000000"[len(prefix) :]
    if len(whole) == 36 and not prefix.startswith("ff") and _UUID.fullmatch(whole):
        digits = prefix.replace("-", "")
        half = digits[-1] if len(digits) % 2 else ""
        known = _GLOB.sub(rb"\\\g<0>", bytes.fromhex(digits.removesuffix(half) if half else digits))
        # A UUID that begins with ff is stored as text.
        upper = "fe" if digits == "f" else f"{half}f"
        last = b"[%b-%b]" % (bytes.fromhex(f"{half}0"), bytes.fromhex(upper)) if half else b""
        patterns.append(known + last + b"*")
    return patterns


# Options.

_NIL = msgspec.Raw(b"\xc0")


def as_text(data: bytes) -> msgspec.Raw:
    """Bytes as a MessagePack string, because Lua has no type for MessagePack bytes."""
    size = len(data)
    if size < 32:
        return msgspec.Raw((0xA0 | size).to_bytes() + data)
    head = b"\xda" + size.to_bytes(2) if size < 1 << 16 else b"\xdb" + size.to_bytes(4)
    return msgspec.Raw(head + data)


def from_text(text: bytes) -> bytes:
    """The bytes in a MessagePack string that Lua or `as_text` has written."""
    head = text[0]
    return text[1 if head < 0xC0 else 2 if head == 0xD9 else 3 if head == 0xDA else 5 :]


class Options(msgspec.Struct, omit_defaults=True):
    """The options of a job that differ from the defaults. Scripts use these names."""

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
    flow: str | None = None
    reads: tuple[str, ...] = ()
    headers: str | None = None
    """The headers as JSON, because scripts parse options and need not parse these."""

    run: msgspec.Raw = _NIL
    """The ref of the run that the job is a step of; nil if the job begins the run. The last option: see `_step_shape`."""

    def run_id(self, job_id: str) -> str | None:
        """The id of the run that the job of this id is a step of; None if it is not a step."""
        if self.flow is None:
            return None
        return job_id if self.run is _NIL else id_of(from_text(bytes(self.run)))


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
    parked: msgspec.Raw
    ended_at: float | None
    result: str | None
    error: str | None
    seq: int


_stored = msgspec.msgpack.Decoder(Stored).decode
_record = msgspec.msgpack.Decoder(Record).decode
_error = msgspec.json.Decoder(ErrorInfo).decode
_headers = msgspec.json.Decoder(dict[str, str]).decode
_progress = msgspec.json.Decoder(Progress).decode
_failure = msgspec.msgpack.Decoder(list[str]).decode
_history = msgspec.msgpack.Decoder(list[tuple[int, int, float, float, str | None, str, str | None]]).decode
_json = msgspec.json.Encoder().encode
_READY_AT = struct.Struct(">d")


def decode_job(reply: Sequence[Any] | None) -> JobRecord | None:
    """A job from its description by a script; None if there is no such job."""
    if reply is None:
        return None
    ref, stored, record, left, open_edges, edges, ready_at = reply
    return _job(ref, stored, record, None if left is None else float(left), int(open_edges), edges, ready_at)


def decode_job_with_history(reply: Sequence[Any] | None, history: bytes | None) -> JobRecord | None:
    """The same with the attempts in its history."""
    job = decode_job(reply)
    if job is None or history is None:
        return job
    return msgspec.structs.replace(job, attempts=tuple(_attempt(*entry) for entry in _history(history)))


def _attempt(
    number: int, fence: int, started_at: float, ended_at: float, worker: str | None, how: str, left: str | None
) -> AttemptRecord:
    what = None if left is None else _error_of(left)
    return past_attempt(number, fence, started_at, ended_at, worker, AttemptEnd(how), what)


def decode_lease(
    ref: bytes,
    stored: bytes,
    record: bytes | None,
    edges: Sequence[bytes],
    attribute_values: Sequence[bytes | None],
    ready_at: bytes | None,
    request: LeaseRequest,
    now: float,
    ttl: float,
) -> Lease:
    """The lease of a job for `ttl` seconds, or for the length that the job's `lease` option gives.

    `record` is None for a plain job that is leased for the first time. `attribute_values` are the values of the
    attributes that a step reads, in the order of its `reads`. `ready_at` is the job's entry in the key of this name.
    """
    new = _stored(stored)
    options = new.options
    number = 0 if ref.startswith(_TEXT) else int.from_bytes(ref)
    job_id, attributes = id_of(ref), None
    if options.flow is not None:
        attributes = {}
        if attribute_values:
            read = zip(options.reads, attribute_values, strict=True)
            attributes = {name: value.decode() for name, value in read if value is not None}
    if record is None:
        job = JobRecord(
            job_id, new.task, new.queue, State.RUNNING, new.payload, options.raw, new.priority, new.number, None,
            new.created_at, 1, 0, 1, 0, options.max_attempts, options.max_losses, None, None, None, options.tags, None,
            None if attributes is None else options.run_id(job_id), now, None, request.worker, ttl, None, None,
            None, 0, (), None, None, options.reads, attributes, None,
            None if options.headers is None else _headers(options.headers),
        )  # fmt: skip
        return Lease(job, Token(1, request.nonce), ttl, solo=False, number=number)
    held = _record(record)
    if options.lease is not None:
        ttl = request.length(options.lease)
    job = _build(ref, new, held, ttl, 0, edges, ready_at, attributes)
    return Lease(job, Token(held.fence, request.nonce), ttl, bool(held.flags & _SOLO), number)


def _job(
    ref: bytes,
    stored: bytes,
    record: bytes | None,
    lease_left: float | None,
    open_edges: int,
    edges: Sequence[bytes],
    ready_at: bytes | None,
) -> JobRecord:
    new = _stored(stored)
    if record is not None:
        return _build(ref, new, _record(record), lease_left, open_edges, edges, ready_at)
    untouched = Record(1, 0, 0, "", 0, 0, 0, None, None, None, _NIL, None, None, None, new.number)
    return _build(ref, new, untouched, None, 0, edges, None)


def _build(
    ref: bytes,
    new: Stored,
    record: Record,
    lease_left: float | None,
    open_edges: int,
    edges: Sequence[bytes],
    ready_at: bytes | None,
    attributes: dict[str, str] | None = None,
) -> JobRecord:
    state, options = STATES[record.state], new.options
    expires_at = None
    if options.expires is not None and not record.flags & _UNEXPIRING:
        expires_at = new.created_at + options.expires
    result, progress = record.result, None
    if state is State.RUNNING and result is not None:
        progress = _progress(result)
        result = None
    parked, on_timeout, successor = _parking(state, bytes(record.parked))
    blocked_by = open_edges + parked if state is State.BLOCKED else 0
    job_id = id_of(ref)
    return JobRecord(
        job_id, new.task, new.queue, state, new.payload, options.raw, new.priority, record.seq, record.run_at,
        new.created_at, record.attempt, record.losses, record.fence, record.misses, options.max_attempts,
        options.max_losses, options.lease, options.keep, expires_at, options.tags, options.unique,
        options.run_id(job_id), record.started_at, record.ended_at, record.worker, lease_left, result,
        None if record.error is None else _error_of(record.error), progress, blocked_by,
        tuple(map(_edge_value, edges)) if edges else (), successor, on_timeout, options.reads, attributes,
        None if ready_at is None else _ready_time(ready_at, new.created_at),
        None if options.headers is None else _headers(options.headers),
    )  # fmt: skip


def _ready_time(ready_at: bytes, created_at: float) -> float | None:
    """When a job became due; None for a stale entry, which an earlier job of the same id has left."""
    found: float = _READY_AT.unpack(ready_at)[0]
    return found if found >= created_at else None


def _parking(state: State, parked: bytes) -> tuple[bool, str | None, str | None]:
    """Whether a job is parked, the step that follows because its parking timed out, and the id of its successor."""
    if parked == b"\xc0":
        return False, None, None
    if state.final:
        return False, None, id_of(from_text(parked))
    found = msgspec.msgpack.decode(parked)
    return (False, found, None) if isinstance(found, str) else (True, None, None)


def _edge_value(edge: bytes) -> str | None:
    """The value of a closed edge: the blocker's result, or a description of its failure; None while it is open."""
    match edge[:1]:
        case b"R":
            return edge[1:].decode()
        case b"F":
            blocker, ended, *error = _failure(edge[1:])
            return failure_value(blocker, ended, _error_of(error[0]) if error else None)
        case _:
            return None


def error_text(error: ErrorInfo | None) -> str | None:
    """The form of an error in a record: JSON."""
    return None if error is None else _json(error).decode()


def _error_of(text: str) -> ErrorInfo:
    word, _, rest = text.partition(" ")
    match word:
        case RecordedError.EXPIRED:
            return EXPIRED
        case RecordedError.WAIT_TIMEOUT:
            return WAIT_TIMEOUT
        case RecordedError.LOST:
            losses, _, reason = rest.partition(" ")
            return lost(int(losses), reason)
        case RecordedError.BLOCKER_FAILED:
            ended, _, blocker = rest.partition(" ")
            return blocker_failed(blocker, ended)
        case _:
            return _error(text)


FIRST, REST = "\x01", "\x02"
"""What stands in a template for the first word after the word of `RecordedError`, and for all after that one."""


def error_templates() -> dict[str, tuple[str, str, str]]:
    """For each word of `RecordedError` the type of the error, its message if no text follows the first word, and if one does."""
    number = "1234567"  # stands for `FIRST`, which must be a number for one of them
    found = {}
    for word in RecordedError:
        short, whole = _error_of(f"{word} {number} "), _error_of(f"{word} {number} {REST}")
        found[word.value] = (short.type, short.message.replace(number, FIRST), whole.message.replace(number, FIRST))
    return found
