"""ENQUEUE: the statement that enqueues a single plain job, and its values.

Most programs enqueue such jobs, one by one. An operation would decode it from JSON, join and group it, which takes three times as
long as inserting a row; this statement, which the server plans once, takes half as long again. The price: running programs
name columns of the tables, so a migration must keep the columns of this statement.
"""

from __future__ import annotations

from tenure.core.job import NewJob
from tenure.stores.postgres.records import encode_headers
from tenure.stores.postgres.sql import statement

__all__ = ["ENQUEUE", "values"]

ENQUEUE = statement("enqueue_single")
"""Stores a plain job, or raises unique_violation if its id exists."""


def values(job: NewJob) -> tuple[object, ...]:
    """The parameters of `ENQUEUE` after the time."""
    return (
        job.id, job.task, job.queue, job.payload, job.raw, job.priority, job.expires, job.max_attempts, job.max_losses,
        job.lease, job.keep, job.tags or None, encode_headers(job.headers),
    )  # fmt: skip
