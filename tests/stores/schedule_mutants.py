"""Memory stores that each break one rule about schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
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
from tenure.stores.memory import operating, schedules
from tenure.stores.memory.data import Data
from tenure.stores.memory.enqueueing import enqueue
from tests.stores.mutants import mutant

# Reading and writing.


@mutant("test_a_put_names_the_version_that_it_replaces")
def a_put_asks_for_no_version(patch: pytest.MonkeyPatch) -> None:
    original = schedules._put

    def put(data: Data, put: SchedulePut) -> bool:
        known = data.schedules.get(put.name)
        return original(data, replace(put, if_version=0 if known is None else known.version))

    patch.setattr(schedules, "_put", put)


def _after_each_put(
    patch: pytest.MonkeyPatch, spoil: Callable[[ScheduleRecord | None, ScheduleRecord], ScheduleRecord]
) -> None:
    """Spoil each schedule that is written, by what it was before and is now."""
    original = schedules._put

    def put(data: Data, put: SchedulePut) -> bool:
        before = data.schedules.get(put.name)
        written = original(data, put)
        if written and put.settings is not None:
            data.schedules[put.name] = spoil(before, data.schedules[put.name])
        return written

    patch.setattr(schedules, "_put", put)


@mutant("test_a_put_keeps_the_last_job_and_the_history")
def a_put_forgets_the_last_job(patch: pytest.MonkeyPatch) -> None:
    _after_each_put(patch, lambda _, now: replace(now, last=None))


@mutant("test_a_put_names_the_version_that_it_replaces")
def a_put_leaves_the_version(patch: pytest.MonkeyPatch) -> None:
    _after_each_put(patch, lambda before, now: replace(now, version=1 if before is None else before.version))


@mutant("test_a_confirmation_says_when_and_nothing_else", rules=("put_schedules", "time_passes"))
def every_put_confirms(patch: pytest.MonkeyPatch) -> None:
    original = schedules._put
    patch.setattr(schedules, "_put", lambda data, put: original(data, replace(put, seen=True)))


@mutant("test_a_confirmation_says_when_and_nothing_else")
def a_confirmation_is_a_new_version(patch: pytest.MonkeyPatch) -> None:
    original = schedules.confirm

    def confirm(data: Data, names: Any) -> list[bool]:
        for name in data.schedules.keys() & set(names):
            data.schedules[name] = replace(data.schedules[name], version=data.schedules[name].version + 1)
        return original(data, names)

    patch.setattr(schedules, "confirm", confirm)


@mutant("test_a_deleted_schedule_is_gone_and_its_jobs_stay", rules=("fire", "put_schedules"))
def a_deleted_schedule_takes_its_last_job_along(patch: pytest.MonkeyPatch) -> None:
    original = schedules._put

    def put(data: Data, put: SchedulePut) -> bool:
        before = data.schedules.get(put.name)
        written = original(data, put)
        if written and put.settings is None and before is not None and before.last is not None:
            operating.cancel(data, [before.last])
        return written

    patch.setattr(schedules, "_put", put)


@mutant("test_one_that_is_not_active_or_has_no_next_tick_is_never_due")
def one_that_is_not_active_is_due(patch: pytest.MonkeyPatch) -> None:
    _search_among(patch, lambda known: {name: replace(each, active=True) for name, each in known.items()})


@mutant("test_due_ones_come_soonest_first")
def due_ones_come_by_name(patch: pytest.MonkeyPatch) -> None:
    original = schedules.search

    def search(data: Data, wanted: ScheduleSearch) -> SchedulePage:
        if not wanted.due:
            return original(data, wanted)
        page = original(data, replace(wanted, skip=0, limit=1_000_000))
        by_name = sorted(page.schedules, key=lambda each: each.name)
        return replace(page, schedules=by_name[wanted.skip :][: wanted.limit])

    patch.setattr(schedules, "search", search)


@mutant("test_the_soonest_says_when_it_is_due")
def only_one_that_is_due_says_so(patch: pytest.MonkeyPatch) -> None:
    original = schedules.search

    def search(data: Data, wanted: ScheduleSearch) -> SchedulePage:
        page = original(data, wanted)
        return page if page.due_in is None or page.due_in <= 0 else replace(page, due_in=None)

    patch.setattr(schedules, "search", search)


def _search_among(
    patch: pytest.MonkeyPatch, among: Callable[[dict[str, ScheduleRecord]], dict[str, ScheduleRecord]]
) -> None:
    """Let searches of those that are due find these schedules instead."""
    original = schedules.search

    def search(data: Data, wanted: ScheduleSearch) -> SchedulePage:
        kept = data.schedules
        data.schedules = among(kept) if wanted.due else kept
        try:
            page = original(data, wanted)
        finally:
            data.schedules = kept
        return replace(page, schedules=[kept[each.name] for each in page.schedules])

    patch.setattr(schedules, "search", search)


# Firing.


@mutant("test_a_tick_is_fired_once")
def a_firing_asks_for_no_version(patch: pytest.MonkeyPatch) -> None:
    original = schedules._fire

    def fire(data: Data, firing: Firing) -> tuple[TickRecord, ...] | None:
        known = data.schedules.get(firing.name)
        return original(data, firing if known is None else replace(firing, version=known.version))

    patch.setattr(schedules, "_fire", fire)


@mutant("test_a_tick_is_fired_once")
def a_firing_of_any_older_version_is_carried_out(patch: pytest.MonkeyPatch) -> None:
    original = schedules._fire

    def fire(data: Data, firing: Firing) -> tuple[TickRecord, ...] | None:
        known = data.schedules.get(firing.name)
        if known is not None and firing.version < known.version:
            firing = replace(firing, version=known.version)
        return original(data, firing)

    patch.setattr(schedules, "_fire", fire)


@mutant("test_a_tick_is_fired_once")
def jobs_are_enqueued_before_the_version_is_compared(patch: pytest.MonkeyPatch) -> None:
    original = schedules._fire

    def fire(data: Data, firing: Firing) -> tuple[TickRecord, ...] | None:
        enqueue(data, [job for _, job in firing.jobs] if firing.overlap is Overlap.ALLOW else [])
        return original(data, firing)

    patch.setattr(schedules, "_fire", fire)


@mutant("test_one_that_is_not_active_may_be_fired_and_stays_so", rules=("fire", "put_schedules"))
def a_firing_makes_a_schedule_active(patch: pytest.MonkeyPatch) -> None:
    _after_each_firing(patch, lambda _, now: replace(now, active=True))


def _after_each_firing(
    patch: pytest.MonkeyPatch, spoil: Callable[[ScheduleRecord, ScheduleRecord], ScheduleRecord]
) -> None:
    """Spoil each schedule that is fired, by what it was before and is now."""
    original = schedules._fire

    def fire(data: Data, firing: Firing) -> tuple[TickRecord, ...] | None:
        before = data.schedules.get(firing.name)
        fired = original(data, firing)
        if fired is not None and before is not None:
            data.schedules[firing.name] = spoil(before, data.schedules[firing.name])
        return fired

    patch.setattr(schedules, "_fire", fire)


@mutant("test_job_and_next_tick_are_one_step")
def the_last_job_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    _after_each_firing(patch, lambda before, now: replace(now, last=before.last))


@mutant("test_job_and_next_tick_are_one_step")
def the_next_tick_stays_after_a_firing(patch: pytest.MonkeyPatch) -> None:
    _after_each_firing(patch, lambda before, now: replace(now, next=before.next))


@mutant("test_skip_while_the_last_is_not_final", phase="runs")
def a_tick_that_enqueues_nothing_is_not_decided(patch: pytest.MonkeyPatch) -> None:
    _after_each_firing(patch, lambda before, now: now if now.last != before.last else replace(now, tick=before.tick))


@mutant("test_history_is_bounded", rules=("fire", "schedules_go_on"))
def history_has_no_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schedules, "HISTORY_LENGTH", 1_000_000)


@mutant("test_history_is_bounded", rules=("fire", "schedules_go_on"))
def history_keeps_the_oldest(patch: pytest.MonkeyPatch) -> None:
    _after_each_firing(
        patch,
        lambda before, now: replace(now, history=before.history) if len(before.history) == HISTORY_LENGTH else now,
    )


@mutant("test_ticks_that_enqueue_nothing_are_history")
def ticks_that_are_missed_are_not_history(patch: pytest.MonkeyPatch) -> None:
    original = schedules._fire
    patch.setattr(schedules, "_fire", lambda data, firing: original(data, replace(firing, entries=())))


@mutant("test_a_duplicate_by_unique_key_is_history")
def a_duplicate_is_the_last_job(patch: pytest.MonkeyPatch) -> None:
    original = schedules._fire_tick

    def fire_tick(data: Data, firing: Firing, *rest: Any) -> TickRecord:
        entry = original(data, firing, *rest)
        return replace(entry, end=firing.end) if entry.end is TickEnd.DUPLICATE else entry

    patch.setattr(schedules, "_fire_tick", fire_tick)


@mutant("test_several_ticks_of_one_schedule_fire_in_order")
def only_the_first_job_of_a_firing_is_enqueued(patch: pytest.MonkeyPatch) -> None:
    original = schedules._fire
    patch.setattr(schedules, "_fire", lambda data, firing: original(data, replace(firing, jobs=firing.jobs[:1])))


# Overlap.


def _with_last(patch: pytest.MonkeyPatch, seen: Callable[[Data, str | None], str | None]) -> None:
    """Let overlap be decided by another last job."""
    original = schedules._fire_tick

    def fire_tick(data: Data, firing: Firing, tick: float, job: NewJob, last: str | None) -> TickRecord:
        return original(data, firing, tick, job, seen(data, last))

    patch.setattr(schedules, "_fire_tick", fire_tick)


@mutant("test_skip_while_the_last_is_not_final", phase="runs")
def the_last_job_is_always_taken_for_final(patch: pytest.MonkeyPatch) -> None:
    _with_last(patch, lambda data, last: None)


@mutant("test_skip_while_the_last_is_not_final", phase="is a run that has handed over")
def a_run_is_over_with_its_first_step(patch: pytest.MonkeyPatch) -> None:
    def seen(data: Data, last: str | None) -> str | None:
        return None if last is None or last not in data.jobs or data.jobs[last].state.final else last

    _with_last(patch, seen)


def _with_overlap(patch: pytest.MonkeyPatch, overlap: Overlap, instead: Overlap) -> None:
    original = schedules._fire
    patch.setattr(
        schedules,
        "_fire",
        lambda data, firing: original(data, replace(firing, overlap=instead) if firing.overlap is overlap else firing),
    )


@mutant("test_wait_while_the_last_is_not_final", phase="runs")
def wait_skips(patch: pytest.MonkeyPatch) -> None:
    _with_overlap(patch, Overlap.WAIT, Overlap.SKIP)


@mutant("test_replace_while_the_last_is_not_final", phase="runs")
def replace_does_not_cancel(patch: pytest.MonkeyPatch) -> None:
    _with_overlap(patch, Overlap.REPLACE, Overlap.ALLOW)


@mutant("test_wait_while_the_last_is_not_final", phase="waits")
def wait_makes_a_line_of_jobs(patch: pytest.MonkeyPatch) -> None:
    original = schedules._fire_tick

    def fire_tick(data: Data, firing: Firing, tick: float, job: NewJob, last: str | None) -> TickRecord:
        entry = original(data, firing, tick, job, last)
        if firing.overlap is Overlap.WAIT and entry.end is TickEnd.SKIPPED and last is not None:
            enqueue(data, [replace(job, after=(last,), if_blocker_fails=BlockerPolicy.PROCEED)])
            return replace(entry, end=firing.end, job_id=job.id)
        return entry

    patch.setattr(schedules, "_fire_tick", fire_tick)


def _enqueue_otherwise(patch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Enqueue jobs that wait for the last one with these changes."""
    patch.setattr(
        schedules,
        "enqueue",
        lambda data, jobs: enqueue(data, [replace(job, **changes) if job.after else job for job in jobs]),
    )


@mutant("test_wait_while_the_last_is_not_final", phase="runs")
def wait_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    _enqueue_otherwise(patch, after=())


@mutant("test_who_waits_for_the_last_proceeds_though_it_fails")
def a_job_that_waits_for_the_last_fails_with_it(patch: pytest.MonkeyPatch) -> None:
    _enqueue_otherwise(patch, if_blocker_fails=BlockerPolicy.FAIL)


@mutant("test_replace_while_the_last_is_not_final", phase="runs")
def the_last_job_is_cancelled_although_the_version_is_refused(patch: pytest.MonkeyPatch) -> None:
    """Cancelled before the compare-and-set; a firing that is carried out then finds it final."""
    original = schedules._fire

    def fire(data: Data, firing: Firing) -> tuple[TickRecord, ...] | None:
        known = data.schedules.get(firing.name)
        if firing.overlap is Overlap.REPLACE and known is not None and known.last is not None and firing.jobs:
            operating.cancel(data, [known.last])
        return original(data, firing)

    patch.setattr(schedules, "_fire", fire)


@mutant("test_replace_while_the_last_is_not_final", phase="runs")
def what_was_replaced_is_not_named(patch: pytest.MonkeyPatch) -> None:
    original = schedules._fire_tick
    patch.setattr(schedules, "_fire_tick", lambda *given: replace(original(*given), replaced=None))
