"""A single plain job on its way in, by one call of the library.

It is what programs enqueue most, one by one. Statement by statement it takes half as long again. And between the statements Python
may run whatever else it likes on the same thread, a signal handler above all, which must not find a transaction open that it has
interrupted itself: in one call there is nothing between.
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
    """One plain job, and what became of it."""

    __slots__ = ("_job",)

    def __init__(self, job: NewJob) -> None:
        self._job = job

    @property
    def queue(self) -> str:
        return self._job.queue

    @property
    def answer(self) -> list[Enqueued]:
        """What the enqueue of it has led to, once it is done."""
        return [Enqueued(self._job.id, State.WAITING)]

    def store(self, connection: Connection, wall: float) -> bool:
        """Store the job; whether its queue is paused. Raises anything at all, and leaves nothing, if that does not work."""
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
        }
