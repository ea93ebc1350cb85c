"""An ear at one channel: what was said there waits until it is read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Generic, TypeVar

from tenure.stores.redis.link import Link

__all__ = ["Subscription"]

T = TypeVar("T")

UNREAD = 10_000
"""Hints that wait for one who is slow to read them; then the oldest go."""

LISTENING_WITHIN = 1.0
"""Seconds that `listen` waits for the channel to be open. Without it the caller goes on, and hints are lost until it is."""


class Subscription(Generic[T]):
    """Hears what is said on a channel from `listen` on, connecting again by itself, until it is closed."""

    def __init__(self, link: Link, channel: str, read: Callable[[bytes], Iterable[T]]) -> None:
        """`read` says what a message means."""
        self._link = link
        self._channel = channel
        self._read = read
        self._unread: deque[T] = deque(maxlen=UNREAD)
        self._news = asyncio.Event()
        self._open = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.begun = 0
        """How often it has begun to hear: once, and again whenever its connection was away."""

    async def listen(self) -> None:
        """Let the channel be open, so that what is said from now on is heard."""
        if self._task is None:
            self._task = asyncio.create_task(self._hear(), name="tenure-ear")
        with suppress(TimeoutError):
            async with asyncio.timeout(LISTENING_WITHIN):
                await self._open.wait()

    async def close(self) -> None:
        """Hear no more; whoever reads comes to the end."""
        self._closed = True
        self._news.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def heard(self) -> AsyncIterator[T]:
        """What was said, as it comes, until this is closed."""
        while not self._closed:
            self._news.clear()
            while self._unread:
                yield self._unread.popleft()
            await self._news.wait()

    async def _hear(self) -> None:
        async for message in self._link.listen(self._channel):
            if message is None:
                self.begun += 1
                self._open.set()
                continue
            self._unread.extend(self._read(message))
            self._news.set()
