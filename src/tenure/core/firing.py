"""Pure decisions about schedules: what a declaration, a change, a pause or the passing of time makes of one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tenure.core.job import NewJob
from tenure.core.origin import origin_tags
from tenure.core.schedule import (
    Firing,
    Overlap,
    Plan,
    SchedulePut,
    ScheduleRecord,
    Settings,
    TickEnd,
    TickRecord,
    settings_of,
)
from tenure.core.ticks import newest_ticks, ticks
from tenure.errors import InvalidSchedule

__all__ = [
    "LAPSED_AFTER",
    "LATE",
    "backfilling",
    "clock_repair",
    "creation",
    "declaration",
    "due_firing",
    "job_at",
    "lapsed",
    "preview",
    "triggering",
    "update",
    "upkeep",
    "with_jobs",
]

LATE = 60.0
"""Seconds after which a tick is not fired any more if `catch_up` is "none"."""

LAPSED_AFTER = 3600.0
"""Seconds after which a declaration lapses that no worker has confirmed."""

FORGOTTEN_AFTER = 30 * 86400.0
"""Seconds after which a schedule is deleted that has lapsed or is done."""


def lapsed(record: ScheduleRecord, settings: Settings) -> bool:
    """Whether a declared schedule is out of use because no worker declares it any more."""
    return settings.declared and not settings.paused and not record.active and record.next is not None


def creation(name: str, plan: Plan, now: float, *, declared: bool = False) -> SchedulePut:
    """Create a schedule, whose first tick is later than now."""
    settings = Settings(plan=plan, declared=declared)
    return SchedulePut(name=name, if_version=0, settings=settings.encoded(), next=plan.next_tick(now))


def declaration(record: ScheduleRecord, plan: Plan, now: float) -> SchedulePut | None:
    """What a declaration in code makes of the schedule that is stored; None: it stands as it is.

    What an operator has changed stays. Other times start from now; anything else keeps the next tick.
    Raises `InvalidSchedule` if the schedule was created at run time.
    """
    settings = settings_of(record)
    if not settings.declared:
        raise InvalidSchedule(
            f"schedule {record.name!r} is declared in code, and one of this name was created at run time: the declaration "
            f"has no effect. Give one of them another name, or run `tenure schedule delete {record.name}`"
        )
    if settings.plan == plan and not lapsed(record, settings):
        return None
    return update(record, settings, replace(settings, plan=plan), now, seen=True)


def update(record: ScheduleRecord, before: Settings, after: Settings, now: float, *, seen: bool = False) -> SchedulePut:
    """Give a schedule other settings. Other times, and the end of a pause, start from now; anything else keeps the next tick."""
    restart = before.effective.times != after.effective.times or (before.paused and not after.paused)
    next_ = after.effective.next_tick(now) if restart else record.next
    return SchedulePut(
        name=record.name,
        if_version=record.version,
        settings=after.encoded(),
        next=next_,
        active=not after.paused,
        seen=seen,
    )


def upkeep(record: ScheduleRecord, settings: Settings, now: float) -> SchedulePut | None:
    """What time makes of a schedule: it lapses, or is deleted long after it has lapsed or is done; None: it stays."""
    unseen = now - record.seen_at
    if settings.declared and record.active and record.next is not None and unseen > LAPSED_AFTER:
        return SchedulePut(
            name=record.name, if_version=record.version, settings=record.settings, next=record.next, active=False
        )
    since = max([record.seen_at, *(each.at for each in record.history)])
    over = lapsed(record, settings) or (record.next is None and not settings.paused)
    if over and min(unseen, now - since) > FORGOTTEN_AFTER:
        return SchedulePut(name=record.name, if_version=record.version)
    return None


def clock_repair(record: ScheduleRecord, settings: Settings, now: float) -> SchedulePut | None:
    """What becomes of a schedule whose next tick is too far away, because the clock was set back; None: it stays.

    It goes on with the next tick from now that it has not fired yet.
    """
    if not record.active or record.next is None:
        return None
    decided = {each.tick for each in record.history} | {record.tick}
    plan = settings.effective
    found = ticks(plan.when, now, starts=plan.starts, ends=plan.ends)
    upcoming = next((tick for tick in found if tick not in decided), None)
    if upcoming is None or upcoming >= record.next:
        return None
    return SchedulePut(name=record.name, if_version=record.version, settings=record.settings, next=upcoming)


def due_firing(record: ScheduleRecord, settings: Settings, now: float) -> Firing:
    """Fire the ticks of a schedule that are due, as its `catch_up` says. `record.next` must have come."""
    assert record.next is not None, "a schedule without a next tick is not due"
    plan = settings.effective
    count = 1 if isinstance(plan.catch_up, str) else plan.catch_up
    due = newest_ticks(plan.when, record.next, now, count, starts=plan.starts, ends=plan.ends)
    if plan.catch_up == "none":
        due = [tick for tick in due if now - tick <= LATE]
    # Ticks that were decided before the clock was set back are not decided again.
    decided = {each.tick for each in record.history if each.end is not TickEnd.MISSED}
    fresh = [tick for tick in due if tick not in decided]
    entries: tuple[TickRecord, ...] = ()
    if record.next not in due and record.next not in decided:
        entries = (TickRecord(record.next, TickEnd.MISSED, until=due[0] if due else now),)
    newest = max([record.next, *due])
    firing = Firing(
        name=record.name,
        version=record.version,
        entries=entries,
        tick=newest if record.tick is None or record.tick <= now else record.tick,
        next=plan.next_tick(max(newest, now)),
    )
    return with_jobs(firing, plan, [(tick, job_at(record.name, plan, tick)) for tick in fresh])


def with_jobs(firing: Firing, plan: Plan, jobs: Sequence[tuple[float, NewJob]]) -> Firing:
    """The same firing with these jobs, of which overlap allows one alone: the newest to replace, else the oldest."""
    if plan.overlap is Overlap.ALLOW or len(jobs) < 2:
        return replace(firing, jobs=tuple(jobs), overlap=plan.overlap)
    kept = jobs[-1] if plan.overlap is Overlap.REPLACE else jobs[0]
    others = (TickRecord(tick, TickEnd.SKIPPED) for tick, _ in jobs if tick != kept[0])
    return replace(firing, jobs=(kept,), overlap=plan.overlap, entries=(*firing.entries, *others))


def triggering(record: ScheduleRecord, settings: Settings, now: float, job_id: str) -> Firing:
    """Fire once, now, outside of the ticks; the next tick stays."""
    plan = settings.effective
    job = replace(job_at(record.name, plan, now, job_id), run_at=None)
    return Firing(
        name=record.name,
        version=record.version,
        jobs=((now, job),),
        overlap=plan.overlap,
        end=TickEnd.TRIGGERED,
        tick=record.tick,
        next=record.next,
    )


def backfilling(record: ScheduleRecord, jobs: Iterable[tuple[float, NewJob]]) -> Firing:
    """Enqueue these jobs for past ticks, whatever the overlap; the next tick stays."""
    return Firing(
        name=record.name,
        version=record.version,
        jobs=tuple(jobs),
        end=TickEnd.BACKFILLED,
        tick=record.tick,
        next=record.next,
    )


def preview(name: str, plan: Plan, after: float, count: int) -> list[tuple[float, float]]:
    """The next ticks after an instant, each with the time at which its job is due."""
    found = ticks(plan.when, after, starts=plan.starts, ends=plan.ends)
    return [(tick, tick + _jitter(name, plan, tick)) for tick, _ in zip(found, range(count), strict=False)]


def job_at(name: str, plan: Plan, tick: float, job_id: str | None = None) -> NewJob:
    """The job of one tick. By default its id is made from the schedule and the tick, so that the tick has one job at most."""
    job, job_id = plan.job, job_id or _job_id(name, tick)
    step = None if job.step is None else replace(job.step, run_id=job_id)
    run_at = tick + _jitter(name, plan, tick) if plan.jitter else None
    return replace(job, id=job_id, step=step, tags=(*job.tags, *origin_tags(name, tick)), run_at=run_at)


def _job_id(name: str, tick: float) -> str:
    """An id in the form of a UUID of version 7 whose time is the tick's."""
    text = f"{max(int(tick * 1000), 0):012x}"[-12:] + _digest(f"{name}\n{tick!r}").hex()
    return f"{text[:8]}-{text[8:12]}-7{text[13:16]}-{'89ab'[int(text[16], 16) % 4]}{text[17:20]}-{text[20:32]}"


def _jitter(name: str, plan: Plan, tick: float) -> float:
    """Seconds from a tick to the time at which its job is due: the same in every process."""
    return plan.jitter * (int.from_bytes(_digest(f"{name}\n{tick!r}\njitter")[:6]) / 2**48)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=10).digest()
