"""`Schedule`, the handle on one schedule, and how schedules are found, listed and created."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from itertools import islice, takewhile
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, Unpack

from msgspec.structs import replace

from tenure.core.checks import instant, integer
from tenure.core.checks import name as checked_name
from tenure.core.firing import LAPSED_AFTER, backfilling, creation, job_at, lapsed, preview, triggering, update
from tenure.core.job import NewJob, new_id
from tenure.core.keywords import ScheduleKeywords
from tenure.core.options import check_names
from tenure.core.schedule import (
    NO_CHANGES,
    CatchUp,
    Firing,
    Overlap,
    Plan,
    SchedulePage,
    SchedulePut,
    ScheduleRecord,
    ScheduleSearch,
    Settings,
    TickEnd,
    TickRecord,
    settings_of,
)
from tenure.core.ticks import LAST, ticks
from tenure.core.when import When, words
from tenure.errors import InvalidOption, InvalidSchedule, ScheduleNotFound
from tenure.jobs.fire import fire
from tenure.jobs.plans import check_times, checked_options, checked_when, job_of
from tenure.stores.base import BATCH, Store
from tenure.stores.values import Fact, Health
from tenure.sync import blocking

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.tasks.flow import Start
    from tenure.tasks.task import Call

__all__ = [
    "PastTick",
    "Schedule",
    "UpcomingTick",
    "all_schedules",
    "create_schedule",
    "find_schedule",
    "history_states",
    "schedule_facts",
]

T = TypeVar("T")

NAMED = 10
"""The most schedules that a fact names."""

TRIES = 20
"""How often a change is tried again because a worker, or another operator, has written the schedule meanwhile."""

PAGE = 200
"""Schedules that are read at a time."""

FIRST = datetime(1, 1, 2, tzinfo=UTC).timestamp()
"""Earlier instants are shown as this one, and those later than `LAST` as that."""

log = logging.getLogger("tenure")


class UpcomingTick(NamedTuple):
    """A tick to come."""

    tick: datetime
    due_at: datetime
    """When its job is due: at the tick, or later by the schedule's jitter."""


class PastTick(NamedTuple):
    """A tick that was decided."""

    tick: datetime
    end: TickEnd
    """What became of it."""

    at: datetime
    """When it was decided."""

    job_id: str | None
    """The job that was enqueued; of a skipped tick, the job that was in the way; of a duplicate, the owner of the key."""

    replaced: str | None
    """The job that was cancelled for it."""

    until: datetime | None
    """Of missed ticks: no tick from `tick` until before this was fired."""

    @property
    def enqueued(self) -> bool:
        """Whether a job was enqueued for it."""
        return self.end in {TickEnd.ENQUEUED, TickEnd.TRIGGERED, TickEnd.BACKFILLED}


class Schedule:
    """A handle on one schedule: what was last read of it, and what can be done to it.

    ```python
    plan = app.get_schedule("acme-sync")
    plan.next_at, plan.history  # no I/O: what was last read
    plan.preview(5)  # its next five ticks
    plan.pause()
    plan.change(Every(60))
    ```

    Every method that reaches the store has an async twin whose name begins with `a`. If the schedule is gone, it raises
    `ScheduleNotFound`.
    """

    def __init__(self, app: App, record: ScheduleRecord) -> None:
        self._app = app
        self._update(record)

    def _update(self, record: ScheduleRecord) -> None:
        self._record = record
        self._decoded: Settings | None = None

    @property
    def _settings(self) -> Settings:
        """What users have said about it. `InvalidSchedule` if that cannot be read here; see `unreadable`."""
        if self._decoded is None:
            self._decoded = settings_of(self._record)
        return self._decoded

    @property
    def _plan(self) -> Plan:
        return self._settings.effective

    def __repr__(self) -> str:
        return f"<Schedule {self.name} {self.state}>"

    # What was last read.

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def unreadable(self) -> str | None:
        """Why this program cannot read it, such as that a newer Tenure has written it; None if it can.

        One that is unreadable can be listed and deleted. Most other properties and methods raise `InvalidSchedule`.
        """
        try:
            self._settings  # noqa: B018  (decodes it)
        except InvalidSchedule as error:
            return str(error)
        return None

    @property
    def when(self) -> When:
        return self._plan.when

    @property
    def words(self) -> str:
        """When it fires, as a sentence."""
        return words(self._plan.when)

    @property
    def task(self) -> str:
        """Name of the task that it enqueues; of a flow, of its first step."""
        return self._plan.job.task

    @property
    def queue(self) -> str:
        return self._plan.job.queue

    @property
    def flow(self) -> str | None:
        """Name of the flow that it starts; None if it enqueues a task."""
        step = self._plan.job.step
        return None if step is None else step.flow

    @property
    def overlap(self) -> Overlap:
        return self._plan.overlap

    @property
    def catch_up(self) -> CatchUp:
        return self._plan.catch_up

    @property
    def jitter(self) -> float:
        """Seconds after its tick by which a job is due at the latest."""
        return self._plan.jitter

    @property
    def starts(self) -> datetime | None:
        return _time(self._plan.starts)

    @property
    def ends(self) -> datetime | None:
        return _time(self._plan.ends)

    @property
    def state(self) -> str:
        """`active`; `paused`; `done`, if it has no further tick; `lapsed`, if its code is gone; or `unreadable`."""
        if self.unreadable is not None:
            return "unreadable"
        if self._settings.paused:
            return "paused"
        if self._record.next is None:
            return "done"
        return "lapsed" if lapsed(self._record, self._settings) else "active"

    @property
    def paused(self) -> bool:
        return self._settings.paused

    @property
    def declared(self) -> bool:
        """Whether it is declared in code, and not created at run time."""
        return self._settings.declared

    @property
    def changed(self) -> list[str]:
        """Names of what was changed at run time of a schedule that is declared in code."""
        return self._settings.changes.names

    @property
    def next_at(self) -> datetime | None:
        """Its next tick; None while it is paused or lapsed, and once it is done."""
        return _time(self._record.next) if self._record.active else None

    @property
    def last_job_id(self) -> str | None:
        """Id of the last job, or run, that it enqueued."""
        return self._record.last

    @property
    def confirmed_at(self) -> datetime:
        """When it was created, or a worker last confirmed that its code declares it."""
        return _instant(self._record.seen_at)

    @property
    def history(self) -> list[PastTick]:
        """Its latest 20 ticks, oldest first."""
        return [_past_tick(entry) for entry in self._record.history]

    def preview(self, count: int = 10, *, after: datetime | None = None) -> list[UpcomingTick]:
        """The next `count` ticks after an instant, by default now. Needs no I/O, and tells of a paused one too."""
        return preview_of(self.name, self._plan, count, after)

    # What can be done.

    async def arefresh(self) -> Self:
        """Read it again."""
        await self._read()
        return self

    async def apause(self) -> bool:
        """Fire no more ticks until `resume`. It outlives deploys. False if it was paused already."""
        return await self._change(lambda settings: replace(settings, paused=True))

    async def aresume(self) -> bool:
        """Fire again, from the next tick on; those of the pause are not made up for. False if it was not paused."""
        return await self._change(lambda settings: replace(settings, paused=False))

    async def achange(
        self, when: When | None = None, *, call: Call[Any] | Start | None = None, **options: Unpack[ScheduleKeywords]
    ) -> bool:
        """Change when it fires, what it enqueues, or its options. False if that is how it was.

        Another `when`, `starts` or `ends` starts from now; anything else keeps the next tick. Of a schedule that is declared
        in code, this wins over the declaration, and outlives deploys, until `clear`.
        """
        check_names(f"schedule {self.name!r}", "schedule", options)
        fields: dict[str, Any] = checked_options(options)
        if when is not None:
            fields["when"] = checked_when(when)
        if call is not None:
            fields["job"] = job_of(call)

        def changed(settings: Settings) -> Settings:
            after = (
                replace(settings, changes=replace(settings.changes, **fields))
                if settings.declared
                else replace(settings, plan=replace(settings.plan, **fields))
            )
            check_times(after.effective)
            return after

        return await self._change(changed)

    async def aclear(self) -> bool:
        """Drop what was changed at run time: the declaration in code holds again. False if nothing was changed."""
        return await self._change(lambda settings: replace(settings, changes=NO_CHANGES))

    async def atrigger(self) -> PastTick:
        """Fire now, outside of its ticks, also if it is paused. Overlap decides as at a tick; the answer says what happened."""

        async def attempt(page: SchedulePage) -> tuple[TickRecord, ...] | None:
            return await self._fire(triggering(self._record, self._settings, page.now, new_id()), page.now)

        [entry] = await self._until_written(attempt)
        await self._run_inline()
        return _past_tick(entry)

    async def abackfill(self, since: datetime, until: datetime) -> list[PastTick]:
        """Enqueue the ticks from `since` to `until`, both included, that were not fired; whatever the overlap.

        Ticks whose jobs are still recorded, or in the history, are left out. The last one counts as the last job of the
        schedule. `InvalidOption` if `until` is in the future or there are more than 1,000 ticks.
        """
        first, last = instant(since, "since"), instant(until, "until")

        async def attempt(page: SchedulePage) -> tuple[TickRecord, ...] | None:
            jobs = await self._unfired(first, last, page.now)
            return await self._fire(backfilling(self._record, jobs), page.now) if jobs else ()

        entries = await self._until_written(attempt)
        await self._run_inline()
        return [_past_tick(entry) for entry in sorted(entries, key=lambda entry: entry.tick)]

    async def adelete(self) -> None:
        """Delete it; its jobs stay. `InvalidSchedule` if code declares it: remove it there, or pause it.

        Code declares it if a worker has confirmed that within the last hour.
        """

        async def attempt(page: SchedulePage) -> bool | None:
            self._check_deletable(page.now)
            return await self._put(SchedulePut(name=self.name, if_version=self._record.version)) or None

        await self._until_written(attempt)

    refresh = blocking(arefresh)
    pause = blocking(apause)
    resume = blocking(aresume)
    change = blocking(achange)
    clear = blocking(aclear)
    trigger = blocking(atrigger)
    backfill = blocking(abackfill)
    delete = blocking(adelete)

    # Reading and writing.

    @property
    def _store(self) -> Store:
        return self._app.internals.session.store

    async def _read(self) -> SchedulePage:
        page = await self._store.schedules(ScheduleSearch(names=(self.name,)))
        if not page.schedules:
            raise ScheduleNotFound(self.name)
        self._update(page.schedules[0])
        return page

    async def _put(self, put: SchedulePut) -> bool:
        [done] = await self._store.put_schedules([put])
        return done

    async def _fire(self, firing: Firing, now: float) -> tuple[TickRecord, ...] | None:
        [fired] = await fire(self._app, self._store, [firing])
        # Those that a hook has refused were not in the store's answer, which sets the time.
        return None if fired is None else tuple(replace(entry, at=entry.at or now) for entry in fired)

    async def _run_inline(self) -> None:
        if self._app.internals.inlines:
            await self._app.internals.inlines[-1].run_pending([])

    async def _change(self, change: Callable[[Settings], Settings]) -> bool:
        """Write other settings. Returns whether they differ from those that were stored."""

        async def attempt(page: SchedulePage) -> bool | None:
            before, after = self._settings, change(self._settings)
            if before == after:
                return False
            put = update(self._record, before, after, page.now)
            if put.next is None and put.active:
                raise InvalidSchedule(
                    f"schedule {self.name!r} would have no tick from now on: {words(after.effective.when)}"
                )
            return await self._put(put) or None

        changed = await self._until_written(attempt)
        if changed:
            await self._read()
        return changed

    async def _until_written(self, attempt: Callable[[SchedulePage], Awaitable[T | None]]) -> T:
        """Read the schedule and try to write it, until no other writer has come between. `attempt` returns None if one has."""
        for _ in range(TRIES):
            written = await attempt(await self._read())
            if written is not None:
                return written
        raise InvalidSchedule(f"schedule {self.name!r} is changed all the time by others: try again")

    def _check_deletable(self, now: float) -> None:
        """Raise `InvalidSchedule` if code declares it."""
        if self.unreadable is not None or not self.declared or self.state == "lapsed":
            return
        # A paused one never lapses, and none lapses while no worker runs.
        if now - self._record.seen_at <= LAPSED_AFTER:
            raise InvalidSchedule(
                f"schedule {self.name!r} is declared in code, so the next worker would create it again: remove it there, "
                "or pause it"
            )

    async def _unfired(self, since: float, until: float, now: float) -> list[tuple[float, NewJob]]:
        """The ticks of a range that were not fired, with their jobs. Those that are yet to be fired are left out."""
        if until > now:
            raise InvalidOption("until is in the future: a backfill is about the past")
        plan, record = self._plan, self._record
        if record.active and record.next is not None:
            until = min(until, nextafter(record.next, -inf))
        found = ticks(plan.when, nextafter(since, -inf), starts=plan.starts, ends=plan.ends)
        wanted = list(islice(takewhile(lambda tick: tick <= until, found), BATCH + 1))
        if len(wanted) > BATCH:
            raise InvalidOption(f"that is more than {BATCH:,} ticks: backfill a shorter time")
        fired = {entry.tick for entry in record.history if entry.enqueued}
        jobs = [(tick, job_at(self.name, plan, tick)) for tick in wanted if tick not in fired]
        known = await self._store.get([job.id for _, job in jobs])
        return [each for each, job in zip(jobs, known, strict=True) if job is None]


def preview_of(name: str, plan: Plan, count: int, after: datetime | None) -> list[UpcomingTick]:
    """The next `count` ticks of a plan after an instant, by default now."""
    integer(1, BATCH)(count, "count")
    begin = datetime.now(UTC).timestamp() if after is None else instant(after, "after")
    return [UpcomingTick(_instant(tick), _instant(due_at)) for tick, due_at in preview(name, plan, begin, count)]


# Finding and creating schedules.


async def find_schedule(app: App, name: str) -> Schedule:
    """The schedule of this name. `ScheduleNotFound` if there is none."""
    search = ScheduleSearch(names=(checked_name("schedule", name),))
    store = app.internals.session.store
    page = await store.schedules(search)
    if page.schedules:
        return Schedule(app, page.schedules[0])
    listed = await store.schedules(ScheduleSearch(limit=BATCH))
    raise ScheduleNotFound(name, [each.name for each in listed.schedules])


async def all_schedules(store: Store) -> AsyncIterator[SchedulePage]:
    """All schedules by name, page by page."""
    after = ""
    while True:
        page = await store.schedules(ScheduleSearch(after=after, limit=PAGE))
        yield page
        if len(page.schedules) < PAGE:
            return
        after = page.schedules[-1].name


async def create_schedule(app: App, name: str, plan: Plan) -> Schedule:
    """Create a schedule, or find it as it was created before. `InvalidSchedule` if there is another one of this name."""
    search = ScheduleSearch(names=(checked_name("schedule", name),))
    store = app.internals.session.store
    page = await store.schedules(search)
    if not page.schedules:
        put = creation(name, plan, page.now)
        if put.next is None:
            raise InvalidSchedule(f"schedule {name!r} would have no tick from now on: {words(plan.when)}")
        await store.put_schedules([put])
        # Read it also if another process was faster: it may have created the same.
        page = await store.schedules(search)
        if not page.schedules:
            raise ScheduleNotFound(name)
    [found] = page.schedules
    settings = settings_of(found)
    if settings.declared or settings.plan != plan:
        raise InvalidSchedule(
            f"there is another schedule named {name!r} already: change it with get_schedule({name!r}).change(…) or "
            f"`tenure schedule change {name}`, or choose another name"
        )
    return Schedule(app, found)


# Times.


async def history_states(store: Store, schedule: Schedule) -> dict[str, str]:
    """The states of the jobs and runs in a schedule's history, by their ids; those that are gone are left out."""
    ids = [each.job_id for each in schedule.history if each.enqueued and each.job_id is not None]
    if schedule.flow is None:
        return {job.id: job.label for job in await store.get(ids) if job is not None}
    runs = [(run_id, await store.run(run_id)) for run_id in ids]
    return {run_id: run.step.label for run_id, run in runs if run is not None}


async def schedule_facts(app: App, store: Store) -> list[Fact]:
    """The facts about schedules: how many there are, which no worker declares any more, and which cannot be read here."""
    count, undeclared, unreadable = 0, [], []
    async for page in all_schedules(store):
        for found in (Schedule(app, record) for record in page.schedules):
            count += 1
            if found.unreadable is not None:
                unreadable.append(found.name)
            elif found.declared and found.state != "done":
                unseen = page.now - found.confirmed_at.timestamp()
                if found.state == "lapsed" or unseen > LAPSED_AFTER:
                    undeclared.append(found.name)
    facts = []
    if undeclared:
        facts.append(
            Fact(
                "schedules",
                f"no worker has confirmed for an hour that its code declares {_named(undeclared)}, so nothing fires them",
                Health.WARN,
                "Start a worker whose code declares them, or remove each with tenure schedule delete NAME.",
            )
        )
    if unreadable:
        facts.append(
            Fact(
                "schedules",
                f"this Tenure cannot read {_named(unreadable)}: a newer one may have written them",
                Health.WARN,
                "Update this program, or remove each with tenure schedule delete NAME.",
            )
        )
    return facts or ([Fact("schedules", f"{count:,}")] if count else [])


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _instant(seconds_: float) -> datetime:
    # A bound may have an offset that puts it outside of the calendar of UTC.
    return datetime.fromtimestamp(max(FIRST, min(seconds_, LAST)), UTC)


def _time(seconds_: float | None) -> datetime | None:
    return None if seconds_ is None else _instant(seconds_)


def _past_tick(entry: TickRecord) -> PastTick:
    return PastTick(
        _instant(entry.tick), entry.end, _instant(entry.at), entry.job_id, entry.replaced, _time(entry.until)
    )
