"""Converts rows to records and values to columns, and looks up the facts that transitions need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from tenure.core.job import ErrorInfo, JobRecord, NewJob, Progress, State
from tenure.errors import PayloadError
from tenure.stores.sqlite.transaction import Row, Transaction
from tenure.stores.values import Totals

__all__ = [
    "RECORD_COLUMNS",
    "Facts",
    "dumps",
    "error_of",
    "facts",
    "loads",
    "payload_of",
    "record",
    "records",
    "resolve",
    "totals",
    "whole_runs",
]

_encoder = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(tuple[str, ...])
_headers = msgspec.json.Decoder(dict[str, str])
_error = msgspec.json.Decoder(ErrorInfo)
_progress = msgspec.json.Decoder(Progress)
loads = msgspec.json.Decoder().decode

RECORD_COLUMNS = (
    "id, task, queue, state, CAST(payload AS BLOB), typeof(payload) = 'blob', priority, seq, run_at, created_at, attempt, losses, fence, misses, max_attempts, "
    "max_losses, lease, keep, expires_at, tags, unique_key, run_id, started_at, ended_at, worker, lease_until, result, error, "
    "progress, blocked_by, edges, successor, iif(parked_until IS NULL, on_timeout, NULL), reads, ready_at, headers"
)
"""The columns that `record` needs, in its order."""


def dumps(value: object) -> str:
    """Encode as JSON, for a parameter that SQL reads with json_each or stores as text."""
    return _encoder.encode(value).decode()


def payload_of(job: NewJob) -> bytes | str:
    """The payload as its column stores it: JSON as text, raw bytes unchanged."""
    if job.raw:
        return job.payload
    try:
        return job.payload.decode()
    except UnicodeDecodeError:
        raise PayloadError(f"the payload of job {job.id} is not JSON: mark it raw if it is meant to be bytes") from None


class Facts(NamedTuple):
    """The columns of a job that transitions need, in the order of the query `facts`."""

    id: str
    task: str
    queue: str
    state: str
    run_at: float | None
    attempt: int
    losses: int
    max_losses: int
    fence: int
    nonce: int | None
    unique: str | None
    window: float | None
    waited: int
    blocks: int
    keep: float | None
    worker: str | None
    solo: int
    blocked_by: int
    misses: int
    created_at: float
    result: str | None
    error: str | None
    number: int
    run_id: str | None
    successor: str | None
    on_timeout: str | None

    @property
    def is_first_step(self) -> bool:
        """Whether the job is the first step of a run; its id is then the run's id."""
        return self.run_id == self.id

    @property
    def unique_until(self) -> float | None:
        """Until when the job owns its unique key, in seconds since the epoch; None: until it is final."""
        return None if self.window is None else self.created_at + self.window

    @property
    def counter(self) -> str:
        """The counter of the queue that includes this job."""
        return "scheduled" if self.state == "waiting" and self.run_at is not None else self.state


def facts(tx: Transaction, ids: Iterable[str]) -> dict[str, Facts]:
    """Look up these jobs, by id. Jobs that do not exist are left out."""
    return {row[0]: Facts(*row) for row in tx.all("facts", dumps(list(ids)))}


def resolve(tx: Transaction, id_: str) -> Facts | None:
    """Look up the job with this id; for the id of a run, its current step."""
    job = facts(tx, [id_]).get(id_)
    if job is None or job.successor is None or not job.is_first_step:
        return job
    [(_, last)] = tx.all("current_steps", dumps([id_]))
    return facts(tx, [last]).get(last)


def whole_runs(tx: Transaction, jobs: Iterable[Facts]) -> dict[str, list[Facts]]:
    """For each of these jobs, by id, the jobs that are removed with it: all steps of its run in order, or only itself."""
    steps: dict[str, list[Facts]] = {}
    runs = {job.run_id for job in jobs if job.run_id is not None}
    for row in tx.all("facts_of_steps", dumps(sorted(runs))) if runs else ():
        step = Facts(*row)
        steps.setdefault(step.run_id or "", []).append(step)
    return {job.id: [job] if job.run_id is None else steps[job.run_id] for job in jobs}


def error_of(text: str | None) -> ErrorInfo | None:
    """Decode an error column."""
    return None if text is None else _error.decode(text)


def record(row: Row, boot: float, results: tuple[str | None, ...] = ()) -> JobRecord:
    """Make a record from a row of RECORD_COLUMNS. `boot` is now, in seconds since boot; `results` are those of its blockers."""
    (id_, task, queue, state, payload, raw, priority, seq, run_at, created_at, attempt, losses, fence, misses, max_attempts,
     max_losses, lease, keep, expires_at, tags, unique, run_id, started_at, ended_at, worker, lease_until, result, error,
     progress, blocked_by, _, successor, on_timeout, reads, ready_at, headers) = row  # fmt: skip
    return JobRecord(
        id_, task, queue, State(state), payload, bool(raw), priority, seq, run_at, created_at, attempt, losses, fence, misses,
        max_attempts, max_losses, lease, keep, expires_at, _texts.decode(tags) if tags else (), unique, run_id, started_at,
        ended_at, worker, None if lease_until is None else lease_until - boot, result, error_of(error),
        _progress.decode(progress) if progress else None, blocked_by, results, successor, on_timeout,
        _texts.decode(reads) if reads else (), None, ready_at, _headers.decode(headers) if headers else None,
    )  # fmt: skip


def records(tx: Transaction, rows: Sequence[Row]) -> list[JobRecord]:
    """Make records from rows of RECORD_COLUMNS, with the results of their blockers."""
    given = edge_results(tx, [row[0] for row in rows if row[30]])
    return [record(row, tx.boot, given.get(row[0], ())) for row in rows]


def edge_results(tx: Transaction, ids: Sequence[str]) -> dict[str, tuple[str | None, ...]]:
    """The results that these jobs have received from their blockers so far, by job id, in the order of the blockers."""
    if not ids:
        return {}
    given: dict[str, list[str | None]] = {}
    for dependent, result in tx.all("edge_results", dumps(ids)):
        given.setdefault(dependent, []).append(result)
    return {dependent: tuple(results) for dependent, results in given.items()}


def totals(row: Sequence[Any]) -> Totals:
    """Make totals from their seven columns."""
    return Totals(*row)
