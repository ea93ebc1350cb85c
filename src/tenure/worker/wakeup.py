"""Waiting: the one place where a worker's loop waits, and the bell that tells it of new work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from tenure.stores.base import Store
from tenure.worker.outage import GONE

__all__ = ["Bell", "Wakeup"]


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


class Bell:
    """Listens for new work while the worker has room for it, and only then: one new job wakes one worker that listens."""

    def __init__(self, store: Store, wakeup: Wakeup) -> None:
        self._store = store
        self._wakeup = wakeup
        self._listening: asyncio.Task[None] | None = None
        self.rang = False
        """Whether it has rung since it was armed."""

    def arm(self, patterns: Sequence[str]) -> None:
        """Listen until it rings once for one of these queues; if it listens already it goes on as it is."""
        self.rang = False
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(patterns), name="tenure-bell")

    def disarm(self) -> None:
        """Leave the next ring to somebody who has room."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    async def _listen(self, patterns: Sequence[str]) -> None:
        with contextlib.suppress(*GONE):  # the worker's loop finds out by itself
            await self._store.wait_for_work(patterns, 60.0)
        self._listening = None
        self.rang = True
        self._wakeup.set()
