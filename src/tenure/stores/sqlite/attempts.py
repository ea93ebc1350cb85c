"""Records how attempts ended, and reads these records: the history of a job."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core.job import HISTORY, AttemptEnd, AttemptRecord, ErrorInfo, in_brief, past_attempt
from tenure.stores.sqlite.rows import dumps, error_of
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["EndedAttempt", "histories", "record_attempts"]

EndedAttempt = tuple[int, int, AttemptEnd, ErrorInfo | None]
"""Number of the job, fence of its current attempt, how that attempt ended, and its error or output (None for neither)."""


def record_attempts(tx: Transaction, ended: Sequence[EndedAttempt]) -> None:
    """Add the current attempt of each of these jobs to its history. To be called before the job is leased again or retried."""
    if not ended:
        return
    items = [(job, end, None if error is None else dumps(in_brief(error))) for job, _, end, error in ended]
    tx.run("insert_attempts", dumps(items), tx.wall)
    for job, fence, _, _ in ended:
        if fence > HISTORY:
            tx.run("trim_attempts", job, HISTORY)


def histories(tx: Transaction, ids: Sequence[str]) -> dict[str, list[AttemptRecord]]:
    """The recorded attempts of these jobs, by job id. Jobs without records are left out."""
    found: dict[str, list[AttemptRecord]] = {}
    for id_, number, fence, started_at, ended_at, worker, outcome, error in tx.all("attempt_histories", dumps(ids)):
        past = past_attempt(number, fence, started_at or 0.0, ended_at, worker, AttemptEnd(outcome), error_of(error))
        found.setdefault(id_, []).append(past)
    return found
