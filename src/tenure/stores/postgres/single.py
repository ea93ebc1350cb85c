"""A single plain job on its way in, by a statement of its own.

It is what programs enqueue most, one by one. As a step it would be decoded from JSON, joined and grouped for its own sake: three
times what it takes to insert a row. As a statement, which the server has planned once and for all, it takes half as much again.
The price: programs that run on name columns, so a migration must leave those of this statement as they are.
"""

from __future__ import annotations

from tenure.core.job import NewJob

__all__ = ["ENQUEUE", "values"]

ENQUEUE = """
WITH stored AS (
    INSERT INTO {schema}.jobs (
        n, id, task, queue, payload, raw, priority, created_at, expires_at, max_attempts, max_losses, lease, keep, tags, edges
    ) VALUES (
        nextval('{schema}.places'), $2, $3, $4, $5, $6, $7, {schema}.clock($1), {schema}.clock($1) + $8, $9, $10, $11, $12, $13,
        0
    ) RETURNING n, expires_at
), placed AS (
    INSERT INTO {schema}.live (n, queue, task, state, priority, seq, lease, expires_at, keep, keyed)
    SELECT n, $4, $3, 'waiting', $7, n, $11, expires_at, $12, false FROM stored
), counted AS (
    INSERT INTO {schema}.tallies (queue, what, number) VALUES ($4, 'waiting', 1)
)
SELECT {schema}.wake_worker($4) WHERE EXISTS (SELECT FROM {schema}.idle)
"""
"""Store a plain job, or raise unique_violation if its id exists."""


def values(job: NewJob) -> tuple[object, ...]:
    """What the statement needs after the time."""
    return (
        job.id, job.task, job.queue, job.payload, job.raw, job.priority, job.expires, job.max_attempts, job.max_losses,
        job.lease, job.keep, job.tags or None,
    )  # fmt: skip
