"""Idle callers: how they wait for work, and who wakes them.

Who waits has a row in `idle`, entered again and again; a step that brings work takes one off it and notifies the channel of its store
object. Each looks for work by itself too, now and then: a notification is a hint.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any

from tenure.errors import StoreError
from tenure.stores.postgres.queue_regex import regexes
from tenure.stores.postgres.subscription import Subscription

__all__ = ["WORK", "Wakeup"]

WORK = "work"
"""How a notification begins that is for one of them."""

LOOK_SOON, LOOK_EVERY, LOOK_UNNOTIFIED = 0.05, 3.0, 0.2
"""Seconds until a caller who waits for work looks for it by itself: soon after it began to wait, for a job that came in the same
instant, or after it saw some that another may take; else, for workers poll beside it; and if it cannot be notified."""

GRACE = 1.0
"""Seconds by which a caller may be late to say that it still waits."""


class Wakeup:
    """The callers of a store object that wait for work. `step` does a step by its name and with its values."""

    def __init__(
        self, subscription: Subscription, channel: str, operation: Callable[..., Coroutine[Any, Any, Any]]
    ) -> None:
        self._subscription = subscription
        self._channel = channel
        self._operation = operation
        self._closed = False
        self._waits: dict[int, asyncio.Event] = {}
        self._callers = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def wait(self, patterns: Sequence[str], timeout: float, skip_tasks: Sequence[str]) -> None:
        """Return when a job may have come in line in a queue that these serve, or after so many seconds."""
        skipped = skip_tasks or None
        deadline = asyncio.get_running_loop().time() + timeout
        caller = next(self._callers)
        woken = self._waits[caller] = asyncio.Event()
        begins = had_work = True
        listed = False
        try:
            while (left := deadline - asyncio.get_running_loop().time()) > 0 and not self._closed:
                is_live = self._subscription.is_live
                pause = LOOK_SOON if begins else LOOK_EVERY
                stays = pause + GRACE if is_live else None
                listed = True
                work = await self._operation("await_work", self._channel, caller, *regexes(patterns), stays, skipped)
                if woken.is_set():
                    return  # and who woke it has taken it off the list perhaps before it came there once more
                # What is new has woken somebody, who is on the way to it: that is left for the next look.
                if work and (had_work or not is_live):
                    return
                begins, had_work = False, work
                pause = LOOK_SOON if work else pause
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, pause if is_live else LOOK_UNNOTIFIED)):
                        await woken.wait()
                        listed = False
                        return
        finally:
            del self._waits[caller]
            if listed or self._closed:
                self._in_background(self._operation("stop_waiting", self._channel, caller))

    def wake(self, payload: str) -> None:
        """Wake the caller whom a notification names, after its kind."""
        if (woken := self._waits.get(int(payload))) is not None:
            woken.set()

    def stop(self) -> None:
        """Wake all of them, for good."""
        self._closed = True
        for woken in self._waits.values():
            woken.set()

    async def close(self) -> None:
        """Let end what nobody waits for."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _in_background(self, call: Coroutine[Any, Any, Any]) -> None:
        """Have something done that nobody waits for."""

        async def run() -> None:
            with suppress(StoreError):
                await call

        task = asyncio.create_task(run(), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
