"""`SnapshotReader`: reads what `tenure top` and the dashboard show, one call after the other, at most two a second."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tenure.core.job import State
from tenure.core.measures import HistoryRow
from tenure.core.schedule import SchedulePage
from tenure.errors import StoreError
from tenure.jobs.attention import QUEUES, SLOW_AFTER, Attention, attention, read_schedules, recent_queues, recent_tasks
from tenure.jobs.snapshot import ENDS, HOUR, Snapshot, measures_of
from tenure.stores import masked
from tenure.stores.base import Store
from tenure.stores.values import Fact, QueueInfo, Search

__all__ = ["Looking", "SnapshotReader"]

PAUSE = 0.5
"""Seconds between two calls, at least."""

DUTY = 20
"""A call that took t seconds is followed by a pause of at least this many times t."""

AGAIN = 1.0
"""Seconds after which a store that has failed is asked again."""

SILENT = 3.0
"""Seconds without an answer after which the screen says so."""

RATE_OVER = 12.0
"""Seconds over which the rate of a queue is measured."""

RUNNING, FAILED, JOBS = 20, 10, 100
"""Jobs that are read for each list."""

INTERVALS = {
    "queues": 1.0,
    "jobs": 2.0,
    "workers": 3.0,
    "running": 3.0,
    "failed": 5.0,
    "schedules": 15.0,
    "history": 10.0,
    "tasks": 15.0,
    "facts": 300.0,
}
"""Seconds after which each topic is read again, if the calls before it leave time for that. Each is one call.

They are first read in this order.
"""

LISTS = frozenset({"running", "failed", "jobs"})
"""Topics that are read only while they are shown."""


class Looking(NamedTuple):
    """Which lists are on the screen."""

    lists: frozenset[str] = frozenset()
    """Those of `LISTS` that are shown."""

    queue: str = ""
    """The queue whose jobs are listed, and their state."""

    state: State = State.WAITING


class SnapshotReader:
    """Reads topics in turn, the one that is most overdue first, and keeps what it has read in `snapshot`."""

    def __init__(self, store: Store, url: str, *, pause: float = PAUSE, slow_after: float = SLOW_AFTER) -> None:
        """A reader of this store, with at least `pause` seconds between two calls.

        `url` is shown, without its password. `slow_after`: see `attention`.
        """
        self._store = store
        self._pause = pause
        self._slow_after = slow_after
        self._read_at: dict[str, float] = {}
        self._totals: deque[tuple[float, dict[str, int]]] = deque()
        self._history: list[HistoryRow] = []
        self._tasks: list[HistoryRow] = []
        self._schedules = SchedulePage([], time.time())
        self._facts: list[Fact] = []
        self._ahead = 0.0
        """Seconds that the clock of the store is ahead of the clock of this machine."""

        self._asked_at: float | None = None
        self._failure = ""
        self._failed_at = 0.0
        self._snapshot = Snapshot(store=masked(url))
        self.looking = Looking()

    @property
    def snapshot(self) -> Snapshot:
        """What was read last, as of now."""
        return replace(self._snapshot, at=time.time(), now=self._now, problem=self._problem())

    @property
    def failure(self) -> str:
        """Why the store cannot be read; empty if it can."""
        return self._failure or self._problem()

    def _problem(self) -> str:
        if self._failure:
            return f"no answer from the store for {time.monotonic() - self._failed_at:.0f} s, trying again: {self._failure}"
        if self._asked_at is not None and (silent := time.monotonic() - self._asked_at) > SILENT:
            return f"no answer from the store for {silent:.0f} s"
        return ""

    def look(self, looking: Looking) -> None:
        """Read these lists from now on."""
        if looking != self.looking:
            for topic in LISTS if looking[1:] != self.looking[1:] else looking.lists - self.looking.lists:
                self._read_at.pop(topic, None)
            self._snapshot = replace(self._snapshot, jobs=None)
            self.looking = looking

    def read_soon(self) -> None:
        """Read queues and lists next, because they were changed."""
        for topic in ("queues", *LISTS):
            self._read_at.pop(topic, None)

    async def read_all(self) -> Snapshot:
        """Read every topic once, without pauses. Raises `StoreError` if the store does not answer."""
        # The time of the store comes with the schedules, and the history is read by it.
        for topic in ("schedules", *(each for each in self._topics() if each != "schedules")):
            await self._read(topic)
        return self.snapshot

    async def read(self, *topics: str) -> None:
        """Read these topics now, because they were changed."""
        for topic in topics:
            await self._read(topic)

    async def run(self, changed: Callable[[str], None]) -> None:
        """Read for ever. Calls `changed` with each topic that was read, and with "" when the store fails."""
        while True:
            began = time.monotonic()
            topic = self._next(began)
            if topic is not None:
                self._asked_at = began
                try:
                    await self._read(topic)
                except StoreError as error:
                    self._failed_at = self._failed_at if self._failure else began
                    self._failure = str(error) or type(error).__name__
                    changed("")
                    await asyncio.sleep(AGAIN)
                    continue
                finally:
                    self._asked_at = None
                changed(topic)
            await asyncio.sleep(max(self._pause, DUTY * (time.monotonic() - began) if topic else 0.0))

    def _topics(self) -> Iterator[str]:
        return (topic for topic in INTERVALS if topic not in LISTS or topic in self.looking.lists)

    def _next(self, now: float) -> str | None:
        """The topic that is most overdue, in its intervals; None if none is."""

        def overdue(topic: str) -> float:
            return (now - self._read_at.get(topic, float("-inf"))) / INTERVALS[topic]

        most = max(self._topics(), key=overdue)
        # A little early counts, because otherwise what is due every second would be read every one and a half.
        return most if overdue(most) >= 0.9 else None

    async def _read(self, topic: str) -> None:
        read: Callable[[], Awaitable[None]] = getattr(self, f"_read_{topic}")
        await read()
        self._failure = ""
        self._read_at[topic] = time.monotonic()
        if {"queues", "workers"} <= self._read_at.keys():
            self._snapshot = replace(self._snapshot, attention=self._attention())

    def _attention(self) -> tuple[Attention, ...]:
        return tuple(
            attention(
                now=self._now,
                queues=self._snapshot.queues,
                workers=self._snapshot.workers,
                history=self._history,
                tasks=self._tasks,
                schedules=self._schedules.schedules,
                facts=self._facts,
                slow_after=self._slow_after,
            )
        )

    @property
    def _now(self) -> float:
        return time.time() + self._ahead

    # One call each.

    async def _read_queues(self) -> None:
        found = await self._store.queues(limit=QUEUES + 1)
        rates = self._rates(found)
        self._snapshot = replace(self._snapshot, queues=tuple(found[:QUEUES]), more=len(found) > QUEUES, rates=rates)

    def _rates(self, queues: list[QueueInfo]) -> dict[str, float] | None:
        """Jobs that became final a second, since the oldest reading that is young enough; None at the first reading."""
        now = time.monotonic()
        ended = {queue.name: sum(getattr(queue.totals, total) for total in ENDS) for queue in queues}
        while len(self._totals) > 1 and now - self._totals[1][0] >= RATE_OVER:
            self._totals.popleft()
        self._totals.append((now, ended))
        at, before = self._totals[0]
        if now - at < PAUSE:
            return None
        return {name: max(number - before.get(name, number), 0) / (now - at) for name, number in ended.items()}

    async def _read_workers(self) -> None:
        if self._snapshot.layout is None:
            self._snapshot = replace(self._snapshot, layout=(await self._store.layout()).found)
        self._snapshot = replace(self._snapshot, workers=tuple(await self._store.workers()))

    async def _read_history(self) -> None:
        self._history = await self._store.history(recent_queues(self._now, HOUR))
        self._snapshot = replace(self._snapshot, measures=measures_of(self._history, self._now))

    async def _read_tasks(self) -> None:
        self._tasks = await self._store.history(recent_tasks(self._now))

    async def _read_schedules(self) -> None:
        self._schedules = await read_schedules(self._store)
        self._ahead = self._schedules.now - time.time()

    async def _read_facts(self) -> None:
        self._facts = await self._store.examine()

    async def _read_running(self) -> None:
        page = await self._store.search(Search(state=State.RUNNING, limit=RUNNING))
        self._snapshot = replace(self._snapshot, running=tuple(page.jobs), running_at=self._now)

    async def _read_failed(self) -> None:
        page = await self._store.search(Search(state=State.FAILED, limit=FAILED))
        self._snapshot = replace(self._snapshot, failed=tuple(page.jobs))

    async def _read_jobs(self) -> None:
        looking = self.looking
        page = await self._store.search(Search(state=looking.state, queue=looking.queue, limit=JOBS))
        if looking == self.looking:
            self._snapshot = replace(self._snapshot, jobs=tuple(page.jobs))
