"""A store that a child process opens when its job first uses it, and not sooner."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, cast

from tenure.errors import STORE_OUTAGE, InvalidOption
from tenure.stores.base import Store

__all__ = ["LazyStore"]

PAUSES = (1.0, 2.0)
"""Seconds between the tries to reach the store: one more than there are pauses."""


class LazyStore:
    """The stores of one child process, and whether any of them could be reached."""

    def __init__(self, make: Callable[[], Store], url: str) -> None:
        self._make = make
        self._in_memory = url.startswith("memory:")
        self.failed = False
        """Whether the store was used and never reached: no fault of the job."""

    def store(self) -> Store:
        """A store object for the running loop, opened by its first call."""
        if self._in_memory:
            raise InvalidOption(
                "memory:// is the memory of one process, and an isolated task runs in another: "
                "use ctx.enqueue(), whose jobs the worker stores"
            )
        return cast("Store", _Reached(self._make(), self))


class _Reached:
    """Passes everything on; before the first call that waits, it opens the store, in three tries."""

    def __init__(self, store: Store, reach: LazyStore) -> None:
        self._store = store
        self._reach = reach
        self._opening = asyncio.Lock()
        self._open = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if self._open or name == "close" or not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self.open()
            return await found(*args, **kwargs)

        return call

    def enqueue_now(self, jobs: Any) -> Any:
        """Only once the store is open; else it is to be asked the long way."""
        return self._store.enqueue_now(jobs) if self._open else None

    async def open(self) -> None:
        """Reach the store, unless it was reached before."""
        async with self._opening:
            if self._open:
                return
            for pause in (*PAUSES, None):
                try:
                    await self._store.open()
                except STORE_OUTAGE:
                    if pause is None or self._reach.failed:
                        self._reach.failed = True
                        raise
                    await asyncio.sleep(pause)
                else:
                    break
            self._open = True
            self._reach.failed = False
