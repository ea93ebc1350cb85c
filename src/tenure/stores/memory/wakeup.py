"""`Waker` and `CrossLoopMailbox`: how one event loop or thread wakes another and sends it hints."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from tenure.core import patterns

__all__ = ["CrossLoopMailbox", "IdleCaller", "Waker"]

T = TypeVar("T")


class Waker:
    """Wakes a coroutine of one event loop, from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        # A closed loop has no coroutine to wake.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()


class IdleCaller(Waker):
    """A caller that waits for work in the queues that these names and patterns serve."""

    def __init__(self, served: Sequence[str]) -> None:
        super().__init__()
        self._served = served

    def serves(self, queue: str) -> bool:
        return patterns.serves(self._served, queue)


class CrossLoopMailbox(Generic[T]):
    """Hints for one store object. Without a listener only the latest 10,000 are kept."""

    def __init__(self) -> None:
        self._hints: deque[T] = deque(maxlen=10_000)
        self._waker: Waker | None = None
        self._closed = False

    def post(self, hint: T) -> None:
        self._hints.append(hint)
        self._wake()

    def close(self) -> None:
        self._closed = True
        self._wake()

    async def listen(self) -> AsyncIterator[T]:
        """Yield the hints, those already here first, until the mailbox is closed."""
        # The waker is set before the box is emptied, so that a hint posted in between wakes it.
        waker = self._waker = Waker()
        while not self._closed:
            while self._hints:
                yield self._hints.popleft()
            await waker.wait()

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker.wake()
