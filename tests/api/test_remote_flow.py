"""Flows whose code is elsewhere: their runs are started, found, followed, completed and deleted by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest

from tenure import App, Done, Next, Retry, State, Wait
from tenure.errors import InvalidName, InvalidOption, JobBroken, JobNotFound, LeaseLost, PayloadError, WrongState
from tenure.jobs.run import FlowRun
from tenure.tasks.flow import RemoteFlow

from .conftest import Do, whatever_the_store


@pytest.fixture
async def office(url: str) -> AsyncIterator[App]:
    """The program that has the code, on the same store."""
    app = App(url, retry=None)
    trip = app.flow("trip", lookup=["customer"])

    @trip.step(then="approve", queue="desk")
    async def book(customer: str, day: date, seats: int = 1) -> dict[str, str]:
        return {"booking": f"{seats} for {customer} on {day:%d.%m.}"}

    @trip.step(then="tickets", queue="desk")
    async def approve() -> Wait:
        return Wait()

    @trip.step(queue="print")
    async def tickets(booking: str, approved_on: date | None = None) -> str:
        return f"{booking}, approved {approved_on}"

    @trip.step(queue="print")
    async def refuse(why: str) -> str:
        return f"refused: {why}"

    yield app
    await app.aclose()


@pytest.fixture
def trip(app: App) -> RemoteFlow:
    """The flow, as a program knows it that has none of its code."""
    return app.remote_flow("trip", first="book", queue="desk", lookup=["customer"])


async def work(office: App) -> None:
    await asyncio.to_thread(office.worker(poll=0.05).run, until_empty=True)


async def waiting(trip: RemoteFlow, office: App) -> FlowRun:
    """A run that waits to be approved."""
    run = await trip.astart(customer="c1", day="2026-11-18")
    await work(office)
    assert ((await run.arefresh()).step, run.state) == ("approve", State.BLOCKED)
    return run


async def test_a_run_is_started_found_followed_and_deleted_without_the_code(
    app: App, office: App, trip: RemoteFlow, do: Do
) -> None:
    run = await do(trip.start, customer="c1", day="2026-11-18", seats=2, of_no_use=[1])
    [other] = await do(trip.using(delay=3600, tags=["later"]).start_many, [{"customer": "c2", "day": "2026-11-19"}])
    assert (run.flow, run.step, run.state) == ("trip", "book", State.WAITING)

    await work(office)

    assert [found.id for found in await do(trip.find, customer="c1")] == [run.id]
    assert [found.id for found in await do(app.flows, flow=trip)] == [other.id, run.id]
    found = await do(app.run, run.id)
    assert (found.step, found.state, found.completed_queue) == ("approve", State.BLOCKED, "desk")
    assert [step.name for step in await do(found.steps)] == ["book", "approve"]
    assert (await do(found.attributes))["booking"] == "2 for c1 on 18.11."
    with pytest.raises(InvalidOption, match="cannot be found by 'day'"):
        await do(trip.find, day="2026-11-18")

    await do(found.delete)

    with pytest.raises(JobNotFound):
        await do(app.run, run.id)
    assert await do(trip.find, customer="c1") == []


async def test_a_run_is_completed_without_the_code_and_goes_on_where_that_is(
    office: App, trip: RemoteFlow, do: Do
) -> None:  # Q60
    run = await waiting(trip, office)

    await do(run.complete, {"approved_on": "2026-11-17"}, step="approve")

    assert (run.state, run.step) == (State.WAITING, "approve")
    with pytest.raises(
        WrongState, match="it was completed before, and waits for a worker that has its code to decide what follows"
    ):
        await do(run.complete, {"approved_on": "2026-11-16"})
    await work(office)
    assert await do(run.result, 20) == "1 for c1 on 18.11., approved 2026-11-17"
    assert [step.name for step in await do(run.steps)] == ["book", "approve", "approve", "tickets"]
    with pytest.raises(WrongState, match="succeeded"):
        await do(run.complete)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, "1 for c1 on 18.11., approved None"),
        (Next("refuse", why="too dear"), "refused: too dear"),
        (Done({"never": "mind"}), {"never": "mind"}),
    ],
)
async def test_a_value_means_what_it_means_where_the_code_is(
    office: App, trip: RemoteFlow, value: Any, result: Any
) -> None:
    run = await waiting(trip, office)

    await run.acomplete(value)
    if isinstance(value, Done):
        assert run.state is State.SUCCEEDED  # no worker has to decide about that
    else:
        await work(office)

    assert await run.aresult(20) == result


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"approved_on": "someday"}, "PayloadError: .*approved_on"),
        (Next("nowhere"), "InvalidOption: flow 'trip' has no step 'nowhere'"),
        ("yes", "(PayloadError|TypeError): "),
    ],
)
async def test_a_value_that_means_nothing_breaks_the_run_and_is_told(
    office: App, trip: RemoteFlow, value: Any, error: str
) -> None:
    run = await waiting(trip, office)

    await run.acomplete(value)
    await work(office)

    with pytest.raises(JobBroken, match=error):
        await run.aresult(20)


async def test_a_step_that_runs_is_completed_without_the_code_and_its_holder_is_told(
    app: App, office: App, trip: RemoteFlow
) -> None:
    run = await trip.astart(customer="c1", day="2026-11-18")
    [held] = await office.alease("desk")

    job = await app.ajob(run.id)
    await job.acomplete({"booking": "by hand"})

    with pytest.raises(LeaseLost):
        await held.afinish({})
    await work(office)
    assert ((await run.arefresh()).step, (await run.aattributes())["booking"]) == ("approve", "by hand")


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"customer": "c1"}, r"MissingAttribute: step 'trip\.book' needs the attribute 'day'"),
        ({"customer": "c1", "day": "someday"}, "PayloadError: .*'day'"),
    ],
)
async def test_attributes_are_checked_where_the_code_is(
    office: App, trip: RemoteFlow, attributes: dict[str, str], error: str
) -> None:
    run = await trip.astart(**attributes)
    await work(office)

    with pytest.raises(JobBroken, match=error):
        await run.aresult(20)


@whatever_the_store
async def test_what_is_wrong_is_said_before_anything_is_stored(app: App, office: App, trip: RemoteFlow) -> None:
    with pytest.raises(PayloadError, match="customer"):
        await trip.astart(customer=object())
    with pytest.raises(InvalidOption, match="lookup must be a list"):
        app.remote_flow("trip", first="book", lookup="customer")
    for wrong in ({"first": ""}, {"first": "book", "queue": ""}, {"first": "book", "queue": "no name"}):
        with pytest.raises(InvalidName):
            app.remote_flow("trip", **wrong)
    with pytest.raises(InvalidOption, match="names no queue"):
        App("memory://", default_queue=None).remote_flow("trip", first="book")

    run = await waiting(trip, office)
    with pytest.raises(InvalidOption, match=r"needs the code of flow 'trip', which this program lacks"):
        await run.acomplete(Next("refuse", why="").using(delay=5))
    with pytest.raises(TypeError, match="cannot be completed with Retry"):
        await run.acomplete(Retry())
    with pytest.raises(PayloadError):
        await run.acomplete(object())
    with pytest.raises(WrongState, match="its current step is 'approve', not 'tickets'"):
        await run.acomplete(step="tickets")
    assert (await run.arefresh()).state is State.BLOCKED


@whatever_the_store
async def test_a_key_of_the_attributes_is_the_same_with_and_without_the_code(
    office: App, trip: RemoteFlow, url: str
) -> None:
    there = office.flow("same")
    there.step(name="one")(lambda n: n)

    first = await there.using(unique=True).astart(n=1)
    here = App(url).remote_flow("same", first="one")
    second = await here.using(unique=True).astart(n=1)

    assert (second.id, second.duplicate) == (first.id, True)


@whatever_the_store
async def test_who_holds_a_completed_step_by_hand_ends_it_with_what_it_was_completed_with(
    office: App, trip: RemoteFlow
) -> None:
    run = await waiting(trip, office)
    await run.acomplete({"approved_on": "2026-11-17"})

    [held] = await office.alease("desk")
    await held.afinish("whatever")

    assert (await run.arefresh()).step == "tickets"
    assert (await run.aattributes())["approved_on"] == "2026-11-17"


async def test_a_start_can_be_enqueued_with_other_things_and_waited_for(
    app: App, office: App, trip: RemoteFlow
) -> None:
    last = office.task(name="last", queue="print")(lambda results: results)

    job = await app.remote("last", queue="print").using(after=[trip.bind(customer="c1", day="2026-11-18")]).aenqueue()
    await work(office)
    [run] = await trip.afind(customer="c1")
    await run.acomplete()
    await work(office)

    assert await job.aresult(20) == ["1 for c1 on 18.11., approved None"]
    assert last.name == "last"
