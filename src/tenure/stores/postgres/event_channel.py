"""EventChannel: publishes event messages to the watchers in other processes, by notifications. Messages may be lost.

A watcher has a row in `watchers`, which it renews; publishing notifies the channel of each. A notification holds as many
messages as fit: the word `notes`, its number within the call, the lengths of the messages, and the messages themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from typing import Any

from tenure.errors import StoreError
from tenure.stores.mailbox import Mailbox
from tenure.stores.postgres.subscription import Subscription

__all__ = ["KIND", "EventChannel", "pack", "unpack"]

KIND = "notes"
"""The first word of a notification with event messages."""

PAYLOAD_BYTES = 7_900
"""Largest payload in bytes: the server accepts less than 8,000."""

REGISTERED_FOR, REGISTER_EVERY = 45.0, 15.0
"""Seconds for which a watcher is registered, and after which it registers again."""

OPEN_WITHIN = 5.0
"""Longest time in seconds to wait for the subscription when a watch begins."""

BUFFER = 10_000
"""Messages kept for a watcher that does not read them; beyond that the oldest are dropped."""


class EventChannel:
    """Publishes event messages, and passes received ones to the watchers of one store object.

    `operation` calls an operation of the store by name.
    """

    def __init__(self, subscription: Subscription, channel: str, operation: Callable[..., Awaitable[Any]]) -> None:
        self._subscription = subscription
        self._channel = channel
        self._operation = operation
        self._watches: set[Mailbox[str]] = set()
        self._registering = asyncio.Lock()
        """Held while registering or unregistering, because two watches may do the opposite at the same time."""

        self._renewing: asyncio.Task[None] | None = None

    async def publish(self, messages: Sequence[str]) -> None:
        """Send these messages to all watchers."""
        if texts := list(pack(messages)):
            await self._operation("publish", texts)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        """Receive every message that is published while the block runs."""
        await self._subscription.open(OPEN_WITHIN)
        watch: Mailbox[str] = Mailbox(BUFFER)
        self._watches.add(watch)
        try:
            async with self._registering:
                await self._operation("watch_events", self._channel, REGISTERED_FOR)
                if self._renewing is None:
                    # An empty context, so that the task does not keep the context variables of the first watcher alive.
                    self._renewing = asyncio.create_task(self._renew(), name="tenure-watch", context=Context())
            yield watch.read()
        finally:
            self._watches.discard(watch)
            await self._unregister()

    def receive(self, payload: str) -> None:
        """Pass the messages of a notification, without its first word, to every watch."""
        messages = list(unpack(payload))
        for watch in self._watches:
            watch.put(messages)

    async def close(self) -> None:
        """End all watches."""
        watches, self._watches = self._watches, set()
        for watch in watches:
            watch.close()
        await self._unregister()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(REGISTER_EVERY)
            with suppress(StoreError):  # it tries again next time
                await self._operation("watch_events", self._channel, REGISTERED_FOR)

    async def _unregister(self) -> None:
        """Remove the row in `watchers` if no watch is left."""
        async with self._registering:
            if self._watches or self._renewing is None:
                return
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
            self._renewing = None
            with suppress(StoreError):  # the row expires by itself
                await self._operation("watch_events", self._channel, None)


def pack(messages: Sequence[str]) -> Iterator[str]:
    """Pack messages into payloads, each different from the others. NUL is replaced, because PostgreSQL has none in a text."""
    number = room = 0
    batch: list[str] = []
    for message in (message.replace("\0", "\ufffd") for message in messages):
        size = len(message.encode()) + len(str(len(message))) + 1
        if batch and size > room:
            yield _joined(number, batch)
            number, batch = number + 1, []
        if not batch:
            room = PAYLOAD_BYTES - len(f"{KIND} {number} ")
        batch.append(message)
        room -= size
    if batch:
        yield _joined(number, batch)


def _joined(number: int, messages: Sequence[str]) -> str:
    return f"{KIND} {number} {','.join(str(len(message)) for message in messages)} {''.join(messages)}"


def unpack(payload: str) -> Iterator[str]:
    """The messages of a payload without its first word."""
    _, lengths, messages = payload.split(" ", 2)
    begin = 0
    for length in map(int, lengths.split(",")):
        yield messages[begin : begin + length]
        begin += length
