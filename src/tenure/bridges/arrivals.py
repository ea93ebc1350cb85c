"""`Arrivals`: waits for entries in several lists of Redis at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tenure.errors import StoreError

__all__ = ["MOST", "Arrivals"]

MOST = 8
"""Lists that are waited for; each takes a connection."""

WATCH = 30.0
"""Seconds after which a wait is renewed. A server that does not notice that this process is gone moves an entry for it no later."""

AFTER_AN_ERROR = 1.0
"""Seconds between two tries while the server refuses."""


class Arrivals:
    """Moves the first entry that comes to each list to another list, which the next take looks at first.

    The waits go on until `stop`, also between two calls of `wait`, so an idle bridge makes few calls. Stop them before the worker is
    busy: until then they keep one entry of each list from other workers.
    """

    def __init__(self, move: Callable[[str, str, float], Awaitable[object]], lists: Mapping[str, str]) -> None:
        """`lists`: the list that entries are put aside to, by the list that they come to."""
        self._move = move
        self._lists = lists
        self._waits: dict[str, asyncio.Task[None]] = {}
        self._came = asyncio.Event()

    @property
    def waiting(self) -> bool:
        """Whether entries may be moved, or have been moved, since the last `stop`."""
        return bool(self._waits)

    @property
    def quiet(self) -> bool:
        """Whether nothing has come to any list since `wait` was called first."""
        return len(self._waits) == len(self._lists) and not any(wait.done() for wait in self._waits.values())

    async def wait(self, timeout: float) -> None:
        """Return when an entry has come, or after `timeout` seconds."""
        self._came.clear()
        for source, target in self._lists.items():
            if (wait := self._waits.get(source)) is None or wait.done():
                self._waits[source] = asyncio.create_task(self._watch(source, target))
        try:
            async with asyncio.timeout(timeout):
                await self._came.wait()
        except TimeoutError:
            pass

    async def stop(self) -> None:
        """End all waits. An entry that comes at this very moment may still be moved."""
        waits, self._waits = self._waits, {}
        for wait in waits.values():
            wait.cancel()
        await asyncio.gather(*waits.values(), return_exceptions=True)

    async def _watch(self, source: str, target: str) -> None:
        try:
            while await self._move(source, target, WATCH) is None:
                pass
        except StoreError:
            await asyncio.sleep(AFTER_AN_ERROR)  # the next take says what is wrong
        self._came.set()
