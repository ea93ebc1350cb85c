"""`Scheduler`: stores the schedules that the code declares, and fires those that are due."""

from __future__ import annotations

import heapq
import logging
import random
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from tenure.core.firing import clock_repair, creation, declaration, due_firing, lapsed, upkeep
from tenure.core.schedule import (
    Firing,
    Plan,
    SchedulePage,
    SchedulePut,
    ScheduleRecord,
    ScheduleSearch,
    Settings,
    settings_of,
)
from tenure.errors import InvalidSchedule
from tenure.jobs.fire import fire
from tenure.jobs.schedules import all_schedules
from tenure.stores.base import Store

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Scheduler"]

INTERVAL = 1.0
"""Seconds between two looks at what is due, at most. A schedule that was created elsewhere is noticed within this time."""

CHANCE = 0.008
"""Seconds by which workers come late to a tick, at most, at random: the first one fires, and the others need not try."""

PAGE = 100
"""Schedules that are read and fired at a time."""

SPREAD = 10
"""While more than a page is due, a worker fires one of this number of pages, at random, so that workers share the pages."""

CONFIRM_INTERVAL = 600.0
"""Seconds between confirmations that the code still declares its schedules."""

UPKEEP_INTERVAL = 3600.0
"""Seconds between two searches for schedules that have lapsed, by one of all workers."""

SET_BACK = 1.0
"""Seconds that the store's clock must have lost, compared with the worker's, to count as set back."""

TRIES = 5
"""How often declarations are compared with the store again because another worker has written a schedule meanwhile."""

log = logging.getLogger("tenure.worker")


class Scheduler:
    """The schedules of one worker. Every worker that reaps has one; none is special.

    A firing names the version of the schedule that it was computed from, and the store carries out one firing of each
    version. So several workers may compute the same tick, and one of them fires it.
    """

    def __init__(self, app: App, store: Store) -> None:
        self._app = app
        self._store = store
        self._skip = 0
        """Due schedules to leave out at the next look: those of other programs, or the pages before a random one."""

        self._limit = PAGE
        """Due schedules to read at the next look."""

        self._fired = False
        """Whether anything was fired since the last look from the first due schedule on."""

        self._upcoming: list[float] = []
        """A heap of the next ticks of what this worker has fired, which the store does not tell while others' are due."""

        self._unreadable: set[tuple[str, int]] = set()
        self._confirm_at = 0.0
        self._upkeep_at = 0.0
        self._clock: float | None = None
        """The store's time minus the worker's, at the last look; None before the first."""

    async def fire(self) -> float:
        """Fire one page of what is due. Returns the seconds until the next call; 0 if there may be more."""
        await self._look_after()
        page = await self._store.schedules(ScheduleSearch(due=True, limit=self._limit, skip=self._skip))
        if self._was_set_back(page.now):
            log.warning("the clock of the store was set back: schedules go on with their next tick from now")
            await self._survey(repair=True)
        firings = [firing for record in page.schedules if (firing := self._firing(record, page.now)) is not None]
        full = len(page.schedules) == self._limit
        if firings:
            await self._fire(firings)
        return self._pause(page, full, len(page.schedules) - len(firings))

    async def _fire(self, firings: Sequence[Firing]) -> None:
        """Fire these. If the store refuses them, the next calls fire fewer, at another place.

        So one schedule that cannot be fired holds up none but those beside it, and those not for long.
        """
        try:
            await fire(self._app, self._store, firings)
        except BaseException:
            self._limit, self._skip = max(self._limit // 10, 1), random.randrange(PAGE)  # noqa: S311
            raise
        self._limit, self._fired = min(self._limit * 10, PAGE), True
        for firing in firings:
            if firing.next is not None:
                heapq.heappush(self._upcoming, firing.next)

    def _pause(self, page: SchedulePage, full: bool, not_ours: int) -> float:
        """Decide where the next look begins, and return the seconds until then."""
        again = self._fired
        while self._upcoming and self._upcoming[0] <= page.now:
            heapq.heappop(self._upcoming)
        if full:
            self._skip = self._skip + not_ours if not_ours else PAGE * random.randrange(SPREAD)  # noqa: S311
            return 0.0
        if self._skip or again:
            self._skip, self._fired = 0, False
            if again:
                return 0.0
        due_in = page.due_in
        if due_in is None or due_in <= 0:  # those that are due are not ours
            due_in = self._upcoming[0] - page.now if self._upcoming else INTERVAL
        return min(due_in + CHANCE * random.random(), INTERVAL * random.uniform(0.9, 1.0))  # noqa: S311

    def _firing(self, record: ScheduleRecord, now: float) -> Firing | None:
        """The firing of a due schedule; None if other workers fire it, or if it cannot be read here."""
        settings = self._settings_of(record)
        if settings is None or (settings.declared and record.name not in self._declared):
            return None
        return due_firing(record, settings, now)

    def _settings_of(self, record: ScheduleRecord) -> Settings | None:
        """The settings of a schedule. If they cannot be read here, logs that once, and returns None."""
        try:
            return settings_of(record)
        except InvalidSchedule as error:
            if (record.name, record.version) not in self._unreadable:
                self._unreadable.add((record.name, record.version))
                log.warning("%s", error)
            return None

    def _was_set_back(self, now: float) -> bool:
        """Whether the store's clock was set back since the last look."""
        before, self._clock = self._clock, now - monotonic()
        return before is not None and self._clock < before - SET_BACK

    # Declarations and upkeep.

    @property
    def _declared(self) -> Mapping[str, Plan]:
        return self._app.internals.schedules

    async def _look_after(self) -> None:
        """Declare at the first call, confirm every ten minutes, and search for lapsed schedules every hour."""
        if not self._confirm_at:
            await self._declare(list(self._declared))
            await self._survey(repair=True)
            self._confirm_at = monotonic() + CONFIRM_INTERVAL * random.uniform(0.9, 1.0)  # noqa: S311
            self._upkeep_at = monotonic() + UPKEEP_INTERVAL * random.random()  # noqa: S311
        if monotonic() >= self._confirm_at:
            for names in _chunks(list(self._declared)):
                await self._store.confirm_schedules(names)
                page = await self._store.schedules(ScheduleSearch(names=tuple(names)))
                standing = {record.name for record in page.schedules if not self._has_lapsed(record)}
                await self._declare([name for name in names if name not in standing])
            self._confirm_at = monotonic() + CONFIRM_INTERVAL
        if monotonic() >= self._upkeep_at:
            if await self._store.claim_chore("schedules", UPKEEP_INTERVAL):
                await self._survey(repair=False)
            self._upkeep_at = monotonic() + UPKEEP_INTERVAL

    def _has_lapsed(self, record: ScheduleRecord) -> bool:
        settings = self._settings_of(record)
        return settings is not None and lapsed(record, settings)

    async def _declare(self, names: Sequence[str]) -> None:
        """Store what the code declares, unless it is stored already."""
        for _ in range(TRIES):
            missed: list[str] = []
            for some in _chunks(names):
                missed += await self._declare_some(some)
            names = missed
        if names:
            log.warning("schedule %s is changed all the time by others: its declaration is not stored", names[0])

    async def _declare_some(self, names: Sequence[str]) -> list[str]:
        """Store these declarations. Returns the names of those that another worker has written meanwhile."""
        page = await self._store.schedules(ScheduleSearch(names=tuple(names)))
        known = {record.name: record for record in page.schedules}
        puts: list[SchedulePut] = []
        standing: list[str] = []
        for name in names:
            put: SchedulePut | None
            try:
                put = (
                    declaration(known[name], self._declared[name], page.now)
                    if name in known
                    else creation(name, self._declared[name], page.now, declared=True)
                )
            except InvalidSchedule as error:
                log.warning("%s", error)
                continue
            if put is None:
                standing.append(name)
            else:
                puts.append(put)
        if standing:
            await self._store.confirm_schedules(standing)
        done = await self._store.put_schedules(puts) if puts else []
        return [put.name for put, written in zip(puts, done, strict=True) if not written]

    async def _survey(self, *, repair: bool) -> None:
        """Look at all schedules: let those lapse that no code declares any more. With `repair`, also mend their next ticks.

        What another worker has written meanwhile is left to it.
        """
        async for page in all_schedules(self._store):
            puts = [put for record in page.schedules if (put := self._mended(record, page.now, repair)) is not None]
            if puts:
                await self._store.put_schedules(puts)

    def _mended(self, record: ScheduleRecord, now: float, repair: bool) -> SchedulePut | None:
        settings = self._settings_of(record)
        if settings is None:
            return None
        return (clock_repair(record, settings, now) if repair else None) or upkeep(record, settings, now)


def _chunks(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[begin : begin + PAGE] for begin in range(0, len(names), PAGE)]
