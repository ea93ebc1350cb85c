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

__all__ = ["KIND", "Notes", "packed", "unpacked"]

KIND = "notes"
"""How a notification begins that holds some."""

ROOM = 7_900
"""Bytes of a notification that the server takes, with a few to spare."""

STAYS, AGAIN = 45.0, 15.0
"""Seconds for which a watcher is entered, and after which it is entered again."""

HEARD_WITHIN = 5.0
"""Seconds that a watch waits at most until it is known whether it will hear anything."""

MOST = 10_000
"""Notes that wait for a watcher who does not come for them; then the oldest are forgotten."""


class Notes:
    """What a store object publishes and hears. `step` does a step by its name and with its values."""

    def __init__(self, subscription: Subscription, channel: str, step: Callable[..., Awaitable[Any]]) -> None:
        self._subscription = subscription
        self._channel = channel
        self._step = step
        self._watches: set[_Watch] = set()
        self._entering = asyncio.Lock()
        """Held by who enters the list or leaves it, for one may do so while another does the opposite."""

        self._staying: asyncio.Task[None] | None = None

    async def publish(self, notes: Sequence[str]) -> None:
        """Say these, to whoever watches."""
        if texts := list(packed(notes)):
            await self._step("publish", texts)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        """Hear whatever is published."""
        await self._subscription.open(HEARD_WITHIN)
        watch = _Watch()
        self._watches.add(watch)
        try:
            async with self._entering:
                await self._step("watch_notes", self._channel, STAYS)
                if self._staying is None:
                    # A context of its own: it must not keep the variables of whoever happened to be first.
                    self._staying = asyncio.create_task(self._stay(), name="tenure-watch", context=Context())
            yield watch.notes()
        finally:
            self._watches.discard(watch)
            await self._leave()

    def heard(self, said: str) -> None:
        """Give every watch what a notification holds, after its kind."""
        for note in unpacked(said):
            for watch in self._watches:
                watch.add(note)

    async def close(self) -> None:
        """End all watches."""
        watches, self._watches = self._watches, set()
        for watch in watches:
            watch.end()
        await self._leave()

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(AGAIN)
            with suppress(StoreError):  # the next time, perhaps
                await self._step("watch_notes", self._channel, STAYS)

    async def _leave(self) -> None:
        """With the last watch."""
        async with self._entering:
            if self._watches or self._staying is None:
                return
            self._staying.cancel()
            await asyncio.gather(self._staying, return_exceptions=True)
            self._staying = None
            with suppress(StoreError):  # it is forgotten by itself before long
                await self._step("watch_notes", self._channel, None)


class _Watch:
    def __init__(self) -> None:
        self._waiting: deque[str] = deque(maxlen=MOST)
        self._changed = asyncio.Event()
        self._ended = False

    def add(self, note: str) -> None:
        self._waiting.append(note)
        self._changed.set()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    async def notes(self) -> AsyncIterator[str]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()


def packed(notes: Sequence[str]) -> Iterator[str]:
    """Notes as notifications, each another one. No text of the server's has a NUL."""
    number = room = 0
    pack: list[str] = []
    for note in (note.replace("\0", "\ufffd") for note in notes):
        size = len(note.encode()) + len(str(len(note))) + 1
        if pack and size > room:
            yield _joined(number, pack)
            number, pack = number + 1, []
        if not pack:
            room = ROOM - len(f"{KIND} {number} ")
        pack.append(note)
        room -= size
    if pack:
        yield _joined(number, pack)


def _joined(number: int, notes: Sequence[str]) -> str:
    return f"{KIND} {number} {','.join(str(len(note)) for note in notes)} {''.join(notes)}"


def unpacked(said: str) -> Iterator[str]:
    """The notes of a notification, after its kind."""
    _, lengths, notes = said.split(" ", 2)
    begin = 0
    for length in map(int, lengths.split(",")):
        yield notes[begin : begin + length]
        begin += length
