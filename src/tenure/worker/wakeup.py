"""Waiting: the one place where a worker's loop waits, and the bell that tells it of new work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tenure.errors import StoreError
from tenure.stores.base import Store

__all__ = ["Wakeup", "WorkListener"]

RETRY_AFTER = 1.0
"""Seconds before a store that could not say when there is work is asked again."""

log = logging.getLogger("tenure.worker")


class Wakeup:
    """Where one loop waits for anything worth another look; what is set before the wait is not missed."""

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """End the wait, or the next one; on the loop that waits."""
        self._set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout: float) -> None:
        """Wait until `set` is called, or so many seconds."""
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
    """Listens for new work while the worker has room for it, and only then: one new job wakes one worker that listens."""

    def __init__(self, store: Store, wakeup: Wakeup, on_queue: Callable[[str], None]) -> None:
        """`on_queue` is called with the queue that it rings for, if the store tells."""
        self._store = store
        self._wakeup = wakeup
        self._on_queue = on_queue
        self._listening: asyncio.Task[None] | None = None
        self.fired = False
        """Whether it has rung since it was armed."""

    def start(self, patterns: Sequence[str], skip_tasks: tuple[str, ...] = (), after: float = 0.0) -> None:
        """Listen until it rings once for one of these queues, `after` so many seconds; if it listens already it goes on as it is.

        Jobs of `skip_tasks` that are in line already do not ring it.
        """
        self.fired = False
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(patterns, skip_tasks, after), name="tenure-bell")

    def stop(self) -> None:
        """Leave the next ring to somebody who has room."""
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
        except StoreError as error:  # of one that is gone the worker's loop finds out by itself
            log.info("no wake-ups come, new work is looked for instead: %s", error)
            # Not rung at once: the store may refuse this alone, and the loop would go round without a rest.
            await asyncio.sleep(RETRY_AFTER)
        self._listening = None
        self.fired = True
        self._wakeup.set()
