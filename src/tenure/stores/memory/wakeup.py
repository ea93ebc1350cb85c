"""How one event loop hears of what another one has done."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from tenure import patterns
from tenure.stores.base import Signal

__all__ = ["Bell", "IdleCaller", "Mailbox"]


class Bell:
    """An event of one event loop that any thread may set."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        # A loop that is closed has nobody left to wake.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()


class IdleCaller(Bell):
    """Somebody who waits for work in the queues that these names and patterns serve."""

    def __init__(self, served: Sequence[str]) -> None:
        super().__init__()
        self._served = served

    def serves(self, queue: str) -> bool:
        return patterns.serves(self._served, queue)


class Mailbox:
    """The signals for one store object. They are hints, so the oldest go when nobody listens."""

    def __init__(self) -> None:
        self._signals: deque[Signal] = deque(maxlen=10_000)
        self._bell: Bell | None = None
        self._closed = False

    def post(self, signal: Signal) -> None:
        self._signals.append(signal)
        self._ring()

    def close(self) -> None:
        self._closed = True
        self._ring()

    async def listen(self) -> AsyncIterator[Signal]:
        """Give the signals as they come, those that waited here first, until the mailbox is closed."""
        # The bell hangs before the box is emptied: what is posted in between rings it.
        bell = self._bell = Bell()
        while not self._closed:
            while self._signals:
                yield self._signals.popleft()
            await bell.wait()

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()
