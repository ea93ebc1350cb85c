"""`Mailbox` buffers values that arrive on an event loop until they are read there."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["Mailbox"]

T = TypeVar("T")

LIMIT = 10_000
"""Most values that a mailbox holds; when a slow reader exceeds it, the oldest are dropped."""


class Mailbox(Generic[T]):
    """Values for one reader. All methods are called on the event loop of the reader."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._values: deque[T] = deque(maxlen=limit)
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, values: Iterable[T]) -> None:
        """Add values, and wake the reader."""
        self._values.extend(values)
        self._changed.set()

    def close(self) -> None:
        """Let the reader end, once it has read the values that are here."""
        self._closed = True
        self._changed.set()

    async def read(self, check: Callable[[], None] | None = None, interval: float | None = None) -> AsyncIterator[T]:
        """Yield the values as they arrive, until the mailbox is closed.

        `check` is called whenever none has arrived for `interval` seconds.
        """
        while True:
            while self._values:
                yield self._values.popleft()
            if self._closed:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(interval):
                    await self._changed.wait()
            except TimeoutError:
                if check is not None:
                    check()
