"""Wakeup: lets idle callers of a store object wait for work, and wakes them.

A caller that waits has a row in `idle`, which it renews. An operation that puts a job in line deletes one of these rows and notifies
the channel of its store object. Callers also poll now and then, because a notification may be lost.
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
"""The first word of a notification for an idle caller."""

LOOK_SOON, LOOK_EVERY, LOOK_UNNOTIFIED = 0.05, 3.0, 0.2
"""Seconds until a waiting caller polls: soon after it began to wait, for a job that came at the same moment, or after it saw work
that another caller may take; otherwise, because workers poll too; and while notifications do not arrive."""

GRACE = 1.0
"""Seconds by which a caller may renew its row late."""


class Wakeup:
    """The callers of a store object that wait for work. `operation` calls an operation of the store by name."""

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
        """Return when there may be work in a queue that `patterns` serve, or after `timeout` seconds."""
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
                    return  # the row that was just renewed may have been added after the wake-up: it is removed below
                # New work has woken a caller, which is about to take it: return only if it is still there at the next poll.
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
        """Wake the caller that a notification names after its first word."""
        if (woken := self._waits.get(int(payload))) is not None:
            woken.set()

    def stop(self) -> None:
        """Wake all callers and let none wait any more."""
        self._closed = True
        for woken in self._waits.values():
            woken.set()

    async def close(self) -> None:
        """Wait for the background calls."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _in_background(self, call: Coroutine[Any, Any, Any]) -> None:
        """Run a call in the background, ignoring store errors."""

        async def run() -> None:
            with suppress(StoreError):
                await call

        task = asyncio.create_task(run(), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
