"""Enqueues a single plain job with one call of the library.

This is the most frequent enqueue. Statement by statement it would take half as long again. Also, Python may run a signal handler
between two statements on the same thread, and the handler must not find a transaction open that it has interrupted. Within one call
nothing else runs.
"""

from __future__ import annotations

from typing import Any

import apsw

from tenure.core.job import NewJob, State
from tenure.stores.sqlite.library import Connection
from tenure.stores.sqlite.queries import sql
from tenure.stores.sqlite.rows import dumps, payload_of
from tenure.stores.values import Enqueued

__all__ = ["Single"]


class Single:
    """A plain job to enqueue, and the answer."""

    __slots__ = ("_job",)

    def __init__(self, job: NewJob) -> None:
        self._job = job

    @property
    def queue(self) -> str:
        return self._job.queue

    @property
    def answer(self) -> list[Enqueued]:
        """The answer to the caller, once the job is stored."""
        return [Enqueued(self._job.id, State.WAITING)]

    def store(self, connection: Connection, wall: float) -> bool:
        """Store the job. Returns whether its queue is paused. If that fails it raises any error, and nothing is stored."""
        assert isinstance(connection, apsw.Connection)
        try:
            [[paused]] = connection.execute(sql["enqueue_single"], self._values(wall))
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return bool(paused)

    def _values(self, wall: float) -> dict[str, Any]:
        job = self._job
        return {
            "id": job.id,
            "task": job.task,
            "queue": job.queue,
            "payload": payload_of(job),
            "priority": job.priority,
            "now": wall,
            "max_attempts": job.max_attempts,
            "max_losses": job.max_losses,
            "lease": job.lease,
            "keep": job.keep,
            "expires": job.expires,
            "tags": dumps(job.tags) if job.tags else None,
            "headers": dumps(job.headers) if job.headers else None,
        }
