"""`EventPublisher`: publishes the events of one store to watchers in all processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from tenure.errors import StoreError
from tenure.observe.audience import Audience
from tenure.observe.encoding import encode
from tenure.stores.base import Store

__all__ = ["EventPublisher"]

GATHER = 0.05
"""Seconds in which events gather before they are published."""

CLOSE_TIMEOUT = 1.0
"""Seconds that closing waits for events that are still to be published."""


class EventPublisher:
    """Publishes pending events if anyone watches, and runs the lookups that some events need. Belongs to one event loop.

    It waits for the store, and nothing waits for it: a store that is gone costs events only.
    """

    def __init__(self, store: Store, audience: Audience, on_checked: Callable[[], None]) -> None:
        """`on_checked` is called after each check whether anyone watches."""
        self._store = store
        self._audience = audience
        self._on_checked = on_checked
        self._loop = asyncio.get_running_loop()
        self._publishing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.closing = False
        audience.publishers.add(self)

    def run_in_background(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Run this action as a task. Closing waits a while for it."""

        async def act() -> None:
            with contextlib.suppress(StoreError):
                await action(*args)

        if not self.closing:
            task = self._loop.create_task(act(), name="tenure-event", context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def run_in_background_threadsafe(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """The same, from any thread."""
        self._call(self.run_in_background, action, *args)

    def publish_soon(self) -> None:
        """Publish pending events, if anyone watches, within a twentieth of a second."""
        if self._publishing is None and not self.closing:
            self._publishing = self._loop.create_task(self._publish_pending(), name="tenure-publish", context=Context())

    def publish_soon_threadsafe(self) -> None:
        """The same, from any thread."""
        self._call(self.publish_soon)

    async def close(self) -> None:
        """Publish what is pending, if that is done soon."""
        if not self.closing:
            self.closing = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._publish_the_rest()
            self._audience.publishers.discard(self)

    async def _publish_pending(self) -> None:
        try:
            while self._audience.has_pending:
                await self.check_watched()
                if self._audience.has_pending:
                    await asyncio.sleep(GATHER)
                    await self._publish()
        finally:
            self._publishing = None

    async def check_watched(self) -> None:
        """Ask the store whether anyone watches, if it is time to."""
        if self._audience.start_watch_check():
            try:
                self._audience.set_watched(watched=await self._store.watched())
            except StoreError:
                self._audience.set_watched(watched=False)
            self._on_checked()

    async def _publish(self) -> None:
        if messages := encode(self._audience.take_pending()):
            with contextlib.suppress(StoreError):
                await self._store.publish(messages)

    async def _publish_the_rest(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT / 2)
            for task in self._tasks:
                task.cancel()
        if self._publishing is not None:  # not cancelled: the events that it has taken would be lost
            await asyncio.gather(self._publishing, return_exceptions=True)
        if self._audience.has_pending:
            await self.check_watched()
            await self._publish()

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *args)
