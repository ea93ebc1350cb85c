"""Flows: steps that are declared and checked, runs that are started, here and there."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Backoff, Done, Flow, Next, Task, Wait
from tenure.core.job import State
from tenure.errors import (
    InvalidName,
    InvalidOption,
    JobError,
    MissingAttribute,
    UniqueConflict,
    UnknownTask,
)
from tenure.jobs.by_hand import Held
from tenure.tasks.flow import Step

from .conftest import Do

# Declaring.


def test_a_step_is_a_task_that_says_what_it_reads_and_needs(flow: Flow) -> None:  # G18, G37
    assert list(flow.steps) == ["reserve", "charge", "receipt"]
    assert flow._first is flow.steps["reserve"]
    assert flow.queues == ("stock", "billing", "default")
    charge = flow.steps["charge"]
    assert flow.app.tasks["order.charge"] is charge
    assert isinstance(charge, Task)
    assert (charge._reads, charge._needs) == (("customer", "voucher"), ("customer",))
    assert (flow.steps["receipt"]._reads, flow.steps["receipt"]._needs) == (("amount",), ("amount",))


def test_a_step_is_called_like_its_function(no_store: App) -> None:
    flow = no_store.flow("f")

    @flow.step
    def double(n: int) -> int:
        return 2 * n

    assert double(21) == 42


def test_a_step_is_no_job_of_its_own(flow: Flow) -> None:
    receipt = flow.steps["receipt"]
    for act in (receipt.enqueue, receipt.bind, functools.partial(receipt.enqueue_many, [(1,)])):
        with pytest.raises(InvalidOption, match=r"'receipt' is a step.*start one with order\.start"):
            act()


@pytest.mark.parametrize(
    ("options", "function", "message"),
    [
        ({}, lambda *args: None, r"step 'f.s' takes \*args: its parameters name attributes"),
        ({}, lambda **kwargs: None, r"takes \*\*kwargs"),
        ({}, lambda a, /: None, "takes a: its parameters name attributes"),
        ({"raw": True}, lambda a: None, "raw=True"),
        ({"name": "a b"}, lambda: None, "not a valid step name"),
        ({"name": "taken"}, lambda: None, "a task named 'f.taken' already"),
        ({"queue": "a b"}, lambda: None, "not a valid queue name"),
        ({"memory_limit": 1 << 30}, lambda: None, "memory_limit"),
    ],
)
def test_what_cannot_be_a_step_is_refused_when_it_is_declared(
    no_store: App, options: dict[str, Any], function: Callable[..., Any], message: str
) -> None:
    flow = no_store.flow("f")
    flow.step(name="taken")(lambda: None)

    with pytest.raises((InvalidOption, InvalidName), match=message):
        flow.step(**{"name": "s", **options})(function)
    assert list(flow.steps) == ["taken"]


def test_flows_have_names_of_their_own(no_store: App) -> None:  # Q45
    no_store.flow("f")
    with pytest.raises(InvalidOption, match="a flow named 'f' already"):
        no_store.flow("f")
    with pytest.raises(InvalidName):
        no_store.flow("f f")
    with pytest.raises(InvalidOption, match=r"write \['customer'\]"):
        no_store.flow("g", lookup="customer")


# The static check.


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"then": "too"}, "has then='too', and there is no such step; did you mean 'two'"),
        ({"next": ["far"]}, "has next='far', and there is no such step: it has one, two, three"),
        ({"then": "two", "next": ["three"]}, None),
        ({"then": "two"}, None),  # any step may choose the third with Next: a flow does not guess
        ({}, None),
    ],
)
def test_steps_that_do_not_fit_together_are_found_when_the_flow_is_first_used(
    no_store: App, options: dict[str, Any], problem: str | None
) -> None:
    flow = no_store.flow("f")
    flow.step(name="one", **options)(lambda: None)
    for name in ("two", "three"):
        flow.step(name=name)(lambda: None)

    if problem is None:
        flow.bind()
    else:
        for use in (flow.bind, flow.worker, flow.workers, no_store.internals.check_code):
            with pytest.raises(InvalidOption, match=problem):
                use()


def test_a_flow_without_steps_cannot_be_used(no_store: App) -> None:
    with pytest.raises(InvalidOption, match=r"flow 'f' has no steps: declare the first one with @f\.step"):
        no_store.flow("f").bind()


# Starting.


def test_a_start_takes_any_attributes_and_not_without_those_that_the_first_step_needs(flow: Flow) -> None:  # G19, Q44
    new = flow.bind(sku="x", customer=["c1", "c2"], other=None).new_job()

    assert (new.task, new.queue, new.id) == ("order.reserve", "stock", new.run_id)
    assert new.step is not None
    assert new.step.writes is not None
    assert new.step.writes.attributes == {"sku": '"x"', "customer": '["c1","c2"]', "other": "null"}
    assert (new.step.reads, new.step.needs) == (("sku", "quantity"), ("sku",))
    with pytest.raises(MissingAttribute, match=r"step 'order\.reserve' needs the attribute 'sku'"):
        flow.bind(quantity=1)


async def test_runs_are_started_one_by_one_and_together(app: App, do: Do) -> None:  # G38
    flow = app.flow("f", lookup=["n"])
    flow.step(name="one")(lambda n: n)

    run = await do(flow.start, n=1)
    many = await do(flow.start_many, [{"n": 2}, {"n": 3}])
    [started, job] = await do(app.enqueue, flow.bind(n=4), app.task(name="t")(lambda: None).bind())

    assert (run.flow, run.step, run.state) == ("f", "one", State.WAITING)
    assert [await each.aattributes() for each in (run, *many, started)] == [{"n": n} for n in (1, 2, 3, 4)]
    assert job.task == "t"
    assert [found.id for found in await do(flow.find, n=3)] == [many[1].id]
    assert len(await app.ajobs()) == 5


async def test_starts_in_a_batch_are_all_or_nothing(app: App) -> None:
    flow = app.flow("f")
    flow.step(name="one")(lambda n: n)

    with pytest.raises(ZeroDivisionError):
        async with app.batch():
            await flow.astart(n=1)
            1 / 0  # noqa: B018
    assert await app.aflows() == []

    async with app.batch():
        run = await flow.astart(n=2)
        await flow.astart(n=3)
    assert (await run.arefresh()).state is State.WAITING
    assert len(await app.aflows()) == 2


async def test_a_start_may_be_told_how(app: App, do: Do) -> None:
    flow = app.flow("f")
    flow.step(name="one", queue="q")(lambda n: n)

    run = await do(flow.using(delay=60, queue="r", priority=3, tags=["t"], keep=5, max_attempts=2).start, n=1)

    record = (await run.arefresh()).record
    assert (record.queue, record.priority, record.tags, record.keep) == ("r", 3, ("t",), 5.0)
    assert (record.label, record.max_attempts) == ("scheduled", 2)


async def test_a_start_may_be_unique(app: App, do: Do) -> None:  # Q56, I14
    flow = app.flow("f")
    flow.step(name="one")(lambda n: n)

    first = await do(flow.using(unique=True).start, n=1, m=2)
    again = await do(flow.using(unique=True).start, m=2, n=1)
    other = await do(flow.using(unique=True).start, n=2, m=2)

    assert (again.id, again.duplicate) == (first.id, True)
    assert not other.duplicate
    with pytest.raises(UniqueConflict):
        await do(flow.using(unique=True, unique_raises=True).start, n=1, m=2)
    assert await first.aattributes() == {"n": 1, "m": 2}


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_run_is_started_in_the_caller_s_transaction(app: App, url: str) -> None:  # Q51
    flow = app.flow("f")
    flow.step(name="one")(lambda n: n)
    await app.aflows()
    connection = sqlite3.connect(Path(url.removeprefix("sqlite:///")), isolation_level=None)

    connection.execute("BEGIN IMMEDIATE")
    await flow.using(connection=connection).astart(n=1)
    connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")
    run = await flow.using(connection=connection).astart(n=2)
    assert await app.aflows() == []
    connection.execute("COMMIT")
    connection.close()

    assert [each.id for each in await app.aflows()] == [run.id]
    assert await run.aattributes() == {"n": 2}


# Inline.


async def test_runs_go_to_their_end_inline(no_store: App, do: Do) -> None:
    flow = no_store.flow("f")
    tries = []

    @flow.step(then="two", retry=Backoff(initial=60))
    def one(n: int) -> Mapping[str, int]:
        tries.append(n)
        if len(tries) == 1:
            raise ValueError("once")
        return {"m": n + 1}

    @flow.step
    async def two(m: int) -> Next:
        return Next("three").using(after=[three_times.bind(m), three_times.bind(m + 1)], delay=60)

    @flow.step(name="three")
    def three(m: int, results: list[int]) -> int:
        return m + sum(results)

    @no_store.task
    def three_times(n: int) -> int:
        return 3 * n

    async with no_store.inline():
        run = await flow.astart(n=1)
        assert (run.state, run.step, await run.aresult()) == (State.SUCCEEDED, "three", 17)
        assert [step.name for step in await run.asteps()] == ["one", "two", "three"]
        assert [step.attempts for step in await run.asteps()] == [2, 1, 1]


async def test_a_hand_over_that_is_refused_fails_the_run_inline(no_store: App) -> None:
    flow = no_store.flow("f")
    flow.step(name="one", then="two")(lambda: None)
    flow.step(name="two")(lambda m: m)

    async with no_store.inline(raises=False):
        run = await flow.astart()
        assert run.state is State.FAILED
        assert run.error is not None
        assert (run.error.type, "'m'" in run.error.message) == ("MissingAttribute", True)


async def test_what_follows_a_completion_or_a_retry_runs_inline_too(no_store: App, do: Do) -> None:
    flow = no_store.flow("f")
    tries = []
    flow.step(name="ask", then="answer")(lambda: Wait(timeout=60))

    @flow.step(retry=None)
    def answer(said: str) -> str:
        tries.append(said)
        if len(tries) == 1:
            raise ValueError
        return said.upper()

    async with no_store.inline(raises=False):
        run = await flow.astart()
        assert (run.step, run.state) == ("ask", State.BLOCKED)
        await do(run.complete, {"said": "yes"})
        assert (run.step, run.state) == ("answer", State.FAILED)
        await do(run.retry)
        assert (run.state, await run.aresult(0)) == (State.SUCCEEDED, "YES")


# By hand.


async def test_a_step_that_is_leased_by_hand_ends_as_if_its_function_had_given_the_value(app: App, do: Do) -> None:
    flow = app.flow("f")
    flow.step(name="one", then="two")(a_number_and_a_text)
    flow.step(name="two")(lambda m: m)
    run = await flow.astart(n=1, other=2)

    [held] = await do(app.lease, "default")
    assert held.arguments == ((), {"n": 1})
    with pytest.raises(JobError, match=r"is still held: .*'m'"):
        await do(held.finish)
    with pytest.raises(TypeError, match="gave an int"):
        await do(held.finish, 5)
    await do(held.finish, {"m": 3})
    second: Held
    [second] = await do(app.lease, "default")
    async with second:
        raise Done(second.arguments[1]["m"] + 1)

    assert await run.aresult(5) == 4


async def test_a_step_whose_flow_is_elsewhere_is_not_finished_by_hand(app: App, url: str) -> None:
    flow = app.flow("f")
    flow.step(name="one")(lambda: None)
    run = await flow.astart()
    stranger = App(url)

    [held] = await stranger.alease("default")
    with pytest.raises(UnknownTask):
        await held.afinish()
    await held.arelease()

    assert (await run.arefresh()).state is State.WAITING
    await stranger.aclose()


def a_number_and_a_text(n: int, text: str = "") -> None: ...


def test_a_step_s_type_is_public(flow: Flow) -> None:
    assert all(isinstance(step, Step) for step in flow.steps.values())
