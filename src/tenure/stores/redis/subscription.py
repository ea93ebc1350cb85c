"""`Subscription` subscribes to a Redis channel and buffers its messages until they are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Generic, TypeVar

from tenure.stores.mailbox import Mailbox
from tenure.stores.redis.link import Link

__all__ = ["Subscription"]

T = TypeVar("T")

SUBSCRIBE_TIMEOUT = 1.0
"""Seconds that `listen` waits for the subscription. After that the caller continues, and messages are missed until it
is made."""


class Subscription(Generic[T]):
    """Subscribes to a channel from `listen` on, reconnecting as needed, until it is closed."""

    def __init__(self, link: Link, channel: str, decode: Callable[[bytes], Iterable[T]]) -> None:
        """`decode` turns a Redis message into zero or more values."""
        self._link = link
        self._channel = channel
        self._decode = decode
        self._unread: Mailbox[T] = Mailbox()
        self._subscribed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.epoch = 0
        """Number of times that the subscription was made: 0 before the first, one more after each reconnect, so that
        readers know they may have missed messages."""

    async def listen(self) -> None:
        """Subscribe, so that messages from now on are received."""
        if self._task is None:
            self._task = asyncio.create_task(self._receive(), name="tenure-subscription")
        with suppress(TimeoutError):
            async with asyncio.timeout(SUBSCRIBE_TIMEOUT):
                await self._subscribed.wait()

    async def close(self) -> None:
        """Unsubscribe. Iterators of `messages` end."""
        self._unread.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def messages(self) -> AsyncIterator[T]:
        """Yield messages as they arrive, until the subscription is closed."""
        return self._unread.read()

    async def _receive(self) -> None:
        async for message in self._link.listen(self._channel):
            if message is None:
                self.epoch += 1
                self._subscribed.set()
                continue
            self._unread.put(self._decode(message))
