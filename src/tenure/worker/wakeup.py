"""`Wakeup`, where a worker's loop waits, and `WorkListener`, which wakes it when there are new jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tenure.errors import StoreError
from tenure.stores.base import Store

__all__ = ["Wakeup", "WorkListener"]

RETRY_AFTER = 1.0
"""Seconds before listening again after the store has refused."""

log = logging.getLogger("tenure.worker")


class Wakeup:
    """Lets one loop wait until something happens. A `set` before the wait is not lost."""

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """End the wait, or the next one; call on the loop that waits."""
        self._set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout: float) -> None:
        """Wait until `set` is called, at most `timeout` seconds."""
        if not self._set and timeout > 0:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self.set)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._set = False


class WorkListener:
    """Listens for new jobs while the worker has room for them, and only then, because a new job wakes only one
    listening worker.
    """

    def __init__(self, store: Store, wakeup: Wakeup, on_queue: Callable[[str], None]) -> None:
        """`on_queue` is called with the name of the queue that has work, if the store gives it."""
        self._store = store
        self._wakeup = wakeup
        self._on_queue = on_queue
        self._listening: asyncio.Task[None] | None = None
        self.fired = False
        """Whether it has received an announcement since `start`."""

    def start(self, patterns: Sequence[str], skip_tasks: tuple[str, ...] = (), after: float = 0.0) -> None:
        """Listen for one announcement of work in these queues, starting in `after` seconds.

        Does nothing if it already listens.

        Jobs of `skip_tasks` that are already waiting do not count.
        """
        self.fired = False
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(patterns, skip_tasks, after), name="tenure-bell")

    def stop(self) -> None:
        """Stop listening, so that the next announcement wakes a worker that has room."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def _listen(self, patterns: Sequence[str], skip_tasks: tuple[str, ...], after: float) -> None:
        if after:
            await asyncio.sleep(after)
        try:
            queue = await self._store.wait_for_work(patterns, 60.0, skip_tasks=skip_tasks)
            if queue is not None:
                self._on_queue(queue)
        except StoreError as error:  # if the store is down, the worker's loop finds out by itself
            log.info("cannot listen for new jobs, polling instead: %s", error)
            # Not woken at once: the store may refuse only this, and the loop would spin.
            await asyncio.sleep(RETRY_AFTER)
        self._listening = None
        self.fired = True
        self._wakeup.set()
