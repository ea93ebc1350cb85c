"""Tests of schedules: reading, writing and firing them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure.core.job import BlockerPolicy, NewJob, State
from tenure.core.lifecycle import Park
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
from tenure.stores.base import Store
from tenure.stores.values import Announcement, AnnouncementKind
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import a_start, hand_over
from tenure.testing.conformance.scene import (
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    a_worker,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    lease,
    lease_one,
    line,
    listening,
    record,
    settle,
    state,
)

__all__ = ["Schedules"]

every_overlap = pytest.mark.parametrize("overlap", Overlap)
PHASES = ["waits", "is scheduled", "runs", "retries", "is parked", "is a run", "is a run that has handed over"]
every_phase = pytest.mark.parametrize("phase", PHASES)
NOT_BEGUN = {"waits", "is scheduled"}


async def put(store: Store, name: str = "s", **changes: Any) -> bool:
    """Create a schedule whose next tick is 0, or change it."""
    usual: dict[str, Any] = {"name": name, "if_version": 0, "settings": "{}", "next": 0.0}
    [done] = await store.put_schedules([SchedulePut(**usual | changes)])
    return done


async def found(store: Store, name: str = "s") -> ScheduleRecord:
    [schedule] = (await store.schedules(ScheduleSearch(names=(name,)))).schedules
    return schedule


async def due(store: Store, **search: Any) -> SchedulePage:
    return await store.schedules(ScheduleSearch(due=True, **search))


async def fire(store: Store, *jobs: NewJob, name: str = "s", **changes: Any) -> tuple[TickRecord, ...] | None:
    """Fire ticks of a schedule, one for each job, from 1.0 on, computed from its current version."""
    version = (await found(store, name)).version
    ticks = tuple((float(number), job) for number, job in enumerate(jobs, 1))
    [fired] = await store.fire([Firing(name=name, version=version, jobs=ticks, **changes)])
    return fired


async def ends(store: Store, *jobs: NewJob, **changes: Any) -> list[TickEnd]:
    fired = await fire(store, *jobs, **changes)
    assert fired is not None
    return [entry.end for entry in fired]


async def fired_and(phase: str, store: Store) -> str:
    """A schedule `s` whose last job, in queue `q`, waits, runs, …; returns the id of that job."""
    await put(store)
    job = a_start() if "run" in phase.split() else a_job(delay=60.0 if phase == "is scheduled" else 0.0)
    assert await ends(store, job) == [TickEnd.ENQUEUED]
    match phase:
        case "runs":
            await lease_one(store)
        case "retries":
            await settle(store, await lease_one(store), RETRY)
        case "is parked":
            await settle(store, await lease_one(store), Park())
        case "is a run":
            await lease_one(store)
        case "is a run that has handed over":
            await hand_over(store, await lease_one(store))
    return job.id


class Schedules:
    # Reading and writing.

    async def test_a_schedule_comes_back_as_it_was_put(self, store: Store, clock: ManualClock) -> None:
        assert await put(store, settings='{"text":"\\u0000 é 🙂"}', next=1234.000001)

        schedule = await found(store)
        assert schedule == ScheduleRecord(
            name="s", settings='{"text":"\\u0000 é 🙂"}', version=1, next=1234.000001, seen_at=schedule.seen_at
        )
        assert schedule.seen_at == pytest.approx(clock.wall(), abs=0.01)
        page = await store.schedules(ScheduleSearch())
        assert (page.schedules, page.due_in) == ([schedule], None)
        assert page.now == pytest.approx(clock.wall(), abs=0.01)

    async def test_any_name_may_be_asked_for(self, store: Store) -> None:
        await put(store)
        for name in ("", "none", "s ", "é", "a\0b", "*"):
            assert (await store.schedules(ScheduleSearch(names=(name,)))).schedules == []
            assert await store.confirm_schedules([name]) == [False]
            assert await store.fire([Firing(name=name, version=1)]) == [None]

    async def test_those_of_a_list_come_in_its_order(self, store: Store) -> None:
        for name in "abc":
            await put(store, name)
        page = await store.schedules(ScheduleSearch(names=("c", "none", "a")))
        assert [each.name for each in page.schedules] == ["c", "a"]
        assert (await store.schedules(ScheduleSearch(names=()))).schedules == []

    async def test_all_are_listed_by_name_a_page_at_a_time(self, store: Store) -> None:
        names = ["B", "a", "a-1", "a.1", "a:1", "a_1", "b"]
        assert await store.put_schedules(
            [SchedulePut(name=name, if_version=0, settings="{}") for name in reversed(names)]
        ) == [True] * len(names)

        listed, after = [], ""
        while page := (await store.schedules(ScheduleSearch(after=after, limit=3))).schedules:
            assert len(page) <= 3
            listed += [each.name for each in page]
            after = listed[-1]
        assert listed == sorted(names)

    async def test_a_put_names_the_version_that_it_replaces(self, store: Store) -> None:
        assert not await put(store, if_version=1)
        assert await put(store)
        assert not await put(store, settings="other")
        assert not await put(store, if_version=2, settings="other")
        assert await put(store, if_version=1, settings="other", next=None, active=False)

        schedule = await found(store)
        assert (schedule.version, schedule.settings, schedule.next, schedule.active) == (2, "other", None, False)

    async def test_a_put_keeps_the_last_job_and_the_history(self, store: Store, clock: ManualClock) -> None:
        await put(store)
        job = a_job()
        await fire(store, job, tick=1.0, next=2.0)
        before = await found(store)
        clock.advance(10)
        await put(store, if_version=2, settings="other", next=5.0)

        assert await found(store) == ScheduleRecord(
            name="s", settings="other", version=3, next=5.0, tick=1.0, last=job.id, seen_at=before.seen_at,
            history=before.history,
        )  # fmt: skip

    async def test_each_put_of_a_call_is_independent(self, store: Store) -> None:
        await put(store, "a")
        assert await store.put_schedules([]) == []
        assert await store.put_schedules(
            [
                SchedulePut(name="a", if_version=0, settings="new"),
                SchedulePut(name="b", if_version=0, settings="new"),
                SchedulePut(name="b", if_version=1, settings="newer"),
            ]
        ) == [False, True, True]
        assert (await found(store, "a")).settings == "{}"
        assert (await found(store, "b")).settings == "newer"

    async def test_a_deleted_schedule_is_gone_and_its_jobs_stay(self, store: Store) -> None:
        await put(store)
        job = a_job()
        await fire(store, job)
        assert not await put(store, if_version=1, settings=None)
        assert await put(store, if_version=2, settings=None)

        assert (await store.schedules(ScheduleSearch())).schedules == []
        assert (await due(store)).due_in is None
        assert await state(store, job.id) is State.WAITING
        assert not await put(store, if_version=2)
        assert await put(store)
        assert (await found(store)).last is None

    async def test_a_confirmation_says_when_and_nothing_else(self, store: Store, clock: ManualClock) -> None:
        await put(store)
        before = await found(store)
        clock.advance(100)
        assert await store.confirm_schedules(["s", "none", "s"]) == [True, False, True]
        assert await store.confirm_schedules([]) == []

        after = await found(store)
        assert after.seen_at == pytest.approx(before.seen_at + 100, abs=0.01)
        assert (after.version, after.next) == (1, 0.0)
        clock.advance(100)
        await put(store, if_version=1)
        assert (await found(store)).seen_at == after.seen_at
        await put(store, if_version=2, seen=True)
        assert (await found(store)).seen_at == pytest.approx(after.seen_at + 100, abs=0.01)

    # What is due.

    async def test_due_ones_come_soonest_first(self, store: Store, clock: ManualClock) -> None:
        now = clock.wall()
        for name, next_ in {"c": now - 5, "a": now - 3, "b": now - 5, "later": now + 60}.items():
            await put(store, name, next=next_)

        page = await due(store)
        assert [each.name for each in page.schedules] == ["b", "c", "a"]
        assert page.due_in == pytest.approx(-5, abs=0.01)
        assert [each.name for each in (await due(store, limit=2)).schedules] == ["b", "c"]
        assert [each.name for each in (await due(store, limit=2, skip=1)).schedules] == ["c", "a"]
        assert (await due(store, limit=2, skip=3)).schedules == []
        assert (await due(store, limit=0)).schedules == []

    async def test_the_soonest_says_when_it_is_due(self, store: Store, clock: ManualClock) -> None:
        page = await due(store)
        assert (page.schedules, page.due_in) == ([], None)
        assert page.now == pytest.approx(clock.wall(), abs=0.01)
        await put(store, "late", next=clock.wall() + 60)
        await put(store, "soon", next=clock.wall() + 10)

        page = await due(store)
        assert page.schedules == []
        assert page.due_in == pytest.approx(10, abs=0.01)
        clock.advance(10.5)
        page = await due(store)
        assert [each.name for each in page.schedules] == ["soon"]
        assert page.due_in == pytest.approx(-0.5, abs=0.01)

    async def test_one_that_is_not_active_or_has_no_next_tick_is_never_due(self, store: Store) -> None:
        await put(store, "paused", active=False)
        await put(store, "done", next=None)
        assert (await due(store)).schedules == []
        assert (await due(store)).due_in is None

        await put(store, "paused", if_version=1, active=True)
        assert [each.name for each in (await due(store)).schedules] == ["paused"]

    # Firing.

    async def test_job_and_next_tick_are_one_step(self, store: Store, clock: ManualClock) -> None:
        await put(store)
        job = a_job(tags=("a", "b"))
        fired = await fire(store, job, tick=1.0, next=clock.wall() + 60)

        assert fired is not None
        assert fired == (TickRecord(1.0, TickEnd.ENQUEUED, fired[0].at, job.id),)
        assert fired[0].at == pytest.approx(clock.wall(), abs=0.01)
        schedule = await found(store)
        assert (schedule.version, schedule.tick, schedule.last) == (2, 1.0, job.id)
        assert schedule.next == pytest.approx(clock.wall() + 60, abs=0.001)
        assert schedule.history == fired
        assert (await due(store)).due_in == pytest.approx(60, abs=0.01)
        assert (await record(store, job.id)).tags == ("a", "b")
        assert await line(store) == [job.id]
        await assert_counters_equal_a_recount(store)

    async def test_a_tick_is_fired_once(self, store: Store) -> None:
        await put(store)
        firing = Firing(name="s", version=1, jobs=((1.0, a_job()),), tick=1.0, next=2.0)
        [first] = await store.fire([firing])
        assert first is not None
        assert await store.fire([firing]) == [None]
        assert await store.fire([Firing(name="s", version=1, jobs=((1.0, a_job()),), tick=1.0, next=2.0)]) == [None]
        assert await line(store) == [firing.jobs[0][1].id]
        assert (await found(store)).history == first

    async def test_a_tick_is_fired_once_by_any_number_at_once(self, make_store: MakeStore) -> None:
        stores = [make_store() for _ in range(5)]
        await put(stores[0])
        firings = [Firing(name="s", version=1, jobs=((1.0, a_job()),), tick=1.0, next=2.0) for _ in stores]

        answers = await asyncio.gather(*(store.fire([each]) for store, each in zip(stores, firings, strict=True)))
        assert sum(fired is not None for [fired] in answers) == 1
        assert len(await line(stores[0])) == 1

    async def test_a_firing_computed_from_an_older_version_is_refused(self, store: Store) -> None:
        await put(store)
        await put(store, if_version=1, settings="other")
        assert await store.fire([Firing(name="s", version=1, jobs=((1.0, a_job()),))]) == [None]
        assert await store.fire([Firing(name="s", version=3, jobs=((1.0, a_job()),))]) == [None]
        assert await line(store) == []
        assert (await found(store)).version == 2

    async def test_one_that_was_paused_since_is_refused(self, store: Store) -> None:
        await put(store)
        schedule = await found(store)
        await put(store, if_version=1, active=False)
        assert await store.fire([Firing(name="s", version=schedule.version, jobs=((1.0, a_job()),))]) == [None]
        assert await line(store) == []

    async def test_firings_of_one_call_are_independent(self, store: Store) -> None:
        assert await store.fire([]) == []
        await put(store, "a")
        await put(store, "b")
        mine, other = a_job(), a_job()
        answers = await store.fire(
            [
                Firing(name="b", version=1, jobs=((1.0, mine),)),
                Firing(name="none", version=1, jobs=((1.0, a_job()),)),
                Firing(name="a", version=1, jobs=((1.0, other),)),
                Firing(name="a", version=1, jobs=((1.0, a_job()),)),
            ]
        )
        assert [answer is not None for answer in answers] == [True, False, True, False]
        assert await line(store) == [mine.id, other.id]

    async def test_many_schedules_fire_in_one_call(self, store: Store) -> None:
        names = [f"s{number:03}" for number in range(300)]
        await store.put_schedules([SchedulePut(name=name, if_version=0, settings="{}", next=0.0) for name in names])
        answers = await store.fire(
            [Firing(name=name, version=1, jobs=((1.0, a_job()),), tick=1.0, overlap=Overlap.SKIP) for name in names]
        )
        assert all(fired is not None and fired[0].end is TickEnd.ENQUEUED for fired in answers)
        assert (await counts(store)).waiting == 300
        assert (await due(store)).due_in is None

    async def test_several_ticks_of_one_schedule_fire_in_order(self, store: Store) -> None:
        await put(store)
        jobs = [a_job(), a_job(delay=60.0), a_job()]
        assert await ends(store, *jobs) == [TickEnd.ENQUEUED] * 3
        assert await line(store) == [jobs[0].id, jobs[2].id]
        schedule = await found(store)
        assert schedule.last == jobs[2].id
        assert [(each.tick, each.job_id) for each in schedule.history] == [
            (float(number), job.id) for number, job in enumerate(jobs, 1)
        ]

    async def test_ticks_that_enqueue_nothing_are_history(self, store: Store, clock: ManualClock) -> None:
        await put(store)
        missed, refused = TickRecord(0.5, TickEnd.MISSED, until=0.9), TickRecord(0.9, TickEnd.REFUSED)
        assert await ends(store, a_job(), entries=(missed, refused), tick=1.0, next=2.0) == [TickEnd.ENQUEUED]

        history = (await found(store)).history
        assert [(each.tick, each.end, each.until) for each in history] == [
            (0.5, TickEnd.MISSED, 0.9), (0.9, TickEnd.REFUSED, None), (1.0, TickEnd.ENQUEUED, None),
        ]  # fmt: skip
        assert [each.at for each in history] == [pytest.approx(clock.wall(), abs=0.01)] * 3
        assert await ends(store, entries=(missed,), tick=2.0, next=3.0) == []
        assert (await found(store)).last is not None

    async def test_history_is_bounded(self, store: Store) -> None:
        await put(store)
        for number in range(3):
            ticks = tuple((number * 10.0 + each, a_job()) for each in range(10))
            await store.fire([Firing(name="s", version=number + 1, jobs=ticks)])
        history = (await found(store)).history
        assert [each.tick for each in history] == [float(tick) for tick in range(30 - HISTORY_LENGTH, 30)]

    async def test_a_schedule_that_has_no_further_tick_is_done(self, store: Store) -> None:
        await put(store)
        await fire(store, a_job(), tick=1.0, next=None)
        schedule = await found(store)
        assert (schedule.next, schedule.active) == (None, True)
        assert (await due(store)).due_in is None

    async def test_one_that_is_not_active_may_be_fired_and_stays_so(self, store: Store) -> None:
        await put(store, active=False)
        assert await ends(store, a_job(), end=TickEnd.TRIGGERED, next=0.0) == [TickEnd.TRIGGERED]
        schedule = await found(store)
        assert (schedule.next, schedule.active) == (0.0, False)
        assert (await due(store)).due_in is None

    async def test_a_fired_job_wakes_an_idle_worker(self, make_store: MakeStore) -> None:
        store, other = make_store(), make_store()
        await put(store)
        await lease(other)
        waiting = asyncio.create_task(other.wait_for_work(["q"], 20.0))
        await asyncio.sleep(0.1)
        await fire(store, a_job())
        async with asyncio.timeout(10):
            await waiting

    async def test_a_job_that_exists_is_left_as_it_is(self, store: Store) -> None:
        await put(store)
        job = a_job()
        await enqueue(store, job)
        await settle(store, await lease_one(store), SUCCEED)
        assert await ends(store, job) == [TickEnd.ENQUEUED]
        assert await state(store, job.id) is State.SUCCEEDED
        await assert_counters_equal_a_recount(store)

    async def test_a_duplicate_by_unique_key_is_history(self, store: Store) -> None:
        [owner] = await enqueue(store, a_job(unique="k"))
        await put(store)
        fired = await fire(store, a_job(unique="k"))
        assert fired is not None
        assert [(entry.end, entry.job_id) for entry in fired] == [(TickEnd.DUPLICATE, owner)]
        schedule = await found(store)
        assert (schedule.last, schedule.version) == (None, 2)
        assert await line(store) == [owner]

    # Overlap.

    @every_phase
    async def test_allow_while_the_last_is_not_final(self, store: Store, phase: str) -> None:
        last, job = await fired_and(phase, store), a_job()
        before = await state(store, last)
        assert await ends(store, job, overlap=Overlap.ALLOW) == [TickEnd.ENQUEUED]
        assert (await state(store, last), await state(store, job.id)) == (before, State.WAITING)

    @every_phase
    async def test_skip_while_the_last_is_not_final(self, store: Store, phase: str) -> None:
        last, job = await fired_and(phase, store), a_job()
        fired = await fire(store, job, overlap=Overlap.SKIP, tick=2.0, next=3.0)
        assert fired is not None
        assert [(entry.end, entry.job_id) for entry in fired] == [(TickEnd.SKIPPED, last)]
        assert await store.get([job.id]) == [None]
        schedule = await found(store)
        assert (schedule.last, schedule.tick, schedule.next, schedule.version) == (last, 2.0, 3.0, 3)
        await assert_counters_equal_a_recount(store)

    @every_phase
    async def test_wait_while_the_last_is_not_final(self, store: Store, phase: str) -> None:
        last, job = await fired_and(phase, store), a_job()
        end = TickEnd.SKIPPED if phase in NOT_BEGUN else TickEnd.ENQUEUED
        assert await ends(store, job, overlap=Overlap.WAIT) == [end]
        if phase in NOT_BEGUN:
            assert await store.get([job.id]) == [None]
        else:
            assert await state(store, job.id) is State.BLOCKED
            assert await store.blockers(job.id) == [last]
            assert (await found(store)).last == job.id
        await assert_counters_equal_a_recount(store)

    @every_phase
    async def test_replace_while_the_last_is_not_final(self, store: Store, phase: str) -> None:
        last, job = await fired_and(phase, store), a_job()
        fired = await fire(store, job, overlap=Overlap.REPLACE)
        assert fired is not None
        [entry] = fired
        assert (entry.end, entry.job_id) == (TickEnd.ENQUEUED, job.id)
        assert entry.replaced is not None
        assert await state(store, entry.replaced) is State.CANCELLED
        assert entry.replaced == last or phase == "is a run that has handed over"
        assert await state(store, job.id) is State.WAITING
        assert (await found(store)).history[-1] == entry
        await assert_counters_equal_a_recount(store)

    @every_overlap
    @pytest.mark.parametrize("fate", ["none", "succeeded", "cancelled", "deleted"])
    async def test_overlap_is_nothing_once_the_last_is_final_or_gone(
        self, store: Store, overlap: Overlap, fate: str
    ) -> None:
        await put(store)
        if fate != "none":
            await fire(store, last := a_job())
            if fate == "cancelled":
                await store.cancel([last.id])
            else:
                await settle(store, await lease_one(store), SUCCEED)
            if fate == "deleted":
                await store.delete([last.id])
        job = a_job()
        fired = await fire(store, job, overlap=overlap)
        assert fired is not None
        assert [(entry.end, entry.replaced) for entry in fired] == [(TickEnd.ENQUEUED, None)]
        assert await state(store, job.id) is State.WAITING

    async def test_who_waits_for_the_last_proceeds_though_it_fails(self, store: Store) -> None:
        last, job = await fired_and("runs", store), a_job()
        assert await ends(store, job, overlap=Overlap.WAIT) == [TickEnd.ENQUEUED]
        await store.cancel([last])
        assert await line(store) == [job.id]

    async def test_further_ticks_are_skipped_while_one_waits(self, store: Store) -> None:
        await fired_and("runs", store)
        waiting = a_job()
        assert await ends(store, waiting, overlap=Overlap.WAIT) == [TickEnd.ENQUEUED]
        fired = await fire(store, a_job(), overlap=Overlap.WAIT)
        assert fired is not None
        assert [(entry.end, entry.job_id) for entry in fired] == [(TickEnd.SKIPPED, waiting.id)]

    async def test_replace_tells_the_holder(self, make_store: MakeStore) -> None:
        store, holder = make_store(), make_store()
        await holder.register(a_worker())
        announcements = holder.announcements()
        upcoming = asyncio.ensure_future(anext(announcements))
        await listening(holder)
        last = await fired_and("runs", store)
        await fire(store, a_job(), overlap=Overlap.REPLACE)
        async with asyncio.timeout(10):
            while (heard := await upcoming) != Announcement(AnnouncementKind.CANCELLED, last):
                assert heard.kind is AnnouncementKind.WORK
                upcoming = asyncio.ensure_future(anext(announcements))

    async def test_replace_fails_jobs_that_wait_for_the_last(self, store: Store) -> None:
        last = await fired_and("runs", store)
        [dependent] = await enqueue(store, a_job(after=(last,)))
        [patient] = await enqueue(store, a_job(after=(last,), if_blocker_fails=BlockerPolicy.PROCEED))
        await fire(store, job := a_job(), overlap=Overlap.REPLACE)
        assert await state(store, dependent) is State.FAILED
        assert await line(store) == [patient, job.id]

    async def test_a_replacement_takes_over_the_unique_key(self, store: Store) -> None:
        await put(store)
        await fire(store, a_job(unique="k"))
        await fire(store, job := a_job(unique="k"), overlap=Overlap.REPLACE)
        assert (await found(store)).last == job.id
        assert await line(store) == [job.id]

    async def test_a_start_of_a_flow_fires_as_a_run(self, store: Store) -> None:
        await put(store)
        start = a_start({"a": "1"}, {"a": ("1",)}, reads=("a",))
        await fire(store, start)
        run = await store.run(start.id)
        assert run is not None
        assert (run.flow, run.step.id) == ("f", start.id)
        assert (await lease_one(store)).job.attributes == {"a": "1"}
