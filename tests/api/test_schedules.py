"""Schedules as operators see them: created, found, previewed, paused, changed and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenure import App, At, Cron, Every, Schedule
from tenure.core.schedule import SchedulePut, TickEnd
from tenure.errors import InvalidOption, InvalidSchedule, ScheduleNotFound
from tenure.jobs.enqueue_hooks import Enqueueing
from tenure.tasks.task import Task
from tests.worker.conftest import Wire

from .conftest import Do, Timed, whatever_the_store
from .planned import MINUTE, NEXT, NOW, arguments, create, ends, fire, jobs_of, make_report, pass_time, report, stored

__all__ = ["report"]


# Creating and finding.


async def test_what_was_created_is_found_and_listed(timed: Timed, report: Task[[str], None], do: Do) -> None:
    app = timed.app
    when = Cron("*/5 * * * *", "Europe/Paris")
    made = await do(
        app.create_schedule, "eu", report.using(tags=["red"]).bind("eu"), when,
        overlap="skip", catch_up=3, jitter=30, starts=NOW, ends=NOW + timedelta(days=1),
    )  # fmt: skip
    await do(app.create_schedule, "asia", report.bind("asia"), Every(timedelta(minutes=1)))

    found = await do(app.get_schedule, "eu")

    for plan in (made, found):
        assert (plan.name, plan.task, plan.queue, plan.flow, plan.when) == ("eu", "report", "reports", None, when)
        assert (plan.overlap, plan.catch_up, plan.jitter) == ("skip", 3, 30.0)
        assert (plan.starts, plan.ends) == (NOW, NOW + timedelta(days=1))
        assert (plan.state, plan.paused, plan.declared, plan.changed) == ("active", False, False, [])
        assert plan.next_at == NOW.replace(minute=15, second=0)
        assert (plan.last_job_id, plan.history, plan.confirmed_at) == (None, [], NOW)
        assert plan.words == "Every fifth minute of every hour, Europe/Paris time"
        assert repr(plan) == "<Schedule eu active>"
    assert [plan.name for plan in await do(app.schedules)] == ["asia", "eu"]


async def test_more_than_a_page_is_listed(timed: Timed, report: Task[[str], None], one_way: Do) -> None:
    settings = (await stored(await create(timed, report))).settings
    names = [f"s{number:03}" for number in range(401)]
    store = timed.app.internals.session.store
    await store.put_schedules([SchedulePut(name=name, if_version=0, settings=settings) for name in names])

    assert [plan.name for plan in await one_way(timed.app.schedules)] == ["eu", *names]


async def test_a_declared_one_is_there_once_a_worker_has_stored_it(
    timed: Timed, report: Task[[str], None], one_way: Do
) -> None:
    app = timed.app
    app.schedule("eu", report.bind("eu"), Every(60), overlap="wait")

    @app.task(schedule=Cron("@daily"))
    def nightly() -> None: ...

    with pytest.raises(ScheduleNotFound):
        await one_way(app.get_schedule, "eu")
    await fire(app)

    eu, night = await one_way(app.schedules)
    assert (eu.name, eu.declared, eu.overlap, eu.next_at) == ("eu", True, "wait", NEXT)
    assert (night.name, night.task, night.queue, night.when) == ("nightly", "nightly", "default", Cron("@daily"))


async def test_creating_the_same_again_returns_it_as_it_is(timed: Timed, report: Task[[str], None], do: Do) -> None:
    app = timed.app

    async def make() -> Schedule:
        made: Schedule = await do(app.create_schedule, "eu", report.bind("eu"), At(NEXT), jitter=5)
        return made

    first = await make()
    assert (await make()).next_at == first.next_at == NEXT
    assert (await stored(first)).version == 1
    await do(first.pause)
    assert (await make()).paused, "what an operator has done to it stays"
    await do(first.resume)
    await pass_time(timed, 60)
    again = await make()
    assert (again.state, ends(again)) == ("done", ["enqueued"]), "it is not started again"


async def test_a_moment_that_a_clock_shows_twice_is_the_same_again(timed: Timed, report: Task[[str], None]) -> None:
    twice = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris"))
    plans = [await timed.app.acreate_schedule("eu", report.bind("eu"), At(twice)) for _ in range(2)]

    assert [plan.next_at for plan in plans] == [datetime(2026, 10, 25, 1, 30, tzinfo=UTC)] * 2


async def test_another_one_of_that_name_is_refused(timed: Timed, report: Task[[str], None], do: Do) -> None:
    app = timed.app
    plan = await create(timed, report)
    for call, when, options in (
        (report.bind("us"), Every(60), {}),
        (report.bind("eu"), Every(61), {}),
        (report.bind("eu"), Every(60), {"overlap": "skip"}),
    ):
        with pytest.raises(InvalidSchedule, match=r"there is another schedule named 'eu' already.*get_schedule"):
            await do(app.create_schedule, "eu", call, when, **options)
    await do(plan.change, overlap="skip")
    with pytest.raises(InvalidSchedule, match="another schedule"):
        await create(timed, report)
    app.schedule("asia", report.bind("asia"), Every(60))
    await fire(app)
    with pytest.raises(InvalidSchedule, match="another schedule"):
        await do(app.create_schedule, "asia", report.bind("asia"), Every(60))


async def test_one_that_would_never_fire_from_now_on_is_not_created(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    with pytest.raises(InvalidSchedule, match="'eu' would have no tick from now on: At 2023-11-14 22:13:20"):
        await do(timed.app.create_schedule, "eu", report.bind("eu"), At(NOW))
    with pytest.raises(InvalidSchedule, match="no tick from now on"):
        await do(timed.app.create_schedule, "eu", report.bind("eu"), Every(60), ends=NOW)

    assert await do(timed.app.schedules) == []


async def test_a_name_that_nobody_has_is_not_found(timed: Timed, report: Task[[str], None], do: Do) -> None:
    await timed.app.acreate_schedule("acme-sync", report.bind("x"), Every(60))

    with pytest.raises(ScheduleNotFound, match=r"there is no schedule named 'acme-snyc': did you mean 'acme-sync'\?"):
        await do(timed.app.get_schedule, "acme-snyc")
    with pytest.raises(ScheduleNotFound, match="`tenure schedules` lists those that exist") as found:
        await do(timed.app.get_schedule, "z")
    assert isinstance(found.value, LookupError)
    assert found.value.name == "z"


@pytest.mark.parametrize("method", ["refresh", "pause", "resume", "change", "clear", "trigger", "delete"])
async def test_what_is_gone_is_not_found(timed: Timed, report: Task[[str], None], do: Do, method: str) -> None:
    plan = await create(timed, report)
    await (await timed.app.aget_schedule("eu")).adelete()

    with pytest.raises(ScheduleNotFound, match="'eu'"):
        await do(getattr(plan, method))


# What is to come, and what has come.


async def test_the_ticks_to_come_are_told_without_io(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await create(timed, report, ends=NEXT + 3 * MINUTE)
    await do(plan.pause)

    assert [each.tick for each in plan.preview(2, after=NOW)] == [NEXT, NEXT + MINUTE]
    assert [each.due_at for each in plan.preview(after=NEXT)] == [NEXT + n * MINUTE for n in (1, 2, 3)]
    assert plan.preview(after=NEXT + 3 * MINUTE) == []
    assert plan.preview() == [], "after now, by the clock of this machine"
    for wrong in (0, 1001, "5", True):
        with pytest.raises(InvalidOption, match="count"):
            plan.preview(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="after must have a time zone"):
        plan.preview(after=datetime(2026, 1, 1))


async def test_jobs_come_later_than_their_ticks_by_a_jitter_that_the_preview_tells(
    timed: Timed, report: Task[[str], None]
) -> None:
    plan = await create(timed, report, jitter=20)
    told = plan.preview(5, after=NOW)
    timed.clock.advance(-20 % 60)

    for each in told:
        await fire(timed.app)
        *_, job = await jobs_of(timed.app)
        assert job.tick == each.tick
        assert job.record is not None
        assert job.record.run_at == pytest.approx(each.due_at.timestamp(), abs=1e-3)
        timed.clock.advance(60)

    assert all(timedelta(0) <= each.due_at - each.tick < timedelta(seconds=20) for each in told)
    assert len({each.due_at - each.tick for each in told}) == 5


async def test_what_became_of_ticks_is_the_history(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await create(timed, report, overlap="skip")
    await pass_time(timed, 60)
    await pass_time(timed, 60)
    await pass_time(timed, 180)

    assert plan.history == [], "what was last read"
    await do(plan.refresh)

    first, second, missed, third = plan.history
    assert (first.tick, first.end, first.at, first.until) == (NEXT, TickEnd.ENQUEUED, NOW + MINUTE, None)
    [job] = await jobs_of(timed.app)
    assert first.job_id == second.job_id == plan.last_job_id == job.id
    assert (second.end, second.enqueued, first.enqueued) == ("skipped", False, True)
    assert (missed.tick, missed.end, missed.until) == (NEXT + 2 * MINUTE, "missed", NEXT + 4 * MINUTE)
    assert (third.tick, third.end) == (NEXT + 4 * MINUTE, "skipped")
    assert plan.next_at == NEXT + 5 * MINUTE


async def test_one_shot_is_done_once_it_was_fired(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await do(timed.app.create_schedule, "eu", report.bind("eu"), At(NOW + MINUTE))
    await pass_time(timed, 61)
    await do(plan.refresh)

    assert (plan.state, plan.next_at, len(plan.history)) == ("done", None, 1)
    with pytest.raises(InvalidSchedule, match="no tick from now on"):
        await do(plan.change, At(NOW))
    assert await do(plan.change, At(NOW + timedelta(hours=1)))
    assert (plan.state, plan.next_at) == ("active", NOW + timedelta(hours=1))


# Pausing and changing.


async def test_a_paused_one_fires_nothing_and_goes_on_with_the_next_tick(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    plan = await create(timed, report, catch_up=5)
    assert await do(plan.pause)
    assert not await do(plan.pause)
    assert (plan.state, plan.paused, plan.next_at) == ("paused", True, None)
    await pass_time(timed, 600)
    assert await jobs_of(timed.app) == []

    assert await do(plan.resume)
    assert not await do(plan.resume)

    assert (plan.state, plan.next_at) == ("active", NEXT + 10 * MINUTE)
    await pass_time(timed, 60)
    assert [job.tick for job in await jobs_of(timed.app)] == [NEXT + 10 * MINUTE]


async def test_another_when_starts_from_now_and_anything_else_keeps_the_next_tick(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    plan = await create(timed, report)
    timed.clock.advance(90)  # a tick is due that nobody has fired

    assert await do(plan.change, call=report.using(priority=-1).bind("us"), overlap="wait", catch_up=2, jitter=1)
    assert plan.next_at == NEXT
    assert (plan.overlap, plan.catch_up, plan.jitter, plan.changed) == ("wait", 2, 1.0, [])
    assert await do(plan.change, Every(30))
    assert plan.next_at == NEXT + MINUTE
    assert await do(plan.change, starts=NOW + timedelta(hours=1))
    assert plan.next_at == NOW + timedelta(hours=1)
    assert await do(plan.change, starts=None, jitter=0)
    assert not await do(plan.change, Every(30), starts=None, overlap="wait"), "so it was"
    assert not await do(plan.change)

    await pass_time(timed, 30)
    [job] = await jobs_of(timed.app)
    assert job.record is not None
    assert (arguments(job), job.record.priority) == (["us"], -1)


async def test_a_change_that_makes_no_sense_is_refused(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await create(timed, report, starts=NOW)

    with pytest.raises(InvalidSchedule, match="cannot end before it starts"):
        await do(plan.change, ends=NOW - MINUTE)
    with pytest.raises(InvalidSchedule, match="no tick from now on"):
        await do(plan.change, ends=NOW)
    with pytest.raises(InvalidSchedule, match=r"not '5 \* \* \* \*': write Cron\('5 \* \* \* \*'\)"):
        await do(plan.change, "5 * * * *")
    with pytest.raises(InvalidSchedule, match="bind"):
        await do(plan.change, call=report)
    with pytest.raises(InvalidOption, match="schedule 'eu': there is no option 'overlaps': did you mean 'overlap'"):
        await do(plan.change, overlaps="skip")
    with pytest.raises(InvalidOption, match="jitter"):
        await do(plan.change, jitter=-1)
    assert (await stored(plan)).version == 1


async def test_what_was_changed_of_a_declared_one_is_told_and_can_be_cleared(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    timed.app.schedule("eu", report.bind("eu"), Every(60), jitter=3)
    await fire(timed.app)
    plan = await do(timed.app.get_schedule, "eu")

    assert await do(plan.change, Every(3600), call=report.bind("us"), starts=NOW)
    assert (plan.when, plan.changed, plan.jitter) == (Every(3600), ["job", "when", "starts"], 3.0)
    assert plan.next_at == NOW + timedelta(hours=1)
    await fire(timed.app)  # as after a deploy
    assert (await do(plan.refresh)).when == Every(3600)

    assert await do(plan.clear)
    assert not await do(plan.clear)
    assert (plan.when, plan.changed, plan.starts, plan.next_at) == (Every(60), [], None, NEXT)


async def test_one_that_was_created_has_nothing_to_clear(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await create(timed, report)
    await do(plan.change, Every(30))

    assert not await do(plan.clear)
    assert plan.when == Every(30)


async def test_one_that_was_created_can_be_deleted_and_its_jobs_stay(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    plan = await create(timed, report)
    await pass_time(timed, 60)

    await do(plan.delete)

    assert await do(timed.app.schedules) == []
    assert len(await jobs_of(timed.app)) == 1
    again = await create(timed, report)
    assert (again.history, again.last_job_id) == ([], None)


async def test_a_declared_one_cannot_be_deleted_until_it_has_lapsed(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    timed.app.schedule("eu", report.bind("eu"), Every(60))
    await fire(timed.app)
    plan = await do(timed.app.get_schedule, "eu")
    with pytest.raises(InvalidSchedule, match=r"is declared in code.*remove it there, or pause it"):
        await do(plan.delete)

    timed.app.internals.schedules.clear()
    timed.clock.advance(3601)
    await fire(timed.app)
    await do(plan.refresh)
    assert (plan.state, plan.next_at) == ("lapsed", None)
    await do(plan.delete)
    assert await do(timed.app.schedules) == []


async def test_a_declared_one_that_is_paused_can_be_deleted_once_its_code_is_gone(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    timed.app.schedule("eu", report.bind("eu"), Every(60))
    await fire(timed.app)
    plan = await do(timed.app.get_schedule, "eu")
    await do(plan.pause)
    with pytest.raises(InvalidSchedule, match="is declared in code"):
        await do(plan.delete)

    timed.clock.advance(3601)
    await do(plan.delete)
    assert await do(timed.app.schedules) == []


async def test_one_that_cannot_be_read_here_can_be_listed_and_deleted(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    await create(timed, report)
    store = timed.app.internals.session.store
    await store.put_schedules([SchedulePut(name="new", if_version=0, settings='{"plan":{"when":{"type":"moon"}}}')])

    readable, strange = await do(timed.app.schedules)

    assert (readable.state, readable.unreadable) == ("active", None)
    assert (strange.name, strange.state, repr(strange)) == ("new", "unreadable", "<Schedule new unreadable>")
    assert "schedule 'new' cannot be read here" in strange.unreadable
    for refused in (strange.pause, strange.trigger):
        with pytest.raises(InvalidSchedule, match="cannot be read here"):
            await do(refused)
    await do(strange.delete)
    assert [plan.name for plan in await do(timed.app.schedules)] == ["eu"]


# Several at once.


async def test_operators_who_write_at_once_undo_nothing_of_each_other(timed: Timed, report: Task[[str], None]) -> None:
    await create(timed, report)
    plans = [await timed.app.aget_schedule("eu") for _ in range(6)]

    answers = await asyncio.gather(
        plans[0].achange(Every(30)), plans[1].achange(overlap="skip"), plans[2].achange(jitter=2),
        plans[3].achange(catch_up=7), plans[4].apause(), plans[5].atrigger(),
    )  # fmt: skip

    plan = await timed.app.aget_schedule("eu")
    assert all(answers)
    assert (plan.when, plan.overlap, plan.jitter, plan.catch_up, plan.paused) == (Every(30), "skip", 2.0, 7, True)
    assert (ends(plan), (await stored(plan)).version) == (["triggered"], 7)


@pytest.fixture
def wire(url: str) -> Wire:
    return Wire(url)


async def test_a_change_while_a_worker_fires_is_tried_again(url: str, wire: Wire, do: Do) -> None:
    app, other = App(wire.open), App(url)
    plan = await do(app.create_schedule, "eu", make_report(app).bind("eu"), Every(3600))
    rivals = [await other.aget_schedule("eu")]

    async def late(put: Callable[..., Any], *args: Any) -> Any:
        if rivals:
            await rivals.pop().atrigger()
        return await put(*args)

    wire.hooks["put_schedules"] = late
    try:
        assert await do(plan.change, overlap="skip")
        assert (plan.overlap, ends(plan)) == ("skip", ["triggered"])
        assert [len(wire.calls["put_schedules"])] == [3], "created, tried, tried again"
    finally:
        await app.aclose()
        await other.aclose()


@whatever_the_store
async def test_one_that_others_change_all_the_time_is_given_up(url: str, wire: Wire, do: Do) -> None:
    app, other = App(wire.open), App(url)
    plan = await do(app.create_schedule, "eu", make_report(app).bind("eu"), Every(3600))

    async def late(put: Callable[..., Any], *args: Any) -> Any:
        await (await other.aget_schedule("eu")).atrigger()
        return await put(*args)

    wire.hooks["put_schedules"] = late
    with pytest.raises(InvalidSchedule, match="'eu' is changed all the time by others: try again"):
        await do(plan.pause)
    await app.aclose()
    await other.aclose()


async def test_a_trigger_goes_by_what_has_changed_meanwhile(
    timed: Timed, report: Task[[str], None], one_way: Do
) -> None:
    plan = await create(timed, report)
    asked: list[tuple[Any, ...]] = []

    @timed.app.before_enqueue
    async def change(call: Enqueueing) -> None:
        asked.append(call.args)
        if len(asked) == 1:
            await (await timed.app.aget_schedule("eu")).achange(call=report.bind("us"))

    fired = await one_way(plan.trigger)

    assert asked == [("eu",), ("us",)]
    assert [(job.id, arguments(job)) for job in await jobs_of(timed.app)] == [(fired.job_id, ["us"])]
