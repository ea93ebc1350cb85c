"""`Joiner` joins enqueues that arrive while another one is under way into one call of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context

from tenure.core.job import NewJob
from tenure.stores.base import BATCH
from tenure.stores.values import Enqueued

__all__ = ["Joiner"]


class Joiner:
    """Joins calls that arrive while another is under way into one. A call that arrives alone goes at once.

    Only for calls that nothing can refuse, because joined calls fail together.
    """

    def __init__(self, enqueue: Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]]) -> None:
        self._enqueue = enqueue
        self._waiting: list[tuple[Sequence[NewJob], asyncio.Future[list[Enqueued]]]] = []
        self._busy = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Enqueue these jobs, alone or joined with others."""
        if self._busy:
            answer: asyncio.Future[list[Enqueued]] = asyncio.get_running_loop().create_future()
            self._waiting.append((jobs, answer))
            return await answer
        self._busy = True
        try:
            return await self._enqueue(jobs)
        finally:
            self._next()

    def _next(self) -> None:
        if not self._waiting:
            self._busy = False
            return
        # An empty context: the task must not keep the variables of the caller that happened to be first.
        task = asyncio.get_running_loop().create_task(self._enqueue_together(self._take()), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self) -> list[tuple[Sequence[NewJob], asyncio.Future[list[Enqueued]]]]:
        """The calls to join next: all that wait, up to about a batch of jobs."""
        size = number = 0
        for jobs, _ in self._waiting:
            if size and size + len(jobs) > BATCH:
                break
            size += len(jobs)
            number += 1
        taken, self._waiting = self._waiting[:number], self._waiting[number:]
        return taken

    async def _enqueue_together(self, calls: Sequence[tuple[Sequence[NewJob], asyncio.Future[list[Enqueued]]]]) -> None:
        try:
            found = await self._enqueue([job for jobs, _ in calls for job in jobs])
        except Exception as error:  # noqa: BLE001 - raised in every joined call
            for _, answer in calls:
                if not answer.done():
                    answer.set_exception(error)
        else:
            start = 0
            for jobs, answer in calls:
                if not answer.done():
                    answer.set_result(found[start : start + len(jobs)])
                start += len(jobs)
        finally:
            self._next()
