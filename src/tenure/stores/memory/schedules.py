"""Schedules: reads, writes and fires them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from tenure.core.job import BlockerPolicy, NewJob
from tenure.core.schedule import (
    HISTORY_LENGTH,
    Firing,
    Overlap,
    SchedulePage,
    SchedulePut,
    ScheduleRecord,
    ScheduleSearch,
    TickEnd,
    TickRecord,
)
from tenure.stores.memory import operating
from tenure.stores.memory.data import Data
from tenure.stores.memory.enqueueing import enqueue

__all__ = ["confirm", "fire", "put", "search"]


def search(data: Data, wanted: ScheduleSearch) -> SchedulePage:
    """The schedules of a search."""
    known, now = data.schedules, data.clock.wall()
    if wanted.names is not None:
        return SchedulePage([known[name] for name in wanted.names if name in known], now)
    if not wanted.due:
        after = sorted(name for name in known if name > wanted.after)
        return SchedulePage([known[name] for name in after[: wanted.limit]], now)
    active = sorted((each.next, name) for name, each in known.items() if each.active and each.next is not None)
    due = (known[name] for next_, name in active if next_ <= now)
    found = list(islice(due, wanted.skip, wanted.skip + wanted.limit))
    return SchedulePage(found, now, active[0][0] - now if active else None)


def put(data: Data, puts: Sequence[SchedulePut]) -> list[bool]:
    """Write each schedule that has the version which its put names."""
    return [_put(data, each) for each in puts]


def _put(data: Data, put: SchedulePut) -> bool:
    known = data.schedules.get(put.name)
    if (0 if known is None else known.version) != put.if_version:
        return False
    if put.settings is None:
        data.schedules.pop(put.name, None)
        return True
    now = data.clock.wall()
    if known is None:
        known = ScheduleRecord(name=put.name, settings="", version=0, seen_at=now)
    data.schedules[put.name] = replace(
        known,
        settings=put.settings,
        version=known.version + 1,
        next=put.next,
        active=put.active,
        seen_at=now if put.seen else known.seen_at,
    )
    return True


def confirm(data: Data, names: Sequence[str]) -> list[bool]:
    """Set `seen_at` of these schedules to now."""
    for name in names:
        if name in data.schedules:
            data.schedules[name] = replace(data.schedules[name], seen_at=data.clock.wall())
    return [name in data.schedules for name in names]


def fire(data: Data, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
    """Carry out each firing that was computed from the current version of its schedule."""
    return [_fire(data, firing) for firing in firings]


def _fire(data: Data, firing: Firing) -> tuple[TickRecord, ...] | None:
    schedule = data.schedules.get(firing.name)
    if schedule is None or schedule.version != firing.version:
        return None
    now, last = data.clock.wall(), schedule.last
    fired: list[TickRecord] = []
    for tick, job in firing.jobs:
        entry = _fire_tick(data, firing, tick, job, last)
        last = entry.job_id if entry.enqueued else last
        fired.append(replace(entry, at=now))
    entries = (*schedule.history, *(replace(entry, at=now) for entry in firing.entries), *fired)
    data.schedules[firing.name] = replace(
        schedule,
        version=schedule.version + 1,
        next=firing.next,
        tick=firing.tick,
        last=last,
        history=entries[-HISTORY_LENGTH:],
    )
    return tuple(fired)


def _fire_tick(data: Data, firing: Firing, tick: float, job: NewJob, last: str | None) -> TickRecord:
    """Enqueue the job of a tick, or not, by the state of the last job. If that is a run, its current step counts."""
    previous = None if last is None else data.resolve(last)
    replaced = None
    if last is not None and previous is not None and not previous.state.final:
        not_begun = previous.new.id == last and previous.fence == 0
        if firing.overlap is Overlap.SKIP or (firing.overlap is Overlap.WAIT and not_begun):
            return TickRecord(tick, TickEnd.SKIPPED, job_id=last)
        if firing.overlap is Overlap.WAIT:
            job = replace(job, after=(last,), if_blocker_fails=BlockerPolicy.PROCEED)
        if firing.overlap is Overlap.REPLACE:
            replaced = previous.new.id
            operating.cancel(data, [replaced])
    [answer] = enqueue(data, [job])
    end = TickEnd.DUPLICATE if answer.duplicate else firing.end
    return TickRecord(tick, end, job_id=answer.id, replaced=replaced)
