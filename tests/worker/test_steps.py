"""Steps in workers: on the loop, in threads and in child processes, on every store; what follows each, and when none does."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from tenure import App, Context, Done, Fail, FlowRun, Next, Reschedule, Retry, Wait
from tenure.core.job import State
from tenure.errors import InvalidOption, JobFailed
from tenure.tasks.flow import Flow
from tenure.worker.worker import Status

from .conftest import MakeApp, Start, retrying_app, whatever_the_store

PATIENCE = 20.0


app = retrying_app


async def names(run: FlowRun) -> list[str]:
    return [step.name for step in await run.asteps()]


# Going on.


def a_flow_of_five(app: App) -> Flow:
    """A flow with a branch, a loop and a join, whose steps are in every lane."""
    flow = app.flow("order", lookup=["customer"])

    @flow.step(then="count", queue="stock")
    async def reserve(sku: str, quantity: int) -> dict[str, Any]:
        return {"reservation": f"{quantity} {sku}", "rounds": 0}

    @flow.step(isolation="process")
    def count(ctx: Context, rounds: int, reservation: str) -> Next:
        assert ctx.job.attributes is not None
        assert ctx.job.attributes.keys() == {"rounds", "reservation"}
        if rounds < 1:
            return Next(count, rounds=rounds + 1)
        raise Next("share", counted_by=os.getpid()).using(queue="billing", priority=-1)

    @flow.step(queue="nowhere")
    def share(ctx: Context, rounds: int, missing: str = "none") -> Next:
        ctx.enqueue(noted.bind(missing))
        return Next("join").using(after=[double.bind(rounds), double.bind(10)])

    @flow.step(then="end")
    async def join(results: list[int], customer: str) -> dict[str, Any]:
        return {"sum": sum(results), "for": customer}

    @flow.step
    def end(ctx: Context, sum: int) -> dict[str, int]:  # noqa: A002
        return {"result": sum}

    @app.task(queue="billing")
    def double(n: int) -> int:
        return 2 * n

    @app.task(queue="nobody")
    def noted(what: str) -> None: ...

    return flow


async def test_a_run_goes_from_step_to_step_through_queues_and_lanes(
    app: App, start: Start
) -> None:  # G18, G22–G28, Q40–Q43
    flow = a_flow_of_five(app)
    await start(app, "stock", "default", "billing", concurrency=3)

    run = await flow.astart(sku="x", quantity=2, customer="c1")

    assert await run.aresult(PATIENCE) == {"result": 22}
    assert await names(run) == ["reserve", "count", "count", "share", "join", "end"]
    steps = await run.asteps()
    assert [step.queue for step in steps] == ["stock", "default", "default", "billing", "default", "default"]
    assert {step.state for step in steps} == {State.SUCCEEDED}
    assert steps[0].id == run.id
    attributes = await run.aattributes()
    assert attributes.pop("counted_by") != os.getpid()
    assert attributes == {
        "sku": "x", "quantity": 2, "customer": "c1", "reservation": "2 x", "rounds": 1,
        "sum": 22, "for": "c1", "result": 22,
    }  # fmt: skip
    assert (run.done, run.failed, run.completed_queue) == (True, False, "default")
    assert [job.task for job in await app.ajobs(queue="nobody")] == ["noted"]
    assert [found.id for found in await flow.afind(customer="c1")] == [run.id]


async def test_many_runs_at_once_each_have_their_own_attributes(app: App, start: Start) -> None:
    flow = app.flow("f")

    @flow.step(then="two")
    async def one(n: int) -> dict[str, int]:
        return {"m": n * n}

    @flow.step
    async def two(n: int, m: int) -> list[int]:
        return [n, m]

    await start(app, concurrency=10)
    runs = await flow.astart_many({"n": n} for n in range(50))

    assert [await run.aresult(PATIENCE) for run in runs] == [[n, n * n] for n in range(50)]


# Answers and errors.


@whatever_the_store
@pytest.mark.parametrize("raised", [True, False], ids=["raised", "returned"])
@pytest.mark.parametrize("lane", ["loop", "thread", "process"])
async def test_an_answer_of_a_step_decides_raised_or_returned(
    app: App, start: Start, raised: bool, lane: str
) -> None:  # T6
    flow = app.flow("f")
    options: dict[str, Any] = {"isolation": "process"} if lane == "process" else {}

    def give(answer: Any) -> Any:
        if raised:
            raise answer
        return answer

    def first(ctx: Context, what: str) -> Any:
        if ctx.attempt > 1 or (ctx.job.fence > 1 and what == "reschedule"):
            return give(Done("again"))
        return give(
            {
                "next": Next("other", a=1),
                "done": Done({"x": 1}),
                "retry": Retry(after=0),
                "reschedule": Reschedule(after=0.01),
                "fail": Fail("enough"),
            }[what]
        )

    async def first_on_loop(ctx: Context, what: str) -> Any:
        return first(ctx, what)

    flow.step(name="first", then="never", **options)(first_on_loop if lane == "loop" else first)
    flow.step(name="other")(lambda a: f"other {a}")
    flow.step(name="never")(lambda: 1 / 0)
    await start(app)
    runs = {what: await flow.astart(what=what) for what in ("next", "done", "retry", "reschedule", "fail")}

    assert await runs["next"].aresult(PATIENCE) == "other 1"
    assert await runs["done"].aresult(PATIENCE) == {"x": 1}
    assert await runs["retry"].aresult(PATIENCE) == "again"
    assert await runs["reschedule"].aresult(PATIENCE) == "again"
    with pytest.raises(JobFailed, match="Fail: enough"):
        await runs["fail"].aresult(PATIENCE)
    assert await runs["done"].aattributes() == {"what": "done"}


async def test_each_step_has_its_own_retries_and_the_run_fails_with_its_step(
    app: App, start: Start
) -> None:  # G34, Q26
    flow = app.flow("f")
    tried: list[str] = []

    @flow.step(then="two", queue="q", max_attempts=3)
    def one(ctx: Context) -> dict[str, int]:
        tried.append("one")
        ctx.enqueue(child.bind(ctx.attempt))
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return {"a": 1}

    @flow.step(retry=None, queue="r")
    async def two(a: int) -> None:
        tried.append("two")
        raise ZeroDivisionError("never")

    @app.task(queue="nobody")
    def child(n: int) -> None: ...

    await start(app, "q", "r")
    run = await flow.astart()
    with pytest.raises(JobFailed, match="ZeroDivisionError: never"):
        await run.aresult(PATIENCE)

    assert tried == ["one", "one", "one", "two"]
    assert [(step.name, step.attempts, step.state) for step in await run.asteps()] == [
        ("one", 3, State.SUCCEEDED),
        ("two", 1, State.FAILED),
    ]
    await run.arefresh()
    assert (run.done, run.failed, run.failed_queue, run.completed_queue) == (True, True, "r", "q")
    assert run.error is not None
    assert run.error.type == "ZeroDivisionError"
    assert len(await app.ajobs(queue="nobody")) == 1  # those of attempts that failed never were

    await run.aretry()
    with pytest.raises(JobFailed):
        await run.aresult(PATIENCE)
    assert tried == ["one", "one", "one", "two", "two"]


@whatever_the_store
@pytest.mark.parametrize("isolation", [None, "process"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (5, "TypeError: step 'f.one' has then='two' and gave an int: give a mapping"),
        (Next("tow"), "InvalidOption: flow 'f' has no step 'tow'; did you mean 'two'"),
        ({"n": "no number"}, "PayloadError: attribute 'n': it does not fit its annotation"),
        (Wait(timeout=1, on_timeout="tow"), "InvalidOption: flow 'f' has no step 'tow'"),
    ],
    ids=["value", "step", "attribute", "wait"],
)
async def test_what_means_nothing_fails_the_attempt(
    make_app: MakeApp, start: Start, value: Any, error: str, isolation: Any
) -> None:
    app = make_app(retry=None)
    flow = app.flow("f")
    flow.step(name="one", then="two", isolation=isolation)(lambda: value)
    flow.step(name="two")(two_takes_a_number)
    await start(app)

    with pytest.raises(JobFailed) as failed:
        await (await flow.astart()).aresult(PATIENCE)
    assert error in str(failed.value)


def two_takes_a_number(n: int = 0) -> int:
    return n


@whatever_the_store
@pytest.mark.parametrize("answer", [Next("x"), Done(1), Wait(timeout=1, on_timeout="x")], ids=["next", "done", "wait"])
async def test_answers_of_steps_are_none_of_a_plain_task(make_app: MakeApp, start: Start, answer: Any) -> None:
    app = make_app(retry=None)
    task = app.task(name="plain")(lambda: answer)
    await start(app)

    with pytest.raises(JobFailed, match=r"plain.*step.* of a flow"):
        await (await task.aenqueue()).aresult(PATIENCE)


async def test_a_hand_over_without_an_attribute_that_the_next_step_needs_fails_at_once(app: App, start: Start) -> None:
    flow = app.flow("f")
    flow.step(name="one", then="two")(lambda: {"a": 1})
    flow.step(name="two")(lambda a, b: (a, b))
    await start(app)

    run = await flow.astart()
    with pytest.raises(JobFailed, match=r"MissingAttribute: step 'f\.two' needs the attribute 'b'"):
        await run.aresult(PATIENCE)

    [step] = await run.asteps()
    assert (step.name, step.attempts, step.state) == ("one", 1, State.FAILED)
    assert await run.aattributes() == {}


@whatever_the_store
async def test_what_a_step_gives_too_late_is_a_timeout(make_app: MakeApp, start: Start) -> None:
    app = make_app(retry=None)
    flow = app.flow("f")

    @flow.step(timeout=0.05)
    def late(ctx: Context) -> Next:
        ctx.signal.wait_blocking()
        return Next("after")

    flow.step(name="after")(lambda: "came")
    await start(app)

    with pytest.raises(JobFailed, match="TimeoutError"):
        await (await flow.astart()).aresult(PATIENCE)


# Code that changes while runs are under way.


async def test_a_step_whose_code_takes_more_than_it_was_enqueued_with_gets_it(
    make_app: MakeApp, start: Start, app: App
) -> None:
    old = app.flow("f")
    old.step(name="one")(lambda a: a)
    new_app = make_app(retry=None)
    new = new_app.flow("f")
    seen: list[Any] = []

    @new.step
    def one(a: int, b: int, c: str = "default") -> Any:
        seen.append((a, b, c))
        return Done(a + b)

    run = await old.astart(a=1, b=2)
    lacking = await old.astart(a=1)
    await start(new_app)

    assert await run.aresult(PATIENCE) == 3
    assert seen == [(1, 2, "default")]
    with pytest.raises(JobFailed, match=r"step 'f\.one' needs the attribute 'b'"):
        await lacking.aresult(PATIENCE)
    assert (await lacking.arefresh()).state is State.BROKEN


@whatever_the_store
async def test_a_job_of_a_step_that_is_of_no_run_is_broken(app: App, start: Start) -> None:
    flow = app.flow("f")
    flow.step(name="one")(lambda: None)
    await start(app)

    with pytest.raises(JobFailed, match=r"of step 'f.one' belongs to no run: start one with f\.start"):
        await (await app.remote("f.one").aenqueue()).aresult(PATIENCE)


# Workers of a flow.


async def test_workers_of_a_flow_serve_all_its_queues_and_live_together(app: App) -> None:  # G5, G9, G10
    flow = app.flow("f")
    together = threading.Barrier(3)

    @flow.step(then="two", queue="a")
    def one(n: int) -> None:
        together.wait(PATIENCE)

    @flow.step(queue="b")
    async def two(n: int) -> int:
        return n

    async with flow.workers(one=3) as serving:
        assert [worker.status for worker in serving.workers] == [Status.RUNNING] * 2
        assert [(worker.options.queues, worker.options.concurrency) for worker in serving.workers] == [
            (("a",), 3),
            (("b",), 1),
        ]
        runs = await flow.astart_many({"n": n} for n in range(3))
        assert [await run.aresult(PATIENCE) for run in runs] == [0, 1, 2]
    assert [worker.status for worker in serving.workers] == [Status.STOPPED] * 2

    async with flow.worker(concurrency=3) as alone:
        assert alone.options.queues == ("a", "b")


@whatever_the_store
async def test_workers_of_a_flow_that_cannot_all_start_are_all_stopped(app: App) -> None:
    flow = app.flow("f")
    flow.step(name="one", then="two", queue="a")(lambda: None)
    flow.step(name="two", queue="b")(lambda: None)
    serving = flow.workers()
    await serving.workers[1].stop()

    with pytest.raises(RuntimeError, match="a worker can be started once"):
        await serving.start()

    assert [worker.status for worker in serving.workers] == [Status.STOPPED] * 2
    with pytest.raises(InvalidOption, match="flow 'f' has no step 'three'"):
        flow.workers(three=1)
