"""`LazyStores`: store objects for a child process that connect when its job first uses them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, cast

from tenure.errors import STORE_OUTAGE, InvalidOption
from tenure.stores.base import Store

__all__ = ["LazyStores"]

PAUSES = (1.0, 2.0)
"""Seconds between the tries to reach the store: one try more than there are pauses."""


class LazyStores:
    """Creates the store objects of one child process, and records whether the store could be reached."""

    def __init__(self, make: Callable[[], Store], *, in_memory: bool) -> None:
        self._make = make
        self._in_memory = in_memory
        self.unreachable = False
        """Whether the store was used and could not be reached, which is not the job's fault."""

    def store(self) -> Store:
        """A store object for the running loop; its first operation opens it."""
        if self._in_memory:
            raise InvalidOption(
                "memory:// belongs to one process, and an isolated task runs in another: "
                "use ctx.enqueue(), whose jobs the worker stores"
            )
        return cast("Store", LazyStore(self._make(), self))


class LazyStore:
    """Forwards everything to a store. Before the first awaited operation it opens the store, in up to three tries."""

    def __init__(self, store: Store, stores: LazyStores) -> None:
        self._store = store
        self._stores = stores
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
        """Enqueue without waiting, if the store is open; None if it is not, so that the caller awaits `enqueue`."""
        return self._store.enqueue_now(jobs) if self._open else None

    async def open(self) -> None:
        """Open the store, unless it is open."""
        async with self._opening:
            if self._open:
                return
            for pause in (*PAUSES, None):
                try:
                    await self._store.open()
                except STORE_OUTAGE:
                    if pause is None or self._stores.unreachable:
                        self._stores.unreachable = True
                        raise
                    await asyncio.sleep(pause)
                else:
                    break
            self._open = True
            self._stores.unreachable = False
