"""`EventTail` watches the store while a page of events is open, once for all viewers, and keeps the latest events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tenure.errors import StoreError
from tenure.events import Event
from tenure.observe.watching import Watch

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["Entry", "EventTail"]

log = logging.getLogger("tenure.web")

KEPT = 1000
"""Events that are kept, the latest ones."""

LOOKED_AT = 5.0
"""Seconds after the last look for which the store is watched."""

AGAIN = 1.0
"""Seconds after which watching is tried again when it has failed."""


class Entry(NamedTuple):
    """An event, or a sentence about events that were missed, with its number."""

    number: int
    at: float
    event: Event | None
    gap: str = ""


class EventTail:
    """The latest events of a store. Belongs to the event loop of its site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._number = 0
        self._watching: asyncio.Task[None] | None = None
        self._asked_at = 0.0
        self._stopped_at: float | None = None
        self.problem = ""
        """Why the store cannot be watched, as a sentence; empty if it can."""

        self.since: float | None = None
        """When watching began, by the clock of this machine; None if the store is not watched."""

    def look(self) -> Iterable[Entry]:
        """The events that are kept, the oldest first. The store is watched from now on until no caller has looked for some seconds."""
        self._asked_at = time.monotonic()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="tenure-tail")
        return tuple(self._entries)

    def aclose(self) -> None:
        """Stop watching."""
        if self._watching is not None:
            self._watching.cancel()

    @property
    def _wanted(self) -> bool:
        return time.monotonic() - self._asked_at < LOOKED_AT

    async def _watch(self) -> None:
        try:
            while self._wanted:
                reading = asyncio.create_task(self._read(), name="tenure-tail-reader")
                try:
                    while self._wanted and not reading.done():
                        await asyncio.wait([reading], timeout=1.0)
                finally:
                    reading.cancel()
                    await asyncio.wait([reading])
                    self._stopped_at, self.since = time.time(), None
                if not reading.cancelled() and (error := reading.exception()) is not None:
                    self._failed(error)
                    await asyncio.sleep(AGAIN)
        finally:
            self.problem = ""

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, StoreError):
            log.error("the store cannot be watched; trying again", exc_info=error)
        self.problem = str(error) or type(error).__name__

    async def _read(self) -> None:
        audience = self._site.app.internals.audience
        watch = Watch(
            lambda: self._site.store,
            lambda: audience.set_watched(watched=True),
            queue=None, task=None, job=None, run=None, kinds=(),
        )  # fmt: skip
        async with watch as events:
            self.since, self.problem = time.time(), ""
            if self._stopped_at is not None and self._entries:
                self._add(
                    None,
                    f"events of {self.since - self._stopped_at:.0f} s are missing, in which the store was not watched",
                )
            async for event in events:
                self._add(event)

    def _add(self, event: Event | None, gap: str = "") -> None:
        self._number += 1
        self._entries.append(Entry(self._number, time.time() if event is None else event.at, event, gap))
