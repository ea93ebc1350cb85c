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

MAX_UNREAD = 10_000
"""Hints that wait for one who is slow to read them; then the oldest go."""

SUBSCRIBE_TIMEOUT = 1.0
"""Seconds that `listen` waits for the channel to be open. Without it the caller goes on, and hints are lost until it is."""


class Subscription(Generic[T]):
    """Hears what is said on a channel from `listen` on, connecting again by itself, until it is closed."""

    def __init__(self, link: Link, channel: str, decode: Callable[[bytes], Iterable[T]]) -> None:
        """`decode` says what a message means."""
        self._link = link
        self._channel = channel
        self._decode = decode
        self._unread: deque[T] = deque(maxlen=MAX_UNREAD)
        self._arrived = asyncio.Event()
        self._subscribed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.epoch = 0
        """How often it has begun to hear: once, and again whenever its connection was away."""

    async def listen(self) -> None:
        """Let the channel be open, so that what is said from now on is heard."""
        if self._task is None:
            self._task = asyncio.create_task(self._receive(), name="tenure-subscription")
        with suppress(TimeoutError):
            async with asyncio.timeout(SUBSCRIBE_TIMEOUT):
                await self._subscribed.wait()

    async def close(self) -> None:
        """Hear no more; whoever reads comes to the end."""
        self._closed = True
        self._arrived.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def messages(self) -> AsyncIterator[T]:
        """What was said, as it comes, until this is closed."""
        while not self._closed:
            self._arrived.clear()
            while self._unread:
                yield self._unread.popleft()
            await self._arrived.wait()

    async def _receive(self) -> None:
        async for message in self._link.listen(self._channel):
            if message is None:
                self.epoch += 1
                self._subscribed.set()
                continue
            self._unread.extend(self._decode(message))
            self._arrived.set()
