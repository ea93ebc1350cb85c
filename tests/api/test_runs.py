"""The handle on one run of a flow: what is known, waiting for it, and what can be done to it."""

from __future__ import annotations

import asyncio

import pytest

from tenure import AbortReason, App, State, current
from tenure.core.outcome import Done, Next
from tenure.errors import (
    HasDependents,
    InvalidOption,
    JobCancelled,
    JobFailed,
    JobNotFound,
    ResultGone,
    ResultTimeout,
    WrongState,
)

from .conftest import Do, one_way
from .orders import make_order, url, waiting_run, work

__all__ = ["url"]

do = one_way


# What is known of it.


async def test_the_last_known_state_costs_no_io(app: App, do: Do) -> None:  # G34, T8
    run = await do(make_order(app).start, sku="x", customer="c1")
    assert (run.flow, run.step, run.state, run.done, run.failed) == ("order", "reserve", State.WAITING, False, False)
    assert (run.error, run.completed_queue, run.failed_queue, run.duplicate) == (None, None, None, False)

    await work(app)

    assert run.step == "reserve"
    assert await do(run.refresh) is run
    assert (run.step, run.state, run.completed_queue) == ("approve", State.BLOCKED, "stock")
    assert "approve" in repr(run)


async def test_a_run_that_ends_has_the_result_of_its_last_step(app: App, do: Do) -> None:  # Q41
    run = await waiting_run(app, do)
    await do(run.complete, {"approved": True})
    await work(app)

    assert await do(run.result, timeout=10) == "shipped r-x"
    assert (run.state, run.step, run.completed_queue, run.failed_queue) == (State.SUCCEEDED, "ship", "dock", None)


async def test_a_run_that_fails_says_where_and_why(app: App, do: Do) -> None:  # G34
    run = await waiting_run(app, do)
    await do(run.complete, {"approved": False})
    await work(app)

    with pytest.raises(JobFailed, match="not approved") as failure:
        await do(run.result, timeout=10)

    assert failure.value.job_id == run.id
    assert (run.done, run.failed, run.failed_queue, run.completed_queue) == (True, True, "dock", "desk")
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("ValueError", "not approved")


async def test_attributes_are_read_as_they_are_now(app: App, do: Do) -> None:  # G26
    run = await do(make_order(app).start, sku="x", customer="c1", note={"a": [1, None]})
    assert await do(run.attributes) == {"sku": "x", "customer": "c1", "note": {"a": [1, None]}}
    await work(app)
    assert await do(run.attributes, "reservation", "nothing") == {"reservation": "r-x"}


async def test_a_run_may_know_nothing(app: App, do: Do) -> None:
    idle = app.flow("idle")

    @idle.step
    async def only() -> None: ...

    run = await do(idle.start)
    assert await do(run.attributes) == {}


async def test_steps_are_its_history(app: App, do: Do) -> None:  # Q63
    run = await waiting_run(app, do)
    await do(run.complete, {"approved": False})
    await work(app)

    reserve, approve, ship = await do(run.steps)

    assert (reserve.id, reserve.name, reserve.queue, reserve.state, reserve.attempts) == (
        run.id, "reserve", "stock", State.SUCCEEDED, 1,
    )  # fmt: skip
    assert reserve.started_at is not None
    assert reserve.ended_at is not None
    assert reserve.created_at <= reserve.started_at <= reserve.ended_at <= approve.created_at
    assert reserve.worker is not None
    assert (approve.name, approve.state, approve.error) == ("approve", State.SUCCEEDED, None)
    assert (ship.name, ship.state, ship.attempts) == ("ship", State.FAILED, 1)
    assert ship.error is not None
    assert ship.error.message == "not approved"


async def test_a_long_history_comes_in_pages(app: App, do: Do) -> None:  # Q43
    loop = app.flow("loop")

    @loop.step
    async def again(n: int) -> Next | Done:
        return Next("again", n=n - 1) if n else Done("out")

    run = await do(loop.start, n=12)
    await work(app)
    first = await do(run.steps, limit=10)
    rest = await do(run.steps, limit=10, cursor=first.cursor)

    assert (len(first), len(rest), rest.cursor) == (10, 3, None)
    assert len({step.id for step in first + rest}) == 13
    with pytest.raises(InvalidOption, match="limit"):
        await do(run.steps, limit=0)


async def test_a_run_is_found_by_its_id(app: App, do: Do) -> None:
    run = await waiting_run(app, do)

    found = await do(app.run, run.id)

    assert (found.id, found.flow, found.step, found.state) == (run.id, "order", "approve", State.BLOCKED)
    assert found.created_at is not None


@pytest.mark.parametrize(
    "method", ["refresh", "attributes", "steps", "cancel", "retry", "trigger", "release", "delete", "complete"]
)
async def test_a_run_that_is_gone_is_not_found(app: App, do: Do, method: str) -> None:
    run = await do(make_order(app).start, sku="x")
    await do(run.delete)

    with pytest.raises(JobNotFound, match=f"no run '{run.id}'"):
        await do(getattr(run, method))
    with pytest.raises(JobNotFound, match="no run"):
        await do(app.run, run.id)


# Waiting.


async def test_a_result_that_does_not_come_in_time(app: App, do: Do) -> None:  # Q62
    run = await waiting_run(app, do)
    for timeout in (0, 0.05):
        with pytest.raises(ResultTimeout):
            await do(run.result, timeout=timeout)
    await do(run.complete, Done(1))
    again = await do(app.run, run.id)
    assert await do(again.result, timeout=0) == 1


async def test_the_result_of_a_run_that_is_gone(app: App, do: Do) -> None:
    run = await do(make_order(app).start, sku="x")
    await do(run.delete)
    with pytest.raises(ResultGone):
        await do(run.result, timeout=10)


async def test_waiting_begun_at_the_first_step_ends_with_the_last(app: App, do: Do) -> None:  # Q62
    order = make_order(app)
    run = await do(order.start, sku="x", customer="c1")
    waiter = asyncio.ensure_future(do(run.result, timeout=20))
    await work(app)
    await asyncio.sleep(0)
    assert not waiter.done()
    other = await do(app.run, run.id)
    await do(other.complete, {"approved": True})
    await work(app)

    assert await waiter == "shipped r-x"


async def test_the_first_job_of_a_run_stands_for_the_run_to_whoever_waits(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    job = await do(app.job, run.id)
    assert (job.state, job.task) == (State.SUCCEEDED, "order.reserve")
    with pytest.raises(ResultTimeout):
        await do(job.result, timeout=0)
    await do(run.complete, Done("end"))
    assert await do(job.result, timeout=10) == "end"
    assert await do(job.result, timeout=0) == "end"


# What operators do.


async def test_cancelling_a_run_ends_it_where_it_is(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    await do(run.cancel)
    assert run.state is State.CANCELLED
    with pytest.raises(JobCancelled):
        await do(run.result, timeout=10)
    with pytest.raises(WrongState):
        await do(run.cancel)


async def test_runs_are_cancelled_with_jobs(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    job = await do(app.remote("t").enqueue)
    assert await do(app.cancel, run, job, run.id) == 2
    assert (await do(run.refresh)).state is State.CANCELLED


async def test_retrying_a_run_goes_on_from_the_failed_step(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    await do(run.complete, {"approved": False})
    await work(app)
    with pytest.raises(WrongState):
        await do(run.trigger)
    await do(run.refresh)
    assert run.failed

    await do(run.retry)

    assert (run.state, run.failed, run.failed_queue) == (State.WAITING, False, None)
    await work(app)
    assert [(step.name, step.state) for step in await do(run.steps)] == [
        ("reserve", State.SUCCEEDED),
        ("approve", State.SUCCEEDED),
        ("ship", State.FAILED),
    ]
    with pytest.raises(WrongState, match="handed over"):
        await do((await do(app.job, (await do(run.steps))[1].id)).retry)


async def test_triggering_a_run_lets_its_step_run_now(app: App, do: Do) -> None:  # Q58
    run = await waiting_run(app, do)
    await do(run.complete, Next("refuse", why="no").using(delay=1000))
    await do(run.trigger)
    await work(app)
    assert await do(run.result, timeout=10) == "refused: no"


async def test_a_run_is_deleted_with_everything_it_had(app: App, do: Do) -> None:  # Q61, G42
    run = await waiting_run(app, do)
    ids = [step.id for step in await do(run.steps)]
    await do(run.delete)

    assert await app.internals.session.store.get(ids) == [None, None]
    assert await do(app.flows) == []


async def test_a_run_that_others_wait_for_is_not_deleted_unless_they_go_too(app: App, do: Do) -> None:  # Q61
    run = await waiting_run(app, do)
    waiting = await do(app.remote("t").using(after=[run]).enqueue)

    with pytest.raises(HasDependents) as refusal:
        await do(run.delete)
    assert refusal.value.dependents == (waiting.id,)
    assert await do(app.flows) != []
    await do(run.delete, cascade=True)

    with pytest.raises(JobNotFound):
        await do(waiting.refresh)


async def test_runs_and_jobs_are_deleted_together_or_not_at_all(app: App, do: Do) -> None:  # Q61
    order = make_order(app)
    one = await do(order.start, sku="x")
    two = await do(order.using(after=[one]).start, sku="y")
    job = await do(app.remote("t").using(after=[two]).enqueue)

    with pytest.raises(HasDependents):
        await do(app.delete, one, two)
    assert {run.id for run in await do(app.flows)} == {one.id, two.id}
    assert await do(app.delete, job, two.id, one) == 3
    assert await do(app.jobs) == []


async def test_a_run_that_is_deleted_has_its_holder_told(app: App) -> None:  # Q61
    seen: list[AbortReason | None] = []
    started = asyncio.Event()
    slow = app.flow("slow")

    @slow.step
    async def only() -> None:
        started.set()
        try:
            await current().signal.wait()
        finally:
            seen.append(current().signal.reason)

    run = await slow.astart()
    async with app.worker(poll=0.05), asyncio.timeout(20):
        await started.wait()
        await run.adelete()
        while not seen:
            await asyncio.sleep(0.01)
    assert seen == [AbortReason.NOT_FOUND]
