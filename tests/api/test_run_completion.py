"""Steps of runs that are completed from outside: in whatever state, with whatever a step may return, and once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure import AbortReason, App, State, current
from tenure.core.outcome import Done, Next
from tenure.errors import (
    BlockerNotFound,
    LeaseLost,
    MissingAttribute,
    PayloadError,
    UniqueConflict,
    UnknownTask,
    WrongState,
)
from tenure.stores.base import Store
from tenure.stores.values import Verdict

from .conftest import Do, one_way
from .orders import make_order, url, waiting_run, work

__all__ = ["url"]

do = one_way


@pytest.mark.parametrize("state", ["waiting", "scheduled", "running", "parked"])
async def test_a_step_is_completed_in_whatever_state_it_is(app: App, do: Do, state: str) -> None:  # Q60
    order = make_order(app)
    run = await do(order.using(delay=1000 if state == "scheduled" else 0).start, sku="x")
    if state == "running":
        [held] = await do(app.lease, "stock")
    if state == "parked":
        await work(app)

    await do(run.complete, {"reservation": "by hand", "approved": True})

    assert (run.state, run.step) == (State.WAITING, "ship" if state == "parked" else "approve")
    if state == "running":
        with pytest.raises(LeaseLost):
            await do(held.finish)
    assert (await do(run.attributes))["reservation"] == "by hand"
    assert [step.name for step in await do(run.steps)][-1] == run.step


async def test_a_blocked_step_is_completed_without_its_blockers(app: App, do: Do) -> None:  # Q60
    order = make_order(app)
    blocker = await do(app.remote("t", queue="t").enqueue)
    run = await do(order.using(after=[blocker]).start, sku="x")
    assert run.state is State.BLOCKED

    await do(run.complete, {"reservation": "by hand"})

    assert (await do(run.refresh)).step == "approve"
    await do(blocker.complete, 1)
    assert [step.name for step in await do(run.steps)] == ["reserve", "approve"]


@pytest.mark.parametrize(
    ("value", "step", "state"),
    [
        (None, "ship", None),
        ({"approved": True}, "ship", State.WAITING),
        (Next("refuse", why="too dear"), "refuse", State.WAITING),
        (Next("refuse").using(delay=60), "refuse", State.WAITING),
        (Done("enough"), "approve", State.SUCCEEDED),
    ],
)
async def test_a_value_from_outside_means_what_a_returned_one_means(
    app: App, do: Do, value: Any, step: str, state: State | None
) -> None:
    run = await waiting_run(app, do, **({"approved": True} if value is None else {}))

    await do(run.complete, value)

    assert (run.step, run.state) == (step, state or State.WAITING)
    found = await do(app.run, run.id)
    assert (found.step, found.state) == (step, state or State.WAITING)


async def test_a_completion_may_fan_out(app: App, do: Do) -> None:
    @app.task(queue="photos")
    async def photograph(n: int) -> int:
        return n

    run = await waiting_run(app, do)
    await do(run.complete, Next("refuse", why="why").using(after=[photograph.bind(n) for n in range(3)]))

    assert run.state is State.BLOCKED
    await work(app)
    assert await do(run.result, timeout=10) == "refused: why"


async def test_a_step_is_completed_only_if_it_is_the_current_one(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    order_steps = app.tasks
    with pytest.raises(WrongState, match="its current step is 'approve', not 'reserve'"):
        await do(run.complete, step="reserve")

    await do(run.complete, {"approved": True}, step=order_steps["order.approve"])

    assert run.step == "ship"
    with pytest.raises(WrongState):
        await do(run.complete, {"approved": True}, step="approve")
    assert len(await do(run.steps)) == 3


async def test_a_run_that_has_ended_is_not_completed(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    await do(run.complete, Done(1))
    with pytest.raises(WrongState, match="succeeded"):
        await do(run.complete, Done(2))
    assert await do(run.result, timeout=10) == 1


async def test_a_completion_that_cannot_be_says_why_and_changes_nothing(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    taken = app.remote("t").using(unique="k", unique_raises=True)
    holder = await do(taken.enqueue)

    with pytest.raises(MissingAttribute) as missing:
        await do(run.complete, None)
    with pytest.raises(BlockerNotFound) as unknown:
        await do(run.complete, Next("refuse").using(after=["nobody"]))
    with pytest.raises(UniqueConflict) as conflict:
        await do(run.complete, Next("refuse").using(after=[taken.bind()]))
    with pytest.raises(TypeError, match="gave an int"):
        await do(run.complete, 5)
    with pytest.raises(PayloadError, match="approved"):
        await do(run.complete, {"approved": object()})

    assert (missing.value.task, missing.value.attribute) == ("order.ship", "approved")
    assert unknown.value.blocker == "nobody"
    assert (conflict.value.task, conflict.value.key, conflict.value.holder) == ("t", "k", holder.id)
    assert (await do(run.refresh)).state is State.BLOCKED
    assert len(await do(run.steps)) == 2


async def test_a_step_alone_is_completed_as_the_run_is(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    step = await do(app.job, (await do(run.steps))[-1].id)

    await do(step.complete, {"approved": True})

    assert (await do(run.refresh)).step == "ship"
    with pytest.raises(WrongState, match="succeeded"):
        await do(step.complete, {"approved": True})
    first = await do(app.job, run.id)
    with pytest.raises(WrongState, match="succeeded"):
        await do(first.complete, {})


async def test_without_the_code_of_the_flow_a_step_is_completed_once_and_decided_about_where_it_is(
    app: App, url: str, do: Do
) -> None:  # more in test_remote_flow.py
    run = await waiting_run(app, do)
    stranger = App(url)
    found = await do(stranger.run, run.id)
    job = await do(stranger.job, run.id)

    await do(found.complete, {"approved": True})
    with pytest.raises(WrongState, match="succeeded"):
        await do(job.complete, {})
    with pytest.raises(WrongState, match="it was completed before"):
        await do(run.complete, {"approved": False})  # by the code itself: neither is the value to be lost

    await work(app)
    assert await do(run.result, 20) == "shipped r-x"
    await do(stranger.close)


async def test_a_task_of_the_name_of_a_step_does_not_complete_it(app: App, url: str, do: Do) -> None:
    run = await waiting_run(app, do)
    stranger = App(url)
    stranger.task(name="order.approve")(lambda: None)

    with pytest.raises(UnknownTask, match=r"order\.approve"):
        await do((await do(stranger.run, run.id)).complete, {"approved": True})

    assert (await do(run.refresh)).state is State.BLOCKED
    await do(stranger.close)


class Late:
    """Lets somebody else do something between the look at a run and what is done about it."""

    def __init__(self, app: App, store: Store) -> None:
        self.meanwhile: Any = None
        self._complete = store.complete
        store.complete = self.complete  # type: ignore[method-assign]
        self.app = app

    async def complete(self, job_id: str, transition: Any) -> Verdict:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await self._complete(job_id, transition)


async def test_a_step_that_hands_over_meanwhile_leaves_the_completion_to_the_next(app: App) -> None:  # I13
    run = await make_order(app).astart(sku="x", approved=True)
    late = Late(app, app.internals.session.store)
    other = await app.arun(run.id)
    late.meanwhile = lambda: other.acomplete({"reservation": "other"})

    await run.acomplete(None)

    assert [(step.name, step.state) for step in await run.asteps()] == [
        ("reserve", State.SUCCEEDED),
        ("approve", State.SUCCEEDED),
        ("ship", State.WAITING),
    ]


async def test_with_a_step_named_it_is_refused_then(app: App) -> None:
    run = await make_order(app).astart(sku="x", approved=True)
    late = Late(app, app.internals.session.store)
    other = await app.arun(run.id)
    late.meanwhile = lambda: other.acomplete({"reservation": "other"})

    with pytest.raises(WrongState, match="'approve', not 'reserve'"):
        await run.acomplete({"reservation": "mine"}, step="reserve")

    assert (await run.aattributes())["reservation"] == "other"
    assert len(await run.asteps()) == 2


async def test_a_run_that_is_completed_has_its_holder_told(app: App) -> None:  # Q60
    seen: list[AbortReason | None] = []
    started = asyncio.Event()
    slow = app.flow("slow")

    @slow.step(then="last")
    async def only() -> None:
        started.set()
        try:
            await current().signal.wait()
        finally:
            seen.append(current().signal.reason)

    @slow.step
    async def last() -> int:
        return 5

    run = await slow.astart()
    async with app.worker(poll=0.05, concurrency=2), asyncio.timeout(20):
        await started.wait()
        await run.acomplete()
        assert await run.aresult(timeout=20) == 5
        while not seen:
            await asyncio.sleep(0.01)
    assert seen == [AbortReason.COMPLETED]
    assert [step.state for step in await run.asteps()] == [State.SUCCEEDED] * 2
