"""Encodes new jobs for the server, and makes records and leases of its rows.

New jobs are sent as JSON with the fields that differ from the default, and an array of their payloads, because JSON cannot hold
bytes. Errors and the results on edges are stored as JSON, or as short texts that the SQL functions write; the functions here
turn these into the errors of `core/lifecycle.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from tenure.core.job import (
    AttemptEnd,
    AttemptRecord,
    ErrorInfo,
    JobRecord,
    NewJob,
    Progress,
    State,
    Writes,
    past_attempt,
)
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import EXPIRED, WAIT_TIMEOUT, blocker_failed, failure_value, lost
from tenure.errors import MissingAttribute
from tenure.stores.values import Enqueued, LeaseRequest, Totals

__all__ = [
    "are_alike",
    "check_first_steps",
    "dumps",
    "encode_error",
    "encode_headers",
    "encode_result",
    "enqueued",
    "is_special",
    "leased",
    "new_fields",
    "record",
    "record_of_json",
    "record_with_attempts",
    "totals",
    "writes_fields",
]

_encode = msgspec.json.Encoder().encode
_error = msgspec.json.Decoder(ErrorInfo).decode
_headers = msgspec.json.Decoder(dict[str, str]).decode
_progress = msgspec.json.Decoder(Progress).decode
_attempt = msgspec.json.Decoder(tuple[int, int, float, float, str | None, AttemptEnd, str | None]).decode


def dumps(value: object) -> str:
    """Encode a value as JSON, for a parameter of type json or text."""
    return _encode(value).decode()


def encode_error(error: ErrorInfo | None) -> str | None:
    """The error as it is stored: JSON."""
    return None if error is None else dumps(error)


def encode_headers(headers: dict[str, str] | None) -> str | None:
    """The headers of a job as they are stored: JSON."""
    return None if headers is None else dumps(headers)


def encode_result(result: str | None) -> str | None:
    """The result as it is stored. A text with a NUL, which PostgreSQL refuses, or with a mark in front is quoted once more."""
    return f"~{dumps(result)}" if result is not None and ("\0" in result or result.startswith(_MARKS)) else result


_MARKS = ("~", "!")
_loads_text = msgspec.json.Decoder(str).decode


def new_fields(job: NewJob) -> dict[str, Any]:
    """The fields of a new job as functions/new_jobs.sql reads them, without its payload."""
    fields: dict[str, Any] = {"id": job.id, "task": job.task, "queue": job.queue}
    if job.raw:
        fields["raw"] = True
    if job.priority:
        fields["priority"] = job.priority
    if job.run_at is not None:
        fields["run_at"] = job.run_at
    elif job.delay:
        fields["delay"] = job.delay
    if job.expires is not None:
        fields["expires"] = job.expires
    if job.unique is not None:
        fields["key"] = job.unique
        if job.window is not None:
            fields["key_for"] = job.window
        if job.unique_raises:
            fields["key_raises"] = True
    if job.tags:
        fields["tags"] = job.tags
    if job.keep is not None:
        fields["keep"] = job.keep
    if job.lease is not None:
        fields["lease"] = job.lease
    if job.max_attempts is not None:
        fields["max_attempts"] = job.max_attempts
    if job.max_losses != 3:
        fields["max_losses"] = job.max_losses
    if job.headers is not None:
        fields["headers"] = job.headers
    if job.after:
        fields["after"] = job.after
        fields["if_blocker_fails"] = job.if_blocker_fails
    if (step := job.step) is not None:
        fields["run_id"] = step.run_id
        if step.reads:
            fields["reads"] = step.reads
        if step.run_id == job.id:
            fields["flow"] = step.flow
            fields |= writes_fields(step.writes)
    return fields


def writes_fields(writes: Writes | None) -> dict[str, Any]:
    """The attributes and lookups that are written to a run, as the operations read them."""
    if writes is None:
        return {}
    fields: dict[str, Any] = {}
    if writes.attributes:
        fields["attributes"] = writes.attributes
    if writes.lookups:
        fields["lookups"] = writes.lookups
    return fields


def is_special(jobs: Sequence[NewJob]) -> bool:
    """Whether one of these jobs has a unique key or blockers, or is a later step of a run."""
    return any(
        job.unique is not None or job.after or (job.step is not None and job.step.run_id != job.id) for job in jobs
    )


def are_alike(jobs: Sequence[NewJob]) -> bool:
    """Whether these jobs, none of which is special, differ only in id and payload."""
    first = astuple(jobs[0])
    before, after = first[_AFTER_ID], first[_AFTER_PAYLOAD]
    return all(fields[_AFTER_ID] == before and fields[_AFTER_PAYLOAD] == after for fields in map(astuple, jobs))


_AFTER_ID = slice(1, NewJob.__struct_fields__.index("payload"))
_AFTER_PAYLOAD = slice(_AFTER_ID.stop + 1, None)


def check_first_steps(jobs: Sequence[NewJob]) -> None:
    """Raise `MissingAttribute` if a first step needs an attribute that its run does not begin with."""
    for job in jobs:
        if job.step is not None and job.step.run_id == job.id:
            for name in job.step.needs:
                if job.step.writes is None or name not in job.step.writes.attributes:
                    raise MissingAttribute(job.task, name)


def enqueued(jobs: Sequence[NewJob], answers: Iterable[Sequence[Any]]) -> list[Enqueued]:
    """The answers of `enqueue_jobs`. A job that has none is new and waits."""
    found = [Enqueued(job.id, State.WAITING) for job in jobs]
    for at, job_id, state, duplicate in answers:
        found[at - 1] = Enqueued(job_id, State(state), duplicate)
    return found


def record(row: Sequence[Any], now: float) -> JobRecord:
    """The record of a row of the view `records`. `now`: the time of the server."""
    (_, id_, task, queue, state, payload, raw, priority, seq, run_at, created_at, attempt, losses, fence, misses, max_attempts,
     max_losses, lease, keep, expires_at, tags, unique, run_id, started_at, ended_at, worker, lease_until, result, error,
     progress, blocked_by, results, successor, on_timeout, reads, ready_at, headers) = row[:37]  # fmt: skip
    return JobRecord(
        id_, task, queue, State(state), payload, raw, priority, seq, run_at, created_at, attempt, losses, fence, misses,
        max_attempts, max_losses, lease, keep, expires_at, tuple(tags) if tags else (), unique, run_id, started_at,
        ended_at, worker, None if lease_until is None else lease_until - now, _decode_result(result), decode_error(error),
        _progress(progress) if progress else None, blocked_by, _decode_results(results), successor, on_timeout,
        tuple(reads) if reads else (), ready_at=ready_at, headers=None if headers is None else _headers(headers),
    )  # fmt: skip


def record_with_attempts(row: Any, now: float) -> JobRecord:
    """The record of a row of the view `records` with its past attempts in the column `attempts`."""
    job = record(row, now)
    return replace(job, attempts=tuple(map(_attempt_record, row["attempts"]))) if row["attempts"] else job


def record_of_json(row: dict[str, Any], payload: bytes, attempts: Sequence[str] | None, now: float) -> JobRecord:
    """The record of a row of the view `records` that has come as JSON, which has no bytes, and its past attempts."""
    job = record([*{**row, "payload": payload}.values()], now)
    return replace(job, attempts=tuple(map(_attempt_record, attempts))) if attempts else job


def _attempt_record(text: str) -> AttemptRecord:
    """Decode what functions/add_attempt.sql wrote."""
    number, fence, started_at, ended_at, worker, outcome, left = _attempt(text)
    return past_attempt(number, fence, started_at, ended_at, worker, outcome, decode_error(left))


def leased(row: Sequence[Any], request: LeaseRequest, now: float, ttl: float) -> Lease:
    """The lease of a row of type `handed`. It lasts `ttl` seconds, unless the job sets its own length."""
    (number, id_, task, queue, payload, raw, priority, seq, created_at, attempt, losses, fence, misses, max_attempts, max_losses,
     lease, keep, expires_at, tags, unique, run_id, error, results, solo) = row[:24]  # fmt: skip
    if lease is not None:
        ttl = request.length(lease)
    job = JobRecord(
        id_, task, queue, State.RUNNING, payload, raw, priority, seq, None, created_at, attempt, losses, fence, misses,
        max_attempts, max_losses, lease, keep, expires_at, tuple(tags) if tags else (), unique, run_id, now, None,
        request.worker, ttl, None, decode_error(error), None, 0, _decode_results(results), *(_NO_STEP if run_id is None else _step_fields(row)),
        row[32], None if row[33] is None else _headers(row[33]),
    )  # fmt: skip
    return Lease(job, Token(fence, request.nonce), ttl, solo, number)


_StepFields = tuple[None, str | None, tuple[str, ...], dict[str, str] | None]
_NO_STEP: _StepFields = (None, None, (), None)


def _step_fields(row: Sequence[Any]) -> _StepFields:
    """The fields of a record that only steps have."""
    reads, attributes, on_timeout = row[29:32]
    return None, on_timeout, tuple(reads) if reads else (), dict(map(_split_attribute, attributes or ()))


def _split_attribute(attribute: str) -> tuple[str, str]:
    name, _, value = attribute.rpartition("\x1f")
    return name, value


def decode_error(text: str | None) -> ErrorInfo | None:
    """Decode the error of a job."""
    if text is None:
        return None
    match text.split(" "):
        case ["expired"]:
            return EXPIRED
        case ["wait", "timeout"]:
            return WAIT_TIMEOUT
        case ["lost", losses, *reason]:
            return lost(int(losses), " ".join(reason))
        case ["blocker", ended, blocker]:
            return blocker_failed(blocker, ended)
        case _:
            return _error(text)


def _decode_results(texts: Sequence[str | None] | None) -> tuple[str | None, ...]:
    return () if texts is None else tuple(_decode_result(text) for text in texts)


def _decode_result(text: str | None) -> str | None:
    """Decode a result; or, on an edge, how and why its blocker ended without one."""
    if text is None or not text.startswith(_MARKS):
        return text
    if text.startswith("~"):
        return _loads_text(text[1:])
    ended, blocker, error = text[1:].split(" ", 2)
    return failure_value(blocker, ended, decode_error(error or None))


def totals(counters: dict[str, int]) -> Totals:
    return Totals(**{name: counters.get(f"total_{name}", 0) for name in Totals.__struct_fields__})
