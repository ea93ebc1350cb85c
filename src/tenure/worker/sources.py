"""`Source`: brings entries of another system to a worker as jobs, and reports there what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from tenure.core.lifecycle import Transition
from tenure.stores.base import Store
from tenure.worker.attempt import Attempt

if TYPE_CHECKING:
    from tenure.worker.chores import Chore

__all__ = ["Host", "Room", "Source", "Sources"]

log = logging.getLogger("tenure.worker")


class Room:
    """The number of jobs that a worker could start at once and its own store did not have.

    A source fetches no more than this, so what waits in the other system stays there for the workers of that system. Each offer is
    claimed once, and answers a lease that the worker asked for after the claim, so jobs that a source has just stored are counted.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` makes the worker lease."""
        self._wake = wake
        self._room = 0
        self._claims = 0
        self._claimed_at = math.inf
        self._offered = asyncio.Event()

    @property
    def claimed(self) -> bool:
        """Whether a source waits for an offer."""
        return self._claims > 0

    def offer(self, room: int, requested_at: float) -> None:
        """Replace the number after a lease, which was asked for at this time by the monotonic clock."""
        if room <= 0:
            self.withdraw()
        elif requested_at > self._claimed_at:
            self._room = room
            self._offered.set()

    def withdraw(self) -> None:
        """Offer nothing until the next lease."""
        self._room = 0
        self._offered.clear()

    async def claim(self) -> int:
        """Make the worker lease, and wait until a lease brings fewer jobs than it asked for. Returns the number of free slots."""
        self.withdraw()
        self._claimed_at = monotonic()
        self._claims += 1
        self._wake()
        try:
            while not self._room:
                await self._offered.wait()
        finally:
            self._claims -= 1
        room = self._room
        self.withdraw()
        return room


@dataclass(frozen=True)
class Host:
    """What a worker lends to its sources."""

    store: Store
    """The store of the worker's own loop."""

    stem: str
    """The worker's name in the log."""

    room: Room
    worker_id: Callable[[], str | None]
    """The worker's id in the registry; None while it is not registered. Then a source must take nothing."""

    held: Callable[[], frozenset[str]]
    """Ids of the jobs that the worker holds."""

    wake: Callable[[], None]
    """Make the worker lease now, because there are new jobs in its store."""

    slots: int
    """Jobs that the worker runs at a time. A source hears of each start with the number of its slot, from 1."""


class Source(ABC):
    """Where a worker looks for work when its own store has too little. `tenure.bridges` has those that exist.

    All methods but `renew` and `close_renewing` are called on the worker's event loop. `began` and `ended` must not wait. What a source
    raises is logged, and neither ends the worker nor concerns its other sources.
    """

    @abstractmethod
    def attach(self, host: Host) -> None:
        """Belong to this worker, which has not started yet. Called once, before all other methods."""

    @abstractmethod
    def chores(self) -> Mapping[str, Chore]:
        """What to do again and again while the worker runs, each under a name for the log. Errors are logged and retried."""

    @abstractmethod
    def began(self, attempt: Attempt, slot: int) -> None:
        """A slot starts this job. Called for every attempt of the worker, also those of no source."""

    @abstractmethod
    def ended(self, attempt: Attempt, transition: Transition) -> None:
        """The store has settled this attempt. Called once for every attempt of the worker that still held its lease.

        Also for those that never began, because they were released before. Not for those that lost their lease, as cancelled ones do.
        """

    @abstractmethod
    async def renew(self) -> float:
        """Tell the other system that the entries are still held. Returns the seconds until the next time.

        Called on the thread and event loop of the worker's keeper, so that no job can delay it.
        """

    @property
    @abstractmethod
    def empty(self) -> bool:
        """Whether the last look found no entry, and the end of every job has been written."""

    @abstractmethod
    async def close(self) -> None:
        """Write the ends that are left, return what did not start, and disconnect. Called when no job runs any more."""

    @abstractmethod
    async def close_renewing(self) -> None:
        """Close the connection of `renew`, on the keeper's event loop. Called last."""


class Sources:
    """The sources of one worker, called together. What one of them raises is logged; the others are called all the same."""

    def __init__(self, sources: Sequence[Source], stem: str) -> None:
        """`stem` is the worker's name in the log."""
        self._sources = sources
        self._stem = stem

    def __iter__(self) -> Iterator[Source]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def chores(self) -> dict[str, Chore]:
        """The chores of all sources. Those of two sources of one kind have the same names, so the later ones get a number."""
        named: dict[str, Chore] = {}
        for number, source in enumerate(self._sources, 1):
            for name, chore in source.chores().items():
                named[name if name not in named else f"{name} {number}"] = chore
        return named

    def began(self, attempt: Attempt, slot: int) -> None:
        """Tell all sources that a slot starts this job."""
        for source in self._sources:
            with self._surviving(source):
                source.began(attempt, slot)

    def ended(self, attempt: Attempt, transition: Transition) -> None:
        """Tell all sources that the store has settled this attempt."""
        for source in self._sources:
            with self._surviving(source):
                source.ended(attempt, transition)

    @property
    def empty(self) -> bool:
        """Whether all sources are empty."""
        for source in self._sources:
            with self._surviving(source):
                if source.empty:
                    continue
            return False
        return True

    async def close(self) -> None:
        """Close all sources."""
        for source in self._sources:
            with self._surviving(source):
                await source.close()

    async def close_renewing(self) -> None:
        """Close the connections of `renew`."""
        for source in self._sources:
            with self._surviving(source):
                await source.close_renewing()

    @contextlib.contextmanager
    def _surviving(self, source: Source) -> Iterator[None]:
        try:
            yield
        except Exception:
            log.exception("worker %s: an error in %r; another worker will recover what it leaves", self._stem, source)
