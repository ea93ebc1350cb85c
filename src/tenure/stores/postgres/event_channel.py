"""Notes between processes, told by notifications: hints, kept nowhere.

Who watches has a row in `watchers`, entered again and again; who publishes notifies the channel of each. A notification holds as many
notes as it can: `notes`, the how-manieth of its call, the lengths of the notes, and the notes one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from typing import Any

from tenure.errors import StoreError
from tenure.stores.postgres.subscription import Subscription

__all__ = ["KIND", "EventChannel", "pack", "unpack"]

KIND = "notes"
"""How a notification begins that holds some."""

PAYLOAD_BYTES = 7_900
"""Bytes of a notification that the server takes, with a few to spare."""

REGISTERED_FOR, REGISTER_EVERY = 45.0, 15.0
"""Seconds for which a watcher is entered, and after which it is entered again."""

OPEN_WITHIN = 5.0
"""Seconds that a watch waits at most until it is known whether it will hear anything."""

BUFFER = 10_000
"""Notes that wait for a watcher who does not come for them; then the oldest are forgotten."""


class EventChannel:
    """What a store object publishes and hears. `step` does a step by its name and with its values."""

    def __init__(self, subscription: Subscription, channel: str, operation: Callable[..., Awaitable[Any]]) -> None:
        self._subscription = subscription
        self._channel = channel
        self._operation = operation
        self._watches: set[_Watch] = set()
        self._registering = asyncio.Lock()
        """Held by who enters the list or leaves it, for one may do so while another does the opposite."""

        self._renewing: asyncio.Task[None] | None = None

    async def publish(self, messages: Sequence[str]) -> None:
        """Say these, to whoever watches."""
        if texts := list(pack(messages)):
            await self._operation("publish", texts)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        """Hear whatever is published."""
        await self._subscription.open(OPEN_WITHIN)
        watch = _Watch()
        self._watches.add(watch)
        try:
            async with self._registering:
                await self._operation("watch_events", self._channel, REGISTERED_FOR)
                if self._renewing is None:
                    # A context of its own: it must not keep the variables of whoever happened to be first.
                    self._renewing = asyncio.create_task(self._renew(), name="tenure-watch", context=Context())
            yield watch.messages()
        finally:
            self._watches.discard(watch)
            await self._unregister()

    def receive(self, payload: str) -> None:
        """Give every watch what a notification holds, after its kind."""
        for message in unpack(payload):
            for watch in self._watches:
                watch.add(message)

    async def close(self) -> None:
        """End all watches."""
        watches, self._watches = self._watches, set()
        for watch in watches:
            watch.end()
        await self._unregister()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(REGISTER_EVERY)
            with suppress(StoreError):  # the next time, perhaps
                await self._operation("watch_events", self._channel, REGISTERED_FOR)

    async def _unregister(self) -> None:
        """With the last watch."""
        async with self._registering:
            if self._watches or self._renewing is None:
                return
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
            self._renewing = None
            with suppress(StoreError):  # it is forgotten by itself before long
                await self._operation("watch_events", self._channel, None)


class _Watch:
    def __init__(self) -> None:
        self._waiting: deque[str] = deque(maxlen=BUFFER)
        self._changed = asyncio.Event()
        self._ended = False

    def add(self, message: str) -> None:
        self._waiting.append(message)
        self._changed.set()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    async def messages(self) -> AsyncIterator[str]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()


def pack(messages: Sequence[str]) -> Iterator[str]:
    """Notes as notifications, each another one. No text of the server's has a NUL."""
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
    """The notes of a notification, after its kind."""
    _, lengths, messages = payload.split(" ", 2)
    begin = 0
    for length in map(int, lengths.split(",")):
        yield messages[begin : begin + length]
        begin += length
