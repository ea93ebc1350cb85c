"""Steps that wait, without a worker: for jobs and runs, and for somebody outside."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import App, Context, FlowRun, Next, Wait
from tenure.core.job import State
from tenure.errors import JobFailed
from tests.faults.scale import on

from .conftest import Start, eventually, retrying_app, whatever_the_store

PATIENCE = 20.0


app = retrying_app


async def names(run: FlowRun) -> list[str]:
    return [step.name for step in await run.asteps()]


# Waiting for others.


async def test_a_join_takes_what_runs_and_jobs_have_given_or_why_not(
    app: App, start: Start
) -> None:  # G48, G49, Q52, Q53
    inner, flow = app.flow("inner"), app.flow("outer")
    inner.step(name="first", then="second")(lambda n: None)
    inner.step(name="second")(lambda n: f"run {n}")
    fail = app.task(name="fail", retry=None)(lambda: 1 / 0)
    existing = await app.task(name="existing")(lambda: "job").aenqueue()

    @flow.step
    def fan(ctx: Context) -> Next:
        [child] = ctx.enqueue(inner.bind(n=2))
        return Next("join").using(after=[inner.bind(n=1), fail.bind(), existing, child], if_blocker_fails="proceed")

    @flow.step
    async def join(ctx: Context, results: list[Any]) -> list[Any]:
        assert results == ctx.results
        return results

    await start(app, concurrency=4)
    run = await flow.astart()

    first, failure, job, second = await run.aresult(PATIENCE)
    assert (first, job, second) == ("run 1", "job", "run 2")
    assert failure["$failure"]["type"] == "ZeroDivisionError"


async def test_a_child_that_fails_fails_the_run_that_waits_for_it(app: App, start: Start) -> None:  # F25
    flow = app.flow("f")
    fail = app.task(name="fail", retry=None)(lambda: 1 / 0)

    @flow.step
    def fan() -> Next:
        return Next("join").using(after=[fail.bind()])

    flow.step(name="join")(lambda results: results)
    await start(app)

    run = await flow.astart()
    with pytest.raises(JobFailed, match="BlockerFailed"):
        await run.aresult(PATIENCE)
    assert await names(run) == ["fan", "join"]


@whatever_the_store
async def test_a_task_takes_results_in_its_parameter_unless_they_were_passed(app: App, start: Start) -> None:  # Q53
    double = app.task(name="double")(lambda n: 2 * n)
    last: Any = app.task(name="last")(label_first)
    first: Any = app.task(name="first")(results_first)
    optional: Any = app.task(name="optional")(results_optional)
    waits: dict[str, Any] = {"after": [double.bind(1), double.bind(2)]}
    await start(app)

    async def given(call: Any) -> Any:
        [job] = await app.aenqueue(call)
        return await job.aresult(PATIENCE)

    assert await given(last.using(**waits).bind("x")) == ["x", [2, 4]]
    assert await given(first.using(**waits).bind(label="x")) == ["x", [2, 4]]
    assert await given(optional.using(**waits).bind()) == [2, 4]
    assert await given(last.using(**waits).bind("x", [9])) == ["x", [9]]
    assert await given(optional.using(**waits).bind(results=[9])) == [9]
    assert await given(last.bind("x")) == ["x", []]
    assert await given(optional.bind()) is None
    with pytest.raises(TypeError, match="label"):
        last.bind()
    with pytest.raises(TypeError):
        last.bind("x", [1], 3)


def label_first(label: str, results: list[int]) -> list[Any]:
    return [label, results]


def results_first(ctx: Context, results: list[int], label: str) -> list[Any]:
    return [label, results]


def results_optional(results: list[int] | None = None) -> list[int] | None:
    return results


# Waiting for the outside.


async def test_a_step_waits_for_the_outside_and_holds_no_worker(app: App, start: Start) -> None:  # Q60
    flow = app.flow("f")
    calls: list[str] = []

    @flow.step
    def ask(what: str) -> Wait:
        calls.append(what)
        return Wait(timeout=60, on_timeout="late")

    flow.step(name="yes")(lambda what, by: f"{what} by {by}")
    flow.step(name="late")(lambda: "late")
    await start(app)
    chosen, done = await flow.astart_many([{"what": "chosen"}, {"what": "done"}])
    for run in (chosen, done):
        await eventually(lambda run=run: _is(run, State.BLOCKED))  # type: ignore[misc]

    await chosen.acomplete(Next("yes", by="me"))
    await done.acomplete("as it is")

    assert await chosen.aresult(PATIENCE) == "chosen by me"
    assert await done.aresult(PATIENCE) == "as it is"
    assert sorted(calls) == ["chosen", "done"]
    assert [step.attempts for step in await chosen.asteps()] == [0, 1]


@on("redis")
async def test_a_step_that_nobody_completes_in_time_hands_over_without_running_again(app: App, start: Start) -> None:
    flow = app.flow("f")
    calls: list[int] = []

    @flow.step(then="never", isolation="process")
    def ask() -> None:
        raise Wait(timeout=0.05, on_timeout="late")

    @flow.step(then="never")
    def ask_again() -> Wait:
        calls.append(1)
        return Wait(timeout=0.05)

    flow.step(name="late", then="ask_again")(lambda: {"late": True})
    flow.step(name="never")(lambda: 1 / 0)
    await start(app)
    run = await flow.astart()

    with pytest.raises(JobFailed, match="WaitTimeout"):
        await run.aresult(PATIENCE)

    assert await names(run) == ["ask", "late", "ask_again"]
    assert await run.aattributes() == {"late": True}
    assert calls == [1]


async def test_a_step_that_runs_can_be_completed_and_its_holder_is_told(app: App, start: Start) -> None:  # Q60
    flow = app.flow("f")
    told: list[str] = []

    @flow.step(then="two")
    async def one(ctx: Context) -> dict[str, int]:
        try:
            told.append(await ctx.signal.wait())
        finally:
            told.append("ended")
        return {"n": 1}

    flow.step(name="two")(lambda n: n)
    await start(app)
    run = await flow.astart()
    await eventually(lambda: _is(run, State.RUNNING))

    await run.acomplete({"n": 2}, step=one)

    assert await run.aresult(PATIENCE) == 2
    await eventually(lambda: "ended" in told)
    assert await names(run) == ["one", "two"]


async def _is(run: FlowRun, state: State) -> bool:
    return (await run.arefresh()).state is state
