"""The handle on one run of a flow: what is known, what can be done to it, and how runs are found."""

from __future__ import annotations

import asyncio
import enum
import uuid
from typing import Any

import pytest

from tenure import AbortReason, App, Job, State, current
from tenure.errors import (
    BlockerNotFound,
    HasDependents,
    InvalidName,
    InvalidOption,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LeaseLost,
    MissingAttribute,
    PayloadError,
    ResultGone,
    ResultTimeout,
    UniqueConflict,
    UnknownTask,
    WrongState,
)
from tenure.flow import Flow
from tenure.outcome import Done, Fail, Next, Wait
from tenure.run import FlowRun
from tenure.stores.base import Store
from tenure.stores.values import Verdict
from tests.conftest import KINDS, a_url

from .conftest import Do, Timed, one_way

do = one_way


@pytest.fixture(params=["memory", "sqlite", *(pytest.param(kind, marks=pytest.mark.long) for kind in KINDS[2:])])
def url(request: pytest.FixtureRequest) -> str:
    """Stores with a server in long runs only: most of this is the same code on all, and conformance has what is not."""
    return a_url(request)


def make_order(app: App) -> Flow:
    """Three steps, of which the second waits for somebody; each in a queue of its own."""
    order = app.flow("order", lookup=["customer", "tags"])

    @order.step(then="approve", queue="stock", retry=None)
    async def reserve(sku: str) -> dict[str, str]:
        if sku == "none":
            raise Fail("sold out")
        return {"reservation": f"r-{sku}"}

    @order.step(then="ship", queue="desk")
    async def approve() -> Wait:
        return Wait()

    @order.step(queue="dock", retry=None)
    async def ship(reservation: str, approved: bool) -> str:
        if not approved:
            raise ValueError("not approved")
        return f"shipped {reservation}"

    @order.step(queue="dock")
    async def refuse(why: str = "") -> str:
        return f"refused: {why}"

    return order


async def work(app: App, *queues: str) -> None:
    """Run everything that can be run in these queues, or in all."""
    await asyncio.to_thread(app.worker(queues or ["*"], poll=0.05).run, until_empty=True)


async def waiting_run(app: App, do: Do, **attributes: Any) -> FlowRun:
    """A run that waits to be approved."""
    run: FlowRun = await do(make_order(app).start, **{"sku": "x", "customer": "c1"} | attributes)
    await work(app)
    return run


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
    "method", ["refresh", "attributes", "steps", "cancel", "retry", "trigger", "delete", "complete"]
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


# Completion from outside.


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


async def test_without_the_code_of_the_flow_a_step_is_not_completed(app: App, url: str, do: Do) -> None:
    run = await waiting_run(app, do)
    stranger = App(url)
    found = await do(stranger.run, run.id)
    job = await do(stranger.job, run.id)

    with pytest.raises(UnknownTask, match=r"order\.approve"):
        await do(found.complete, {"approved": True})
    with pytest.raises(UnknownTask, match=r"order\.reserve"):
        await do(job.complete, {})

    assert (await do(run.refresh)).state is State.BLOCKED
    await do(stranger.close)


class Late:
    """Lets somebody else do something between the look at a run and what is done about it."""

    def __init__(self, app: App, store: Store) -> None:
        self.meanwhile: Any = None
        self._complete = store.complete
        store.complete = self.complete  # type: ignore[method-assign]
        self.app = app

    async def complete(self, job_id: str, step: Any) -> Verdict:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await self._complete(job_id, step)


async def test_a_step_that_hands_over_meanwhile_leaves_the_completion_to_the_next(app: App) -> None:  # I13
    run = await make_order(app).astart(sku="x", approved=True)
    late = Late(app, app.session.store)
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
    late = Late(app, app.session.store)
    other = await app.arun(run.id)
    late.meanwhile = lambda: other.acomplete({"reservation": "other"})

    with pytest.raises(WrongState, match="'approve', not 'reserve'"):
        await run.acomplete({"reservation": "mine"}, step="reserve")

    assert (await run.aattributes())["reservation"] == "other"
    assert len(await run.asteps()) == 2


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

    assert await app.session.store.get(ids) == [None, None]
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


# Finding runs.


class Colour(enum.Enum):
    RED = "red"


async def test_runs_are_found_by_lookup_attributes(app: App, do: Do) -> None:  # G40, G41
    order = make_order(app)
    one = await do(order.start, sku="x", customer="c1", tags=["a", "b", 7])
    two = await do(order.start, sku="x", customer="c1", tags=["b"])
    await do(order.start, sku="x", customer="c2", tags="c")

    async def found(**attribute: Any) -> list[str]:
        return [run.id for run in await do(order.find, **attribute)]

    assert await found(customer="c1") == [two.id, one.id]
    assert await found(tags="b") == [two.id, one.id]
    assert await found(tags="a") == [one.id]
    assert await found(tags=7) == [one.id]
    assert await found(tags="7") == []
    assert await found(customer="c3") == []
    page = await do(order.find, customer="c1", limit=1)
    assert [run.id for run in await do(order.find, customer="c1", limit=1, cursor=page.cursor)] == [one.id]


@pytest.mark.parametrize("value", [True, 1.5, -3, "", "ä\x00€", "x" * 5000, 2**63 - 1])
async def test_every_scalar_finds_its_run_and_no_other(app: App, do: Do, value: Any) -> None:
    order = make_order(app)
    run = await do(order.start, sku="x", customer=value)
    await do(order.start, sku="x", customer=f"{value}.")

    assert [found.id for found in await do(order.find, customer=value)] == [run.id]


async def test_a_value_with_a_type_finds_its_run(app: App, do: Do) -> None:
    typed = app.flow("typed", lookup=["colour", "key"])

    @typed.step
    async def only(colour: Colour, key: uuid.UUID) -> None: ...

    key = uuid.uuid4()
    run = await do(typed.start, colour=Colour.RED, key=key)

    assert [found.id for found in await do(typed.find, colour=Colour.RED)] == [run.id]
    assert [found.id for found in await do(typed.find, key=key)] == [run.id]


async def test_a_step_may_change_what_its_run_is_found_by(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    order = app._flows["order"]
    await do(run.complete, {"approved": True, "customer": "c9"})
    assert [found.id for found in await do(order.find, customer="c9")] == [run.id]
    assert await do(order.find, customer="c1") == []


@pytest.mark.parametrize("search", [{}, {"customer": 1, "tags": 2}, {"sku": "x"}, {"customer": None}, {"customer": ["a"]},
                                    {"customer": {"a": 1}}, {"customer": object()}, {"customer": 1, "limit": 0}])  # fmt: skip
async def test_a_search_that_makes_no_sense_is_refused_before_any_io(
    no_store: App, do: Do, search: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOption):
        await do(make_order(no_store).find, **search)


async def test_runs_are_listed_by_flow_and_state(app: App, do: Do) -> None:  # Q63
    order = make_order(app)
    other = app.flow("other")

    @other.step(queue="other")
    async def only() -> None: ...

    runs = [await do(order.start, sku=sku) for sku in ("a", "none", "b")]
    await do(other.start)
    await work(app, "stock")

    async def listed(**search: Any) -> list[str]:
        return [run.id for run in await do(app.flows, **search)]

    assert await listed(flow="order") == [run.id for run in reversed(runs)]
    assert await listed(flow=order, state="failed") == [runs[1].id]
    assert await listed(flow=order, state=State.WAITING) == [runs[2].id, runs[0].id]
    assert len(await listed()) == 4
    assert await listed(flow="nothing") == []
    page = await do(app.flows, flow=order, limit=2)
    assert [run.id for run in await do(app.flows, flow=order, limit=2, cursor=page.cursor)] == [runs[0].id]


@pytest.mark.parametrize("search", [{"state": "lost"}, {"limit": 0}, {"limit": 1001}])
async def test_a_listing_that_makes_no_sense_is_refused_before_any_io(
    no_store: App, do: Do, search: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOption):
        await do(no_store.flows, **search)
    with pytest.raises(InvalidName):
        await do(no_store.flows, flow="a b")


# Unique runs.


async def test_the_key_of_a_run_is_held_until_the_run_has_ended(app: App, do: Do) -> None:  # Q56, I14
    order = make_order(app)
    keyed = order.using(unique="cart:1")
    run = await do(keyed.start, sku="x", customer="c1")
    await work(app)

    again = await do(keyed.start, sku="y", customer="c2")
    assert (again.id, again.duplicate, run.duplicate) == (run.id, True, False)
    assert again.step is None
    assert (await do(again.refresh)).step == "approve"
    assert (await do(again.attributes))["sku"] == "x"
    with pytest.raises(UniqueConflict) as conflict:
        await do(keyed.using(unique_raises=True).start, sku="y")
    assert conflict.value.holder == run.id

    await do(run.complete, Done())
    assert not (await do(keyed.start, sku="y")).duplicate


@pytest.mark.parametrize("end", ["fail", "cancel", "delete", "complete"])
async def test_every_end_of_a_run_frees_its_key(app: App, do: Do, end: str) -> None:  # F26, I14
    keyed = make_order(app).using(unique="k")
    run = await do(keyed.start, sku="none" if end == "fail" else "x")
    await work(app)
    match end:
        case "complete":
            await do(run.complete, Done())
        case "cancel" | "delete":
            await do(getattr(run, end))

    assert not (await do(keyed.start, sku="x")).duplicate


async def test_a_window_outlasts_the_run_and_ends_by_itself(timed: Timed) -> None:  # Q56
    app, clock = timed
    keyed = make_order(app).using(unique="k", window=60)
    run = await keyed.astart(sku="x")
    await run.acomplete({"reservation": "r"})
    await run.acomplete(Done())
    clock.advance(59)
    again = await keyed.astart(sku="x")
    assert (again.id, again.duplicate) == (run.id, True)
    assert (await again.arefresh()).state is State.SUCCEEDED
    clock.advance(1)

    assert not (await keyed.astart(sku="x")).duplicate


async def test_a_key_made_from_the_attributes(app: App, do: Do) -> None:
    keyed = make_order(app).using(unique=True)
    run = await do(keyed.start, sku="x", customer="c1")
    assert (await do(keyed.start, customer="c1", sku="x")).id == run.id
    assert not (await do(keyed.start, customer="c2", sku="x")).duplicate


async def test_retrying_a_run_whose_key_is_taken_names_the_holder(app: App, do: Do) -> None:
    keyed = make_order(app).using(unique="k")
    run = await do(keyed.start, sku="none")
    await work(app)
    holder = await do(keyed.start, sku="x")

    with pytest.raises(UniqueConflict) as conflict:
        await do(run.retry)

    assert (conflict.value.key, conflict.value.holder) == ("k", holder.id)


async def test_a_duplicate_that_is_a_run_is_completed_as_one(app: App, do: Do) -> None:
    run = await do(make_order(app).using(unique="k").start, sku="x")
    stray: Job[Any] = await do(app.remote("order.reserve", queue="stock").using(unique="k").enqueue)
    assert (stray.id, stray.duplicate) == (run.id, True)

    await do(stray.complete, {"reservation": "r"})

    assert (await do(run.refresh)).step == "approve"
