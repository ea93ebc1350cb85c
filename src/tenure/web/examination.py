"""`Examinations` examines the store for all viewers, at most once a minute; `Examination` is what it found."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from tenure.jobs.schedules import schedule_facts
from tenure.stores.values import Fact, Layout

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["Examination", "Examinations"]

EVERY = 60.0
"""Seconds between two examinations, at least."""

TRIPS = 3
"""Round trips that are measured; the shortest counts."""


class Examination(msgspec.Struct, frozen=True):
    """What was found out about the store."""

    at: float
    """Seconds since the epoch, by the clock of this machine."""

    facts: tuple[Fact, ...]
    layout: Layout
    round_trip: float
    """Seconds from a question to the answer of the store."""


class Examinations:
    """Examines the store when asked, and keeps the answer for a minute."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = asyncio.Lock()
        self._latest: Examination | None = None
        self._until = 0.0

    async def latest(self) -> Examination:
        """The latest examination, which is a minute old at most. `StoreError` if the store does not answer."""
        async with self._lock:
            if self._latest is None or time.monotonic() >= self._until:
                self._latest = await self._site.read(self._examine())
                self._until = time.monotonic() + EVERY
            return self._latest

    async def _examine(self) -> Examination:
        store = self._site.store
        facts = [*await store.examine(), *await schedule_facts(self._site.app, store)]
        trips = []
        for _ in range(TRIPS):
            began = time.perf_counter()
            layout = await store.layout()
            trips.append(time.perf_counter() - began)
        return Examination(time.time(), tuple(facts), layout, min(trips))
