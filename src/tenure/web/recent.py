"""`Recent` keeps answers of the store for some seconds, so that pages that need the same answer share one call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Recent"]

T = TypeVar("T")

ENTRIES = 100
"""Answers that are kept, at most."""


class _Entry:
    __slots__ = ("at", "lock", "value")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.at = float("-inf")
        self.value: Any = None


class Recent:
    """The latest answers by key."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}

    async def get(self, key: Hashable, seconds: float, call: Callable[[], Awaitable[T]]) -> T:
        """The answer under this key, if it is not older than `seconds`; else that of `call`. Two callers never call at once."""
        entry = self._entries.pop(key, None) or _Entry()
        self._entries[key] = entry  # now the last one to be dropped
        while len(self._entries) > ENTRIES:
            self._entries.pop(next(iter(self._entries)))
        async with entry.lock:
            if time.monotonic() - entry.at >= seconds:
                entry.value = await call()
                entry.at = time.monotonic()
            found: T = entry.value
            return found

    def forget(self) -> None:
        """Ask the store again for everything, because an action has changed something."""
        self._entries.clear()
