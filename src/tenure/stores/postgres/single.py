"""A single plain job on its way in, by a statement of its own.

It is what programs enqueue most, one by one. As a step it would be decoded from JSON, joined and grouped for its own sake: three
times what it takes to insert a row. As a statement, which the server has planned once and for all, it takes half as much again.
The price: programs that run on name columns, so a migration must leave those of this statement as they are.
"""

from __future__ import annotations

from tenure.core.job import NewJob
from tenure.stores.postgres.sql import statement

__all__ = ["ENQUEUE", "values"]

ENQUEUE = statement("enqueue_single")
"""Store a plain job, or raise unique_violation if its id exists."""


def values(job: NewJob) -> tuple[object, ...]:
    """What the statement needs after the time."""
    return (
        job.id, job.task, job.queue, job.payload, job.raw, job.priority, job.expires, job.max_attempts, job.max_losses,
        job.lease, job.keep, job.tags or None,
    )  # fmt: skip
