"""Telling watchers, in whatever process they are, of what happens through one store object."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from tenure.errors import StoreError
from tenure.observe.audience import Audience
from tenure.observe.encoding import notes_of
from tenure.stores.base import Store

__all__ = ["EventPublisher"]

JOIN = 0.05
"""Seconds in which events gather before watchers are told of them."""

FAREWELL = 1.0
"""Seconds that closing waits for what is still to be told."""


class EventPublisher:
    """Publishes what an audience is to be told, if somebody watches, and has room for what must be found out first. Of one event loop.

    It waits for the store, and nobody waits for it: a store that is gone costs events, and nothing else.
    """

    def __init__(self, store: Store, audience: Audience, answered: Callable[[], None]) -> None:
        """`answered` is called when the store has said whether anybody watches."""
        self._store = store
        self._audience = audience
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        self._telling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.closing = False
        audience.voices.add(self)

    def begin(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Do this in the background; closing waits for it a while."""

        async def act() -> None:
            with contextlib.suppress(StoreError):
                await action(*args)

        if not self.closing:
            task = self._loop.create_task(act(), name="tenure-event", context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def begin_there(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """The same, from any thread."""
        self._call(self.begin, action, *args)

    def soon(self) -> None:
        """Tell watchers, if there are any, within a twentieth of a second."""
        if self._telling is None and not self.closing:
            self._telling = self._loop.create_task(self._tell(), name="tenure-notes", context=Context())

    def tell_soon(self) -> None:
        """The same, from any thread."""
        self._call(self.soon)

    async def close(self) -> None:
        """Tell what is still to be told, if that is done soon."""
        if not self.closing:
            self.closing = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL):
                    await self._say_the_rest()
            self._audience.voices.discard(self)

    async def _tell(self) -> None:
        try:
            while self._audience.waits:
                await self.ask()
                if self._audience.waits:
                    await asyncio.sleep(JOIN)
                    await self._publish()
        finally:
            self._telling = None

    async def ask(self) -> None:
        """Find out whether anybody watches, if it is time to."""
        if self._audience.to_ask():
            try:
                self._audience.answered(watched=await self._store.watched())
            except StoreError:
                self._audience.answered(watched=False)
            self._answered()

    async def _publish(self) -> None:
        if notes := notes_of(self._audience.take()):
            with contextlib.suppress(StoreError):
                await self._store.publish(notes)

    async def _say_the_rest(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FAREWELL / 2)
            for task in self._tasks:
                task.cancel()
        if self._telling is not None:  # not cancelled: what it has taken to tell would be lost
            await asyncio.gather(self._telling, return_exceptions=True)
        if self._audience.waits:
            await self.ask()
            await self._publish()

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(callback, *args)
