"""Schedules that are triggered and backfilled, what their jobs know of them, and the hooks around that."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import App, Context, Every, FlowRun, Job, Next, State, Wait
from tenure.core.schedule import Overlap
from tenure.errors import InvalidName, InvalidOption, LeaseLost
from tenure.jobs.enqueue_hooks import Enqueueing
from tenure.tasks.task import Task

from .conftest import Do, Timed
from .planned import MINUTE, NEXT, NOW, create, ends, jobs_of, pass_time, report

__all__ = ["report"]


# Triggering.


@pytest.mark.parametrize("paused", [False, True], ids=["active", "paused"])
@pytest.mark.parametrize("overlap", Overlap)
async def test_a_trigger_fires_now_as_the_overlap_says(
    timed: Timed, report: Task[[str], None], do: Do, overlap: Overlap, paused: bool
) -> None:
    plan = await create(timed, report, overlap=overlap.value)
    if paused:
        await do(plan.pause)

    first = await do(plan.trigger)
    timed.clock.advance(1)
    second = await do(plan.trigger)
    [held, *_] = await timed.app.alease("reports")
    third = await do(plan.trigger)
    with contextlib.suppress(LeaseLost):
        await held.arelease()

    assert (first.tick, first.end, first.at, first.replaced) == (NOW, "triggered", NOW, None)
    what = [(each.end.value, each.replaced) for each in (second, third)]
    match overlap:
        case Overlap.ALLOW:
            assert what == [("triggered", None)] * 2
        case Overlap.SKIP:
            assert what == [("skipped", None)] * 2
            assert second.job_id == third.job_id == first.job_id
        case Overlap.WAIT:
            assert what == [("skipped", None), ("triggered", None)]
            assert (await timed.app.ajob(third.job_id)).state is State.BLOCKED
        case Overlap.REPLACE:
            assert what == [("triggered", first.job_id), ("triggered", second.job_id)]
            assert (await timed.app.ajob(first.job_id)).state is State.CANCELLED
    await do(plan.refresh)
    assert plan.history == [first, second, third]
    assert (plan.state, plan.next_at) == (("paused", None) if paused else ("active", NEXT))
    for job in await jobs_of(timed.app):
        assert job.tick in {NOW, NOW + timedelta(seconds=1)}


async def test_a_trigger_waits_for_no_jitter(timed: Timed, report: Task[[str], None], one_way: Do) -> None:
    plan = await create(timed, report, jitter=3600)

    fired = await one_way(plan.trigger)

    [held] = await timed.app.alease("reports")
    assert (held.job.id, held.job.tick) == (fired.job_id, NOW)


async def test_a_unique_key_that_another_job_owns_is_told(timed: Timed, report: Task[[str], None], do: Do) -> None:
    owner = await report.using(unique="k").aenqueue("x")
    plan = await do(timed.app.create_schedule, "eu", report.using(unique="k").bind("eu"), Every(60))

    fired = await do(plan.trigger)

    assert (fired.end, fired.enqueued, fired.job_id) == ("duplicate", False, owner.id)
    assert (await do(plan.refresh)).last_job_id is None


async def test_what_is_triggered_or_backfilled_inline_has_run(no_store: App, do: Do) -> None:
    ran: list[str] = []

    @no_store.task
    def note(ctx: Context, text: str) -> None:
        assert ctx.tick is not None
        ran.append(text)

    async with no_store.inline():
        plan = await do(no_store.create_schedule, "s", note.bind("x"), Every(60))
        fired = await do(plan.trigger)
        assert ran == ["x"]
        assert (await no_store.ajob(fired.job_id)).state is State.SUCCEEDED
        last = datetime.now(UTC) - 2 * MINUTE
        assert len(await do(plan.backfill, last - 2 * MINUTE, last)) == 2
        assert ran == ["x"] * 3


# Backfilling.


async def test_a_backfill_enqueues_what_was_not_fired(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await create(timed, report, overlap="skip")
    timed.clock.advance(600)
    since, until = NEXT - 25 * MINUTE, NEXT - MINUTE

    made = await do(plan.backfill, since, until)

    assert [(each.tick, each.end) for each in made] == [(since + n * MINUTE, "backfilled") for n in range(25)]
    jobs = await jobs_of(timed.app)
    assert {(job.id, job.tick) for job in jobs} == {(each.job_id, each.tick) for each in made}
    assert await do(plan.backfill, since - MINUTE / 2, until + MINUTE / 2) == [], "their jobs are recorded"
    await do(plan.refresh)
    assert (plan.history, plan.next_at) == (made[-20:], NEXT)
    assert await do(plan.backfill, until, since) == []


async def test_a_backfill_repeats_nothing_that_is_in_the_history(
    timed: Timed, report: Task[[str], None], do: Do
) -> None:
    plan = await do(timed.app.create_schedule, "eu", report.using(keep=0).bind("eu"), Every(60))
    await pass_time(timed, 60)
    [job] = await jobs_of(timed.app)
    await job.adelete()

    made = await do(plan.backfill, NEXT - MINUTE, NEXT)

    assert [each.tick for each in made] == [NEXT - MINUTE]


async def test_a_backfill_leaves_ticks_that_are_due_to_workers(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await create(timed, report)
    timed.clock.advance(600)

    assert [each.tick for each in await do(plan.backfill, NEXT - MINUTE, NEXT + MINUTE)] == [NEXT - MINUTE]
    await do(plan.pause)
    assert [each.tick for each in await do(plan.backfill, NEXT, NEXT + MINUTE)] == [NEXT, NEXT + MINUTE]


async def test_a_backfill_that_makes_no_sense_is_refused(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await create(timed, report)

    with pytest.raises(InvalidOption, match="until is in the future: a backfill is about the past"):
        await do(plan.backfill, NOW - MINUTE, NOW + MINUTE)
    with pytest.raises(InvalidOption, match="since must have a time zone"):
        await do(plan.backfill, datetime(2023, 1, 1), NOW)
    with pytest.raises(InvalidOption, match="more than 1,000 ticks: backfill a shorter time"):
        await do(plan.backfill, NOW - 1001 * MINUTE, NOW)
    assert await jobs_of(timed.app) == []

    made = await do(plan.backfill, NOW - 1000 * MINUTE, NOW)
    assert len(made) == 1000
    assert len((await do(plan.refresh)).history) == 20


# Where a job comes from.


async def test_a_job_says_which_schedule_and_tick_it_is_of(timed: Timed, report: Task[[str], None], do: Do) -> None:
    plan = await timed.app.acreate_schedule("eu", report.using(tags=["red"]).bind("eu"), Every(60))
    await timed.app.acreate_schedule("eu2", report.bind("eu2"), Every(60))
    other = await do(report.enqueue, "x")
    await pass_time(timed, 60)

    [job] = await do(timed.app.jobs, schedule="eu")
    assert (job.schedule, job.tick, job.id) == ("eu", NEXT, (await do(plan.refresh)).last_job_id)
    assert (await do(timed.app.job, job.id)).tick == NEXT
    assert [each.id for each in await do(timed.app.jobs, tag="red")] == [job.id]
    assert await do(timed.app.jobs, schedule="none") == []
    other = await do(timed.app.job, other.id)
    assert (other.schedule, other.tick) == (None, None)
    held = await timed.app.alease("reports", limit=3)
    assert [each.job.tick for each in held] == [None, NEXT, NEXT]
    for each in held:
        await each.arelease()


@pytest.mark.parametrize("filters", [{"schedule": "a b"}, {"schedule": "s", "tag": "t"}])
async def test_a_search_for_jobs_that_makes_no_sense_is_refused_before_any_io(
    no_store: App, do: Do, filters: dict[str, str]
) -> None:
    with pytest.raises((InvalidName, InvalidOption)):
        await do(no_store.jobs, **filters)


async def test_a_run_and_all_its_steps_know_the_tick(app: App, do: Do) -> None:
    ticks: list[tuple[str, object]] = []
    order = app.flow("order")

    @order.step
    def reserve(ctx: Context, sku: str) -> Next:
        ticks.append(("reserve", ctx.tick))
        return Next("charge").using(tags=["vip"])

    @order.step(then="send")
    async def charge(ctx: Context) -> dict[str, int]:
        ticks.append(("charge", ctx.tick))
        return {"amount": 3}

    @order.step
    def send(ctx: Context, amount: int) -> Wait:
        ticks.append(("send", ctx.tick))
        return Wait(timeout=0.01, on_timeout="late")

    @order.step
    def late(ctx: Context) -> None:
        ticks.append(("late", ctx.tick))

    plan = await do(app.create_schedule, "orders", order.using(tags=["new"]).bind(sku="x"), Every(86400))
    assert (plan.task, plan.flow) == ("order.reserve", "order")
    async with app.worker(["*"], poll=0.05):
        fired = await do(plan.trigger)
        run = await do(app.run, fired.job_id)
        await run.aresult(timeout=20)

    assert ticks == [(name, fired.tick) for name in ("reserve", "charge", "send", "late")]
    assert (run.schedule, run.tick) == ("orders", fired.tick)
    steps = await do(app.jobs, schedule="orders")
    assert {step.task for step in steps} == {"order.reserve", "order.charge", "order.send", "order.late"}
    vip = {step.task for step in await do(app.jobs, tag="vip")}
    assert vip == {"order.charge", "order.send", "order.late"}


async def test_a_run_that_has_handed_over_is_the_last_job(timed: Timed, do: Do) -> None:
    order = timed.app.flow("order")

    @order.step(then="charge")
    def reserve() -> None: ...

    @order.step
    def charge() -> None: ...

    plan = await do(timed.app.create_schedule, "orders", order.bind(), Every(60), overlap="skip")
    first = await do(plan.trigger)
    [held] = await timed.app.alease("default")
    await held.afinish()
    assert (await do(plan.trigger)).end == "skipped"
    [held] = await timed.app.alease("default")
    assert (held.job.task, held.job.tick, held.job.run_id) == ("order.charge", NOW, first.job_id)
    await held.afinish()
    second = await do(plan.trigger)
    assert (second.end, second.job_id == first.job_id) == ("triggered", False)


async def test_a_task_of_another_program_can_be_scheduled(timed: Timed, do: Do) -> None:
    plan = await do(timed.app.create_schedule, "far", timed.app.remote("far", queue="q").bind(1, x="y"), Every(60))

    fired = await do(plan.trigger)

    job = await do(timed.app.job, fired.job_id)
    assert (job.task, job.queue, json.loads(job.record.payload)) == ("far", "q", {"args": [1], "kwargs": {"x": "y"}})


@pytest.mark.parametrize("tag", ["tenure:", "tenure:tick:1.0", "tenure:schedule:s"])
def test_tags_that_tenure_uses_itself_are_refused(no_store: App, tag: str) -> None:
    @no_store.task
    def task() -> None: ...

    with pytest.raises(InvalidOption, match="tags must be names that do not begin with 'tenure:'"):
        task.using(tags=["mine", tag])
    with pytest.raises(InvalidOption, match="'tenure:'"):
        Next("x").using(tags=[tag])


# Hooks.


async def test_hooks_are_asked_and_told_of_what_is_fired(timed: Timed, report: Task[[str], None], do: Do) -> None:
    seen: list[tuple[Any, ...]] = []
    plan = await create(timed, report, overlap="wait")

    @timed.app.before_enqueue
    def asked(call: Enqueueing) -> None:
        seen.append(("before", call.task, call.args))

    @report.after_enqueue
    async def told(job: Job[Any] | FlowRun) -> None:
        await asyncio.sleep(0)
        seen.append(("after", job.id, job.state))

    await pass_time(timed, 60)
    [held] = await timed.app.alease("reports")
    fired = await do(plan.trigger)
    await do(plan.trigger)  # which is skipped
    await held.arelease()

    [first, second] = await jobs_of(timed.app)
    assert second.id == fired.job_id
    before = ("before", "report", ("eu",))
    assert seen == [before, ("after", first.id, "waiting"), before, ("after", second.id, "blocked"), before]


async def test_what_a_hook_refuses_is_history(
    timed: Timed, report: Task[[str], None], do: Do, caplog: pytest.LogCaptureFixture
) -> None:
    plan = await create(timed, report, catch_up=2)
    told: list[object] = []
    timed.app.after_enqueue(told.append)

    @timed.app.before_enqueue
    def refuse(call: Enqueueing) -> bool:
        if call.job.id == fails:
            raise ZeroDivisionError
        return False

    fails = ""
    await pass_time(timed, 60)
    refused = await do(plan.trigger)
    await do(plan.refresh)

    assert (ends(plan), plan.next_at, plan.last_job_id) == (["refused", "refused"], NEXT + MINUTE, None)
    assert (refused.end, refused.enqueued, refused.job_id, refused.at) == ("refused", False, None, NOW + MINUTE)
    assert plan.history[-1] == refused
    assert (await jobs_of(timed.app), told) == ([], [])


async def test_a_hook_that_fails_refuses_its_tick_alone(
    timed: Timed, report: Task[[str], None], do: Do, caplog: pytest.LogCaptureFixture
) -> None:
    await timed.app.acreate_schedule("asia", report.bind("asia"), Every(60))
    plan = await create(timed, report)

    @timed.app.before_enqueue
    def ask(call: Enqueueing) -> None:
        if call.args == ("asia",):
            raise ZeroDivisionError("no")

    await pass_time(timed, 60)

    assert ends(await do(timed.app.get_schedule, "asia")) == ["refused"]
    assert ends(await do(plan.refresh)) == ["enqueued"]
    [line] = [record for record in caplog.records if "before_enqueue hook failed" in record.getMessage()]
    assert line.getMessage().startswith("schedule asia:")
    assert line.exc_info is not None


async def test_a_hook_that_fails_afterwards_is_logged_and_stops_nothing(
    timed: Timed, report: Task[[str], None], do: Do, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    plan = await create(timed, report)
    await timed.app.acreate_schedule("us", report.bind("us"), Every(60))

    @timed.app.after_enqueue
    def tell(job: Job[Any] | FlowRun) -> None:
        told.append(job.id)
        raise ZeroDivisionError("no")

    await pass_time(timed, 60)
    fired = await do(plan.trigger)

    assert fired.end == "triggered"
    assert set(told) == {job.id for name in ("eu", "us") for job in await jobs_of(timed.app, name)}
    assert len([each for each in caplog.messages if "an after_enqueue hook failed" in each]) == 3
