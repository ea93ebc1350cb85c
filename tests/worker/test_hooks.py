"""Hooks around attempts, in every lane: order, skipping, and failures, of which each is told once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure import App, Backoff, Context, Fail, Next, Reschedule, Retry, State
from tenure.errors import EnqueueRefused, JobBroken, JobFailed
from tenure.stores.base import Store

from .conftest import MakeApp, Start, eventually, record_of
from .hooked import LANES, Notes, a_task

whatever_the_store = pytest.mark.parametrize("url", ["memory"], indirect=True)
lanes = pytest.mark.parametrize("lane", LANES)
kinds = pytest.mark.parametrize("kind", ["def", "async def"])
both = pytest.mark.parametrize(
    ("lane", "kind"),
    [
        *((lane, kind) for lane in ("loop", "thread") for kind in ("def", "async def")),
        ("process of a coroutine", "def"),
        ("process of a function", "async def"),
        pytest.param("process of a coroutine", "async def", marks=pytest.mark.long),
        pytest.param("process of a function", "def", marks=pytest.mark.long),
    ],
)

colour: ContextVar[str] = ContextVar("colour", default="none")


@pytest.fixture
def app(make_app: MakeApp) -> App:
    return make_app(retry=Backoff(initial=0.01, jitter=0))


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


def of_kind(kind: str, hook: Any) -> Any:
    """A hook with one or more arguments, blocking or awaited."""

    async def awaited(*args: Any) -> Any:
        await asyncio.sleep(0)
        return hook(*args)

    return awaited if kind == "async def" else lambda *args: hook(*args)


def around(kind: str, notes: Notes, name: str) -> Any:
    def blocking(ctx: Context, call_next: Any) -> Any:
        notes.take(f"{name} in")
        colour.set(f"{colour.get()}, {name}")
        try:
            return call_next()
        finally:
            notes.take(f"{name} out")

    async def awaited(ctx: Context, call_next: Any) -> Any:
        notes.take(f"{name} in")
        colour.set(f"{colour.get()}, {name}")
        try:
            return await call_next()
        finally:
            notes.take(f"{name} out")

    return awaited if kind == "async def" else blocking


# Order.


@whatever_the_store
@both
async def test_hooks_are_around_an_attempt_the_app_s_outermost(
    app: App, start: Start, notes: Notes, lane: str, kind: str
) -> None:  # R45
    def job(n: int) -> str:
        notes.take("job", colour.get(), tenure.current().job.task)
        return f"{n} {colour.get()}"

    def blue(ctx: Context) -> None:
        notes.take("app before", ctx.attempt)
        colour.set("blue")

    task = a_task(app, lane, job)
    other = "def" if kind == "async def" else "async def"
    task.before_perform(of_kind(other, lambda ctx: notes.take("task before")))
    app.before_perform(of_kind(kind, blue))
    task.around_perform(around(other, notes, "task"))
    app.around_perform(around(kind, notes, "app 1"))
    app.around_perform(around(kind, notes, "app 2"))
    task.after_perform(of_kind(kind, lambda ctx, result: notes.take("task after 1", result)))
    task.after_perform(of_kind(other, lambda ctx, result: notes.take("task after 2")))
    app.after_perform(of_kind(kind, lambda ctx, result: notes.take("app after")))
    app.on_failure(lambda ctx, error, final: notes.take("failed", repr(error)))

    await start(app)
    result = await (await task.aenqueue(7)).aresult(timeout=20)

    assert result == "7 blue, app 1, app 2, task"
    assert notes() == [
        ("app before", 1), "task before", "app 1 in", "app 2 in", "task in",
        ("job", "blue, app 1, app 2, task", "job"),
        "task out", "app 2 out", "app 1 out", "task after 2", ("task after 1", result), "app after",
    ]  # fmt: skip


@whatever_the_store
@lanes
async def test_blocking_hooks_are_called_where_the_job_runs(app: App, start: Start, notes: Notes, lane: str) -> None:
    def job() -> None:
        notes.take("job", *notes.here())

    task = a_task(app, lane, job)
    app.before_perform(lambda ctx: notes.take("before", *notes.here()))
    app.after_perform(lambda ctx, result: notes.take("after", *notes.here()))
    await start(app)
    await (await task.aenqueue()).aresult(timeout=20)

    before, ran, after = [where for _, *where in notes()]
    assert before == ran == after
    assert (ran[0] == os.getpid()) is not lane.startswith("process")


# Not performing.


@whatever_the_store
@both
async def test_false_skips_the_function_and_the_hooks_after_it(
    app: App, start: Start, notes: Notes, lane: str, kind: str
) -> None:  # R45
    task = a_task(app, lane, lambda how: notes.take("job", how))
    answers: dict[str, Any] = {
        "skip": False, "go": None, "fail": Fail("not today"), "later": Reschedule(after=3600), "retry": Retry("x", after=3600),
    }  # fmt: skip

    def asked(ctx: Context) -> Any:
        [how] = task.decode(ctx.job.payload)[0]
        if how == "raise":
            raise Fail("raised")
        return answers[how]

    task.before_perform(of_kind(kind, asked))
    app.around_perform(around(kind, notes, "around"))
    app.after_perform(lambda ctx, result: notes.take("after"))
    app.on_failure(lambda ctx, error, final: notes.take("failed", str(error), final))
    await start(app, "default", concurrency=1)

    assert await (await task.aenqueue("skip")).aresult(timeout=20) is None
    assert notes() == []
    for how, why in (("fail", "not today"), ("raise", "raised")):
        with pytest.raises(JobFailed, match=why):
            await (await task.aenqueue(how)).aresult(timeout=20)
    later, retry = await task.aenqueue("later"), await task.aenqueue("retry")
    await (await task.aenqueue("go")).aresult(timeout=20)
    assert [(await job.arefresh()).state for job in (later, retry)] == [State.WAITING, State.WAITING]
    assert notes() == [
        ("failed", "not today", True), ("failed", "raised", True), ("failed", "x", False),
        "around in", ("job", "go"), "around out", "after",
    ]  # fmt: skip


@whatever_the_store
@both
async def test_an_around_that_does_not_call_on_has_not_performed(
    app: App, start: Start, notes: Notes, lane: str, kind: str
) -> None:  # R45
    task = a_task(app, lane, lambda: notes.take("job"))
    task.around_perform(of_kind(kind, lambda ctx, call_next: "from the cache"))
    app.after_perform(lambda ctx, result: notes.take("after"))
    await start(app)

    assert await (await task.aenqueue()).aresult(timeout=20) == "from the cache"
    assert notes() == []


@whatever_the_store
@kinds
async def test_an_around_sees_what_the_function_raises_and_may_answer_for_it(app: App, start: Start, kind: str) -> None:
    @app.around_perform
    def mend(ctx: Context, call_next: Any) -> Any:
        try:
            return call_next()
        except ZeroDivisionError:
            return "mended"

    @app.task
    async def awaited() -> float:
        await asyncio.sleep(0)
        return 1 / 0

    @app.task
    def blocking() -> float:
        return 1 / 0

    await start(app)
    task = awaited if kind == "async def" else blocking
    assert await (await task.aenqueue()).aresult(timeout=20) == "mended"  # type: ignore[comparison-overlap]


@whatever_the_store
@pytest.mark.parametrize("lane", LANES[:3])
@kinds
async def test_an_around_sees_that_its_job_is_told_to_stop(
    app: App, store: Store, start: Start, notes: Notes, lane: str, kind: str
) -> None:
    async def awaited() -> None:
        notes.take("job")
        await asyncio.sleep(3600)

    def blocking(ctx: Context) -> None:
        notes.take("job")
        ctx.signal.wait_blocking(20)
        ctx.signal.raise_if_aborted()

    task = app.task(isolation="process" if lane.startswith("process") else None)(
        blocking if lane == "thread" else awaited
    )
    app.around_perform(around(kind, notes, "around"))
    worker = await start(app)
    job = await task.aenqueue()
    await eventually(lambda: "job" in notes())
    await worker.stop(grace=0)
    assert notes() == ["around in", "job", "around out"]
    record = await record_of(store, job.id)
    assert (record.state, record.attempt) == (State.WAITING, 0)


# Success, and failure.


@whatever_the_store
@lanes
async def test_what_comes_after_a_success_comes_after_nothing_else(
    app: App, start: Start, notes: Notes, lane: str
) -> None:  # R45
    def job(how: str) -> Any:
        match how:
            case "raise":
                raise ValueError(how)
            case "return":
                return Fail(how)
            case "later":
                return Reschedule(after=3600)
            case "unstorable":
                return object()
            case _:
                return how

    task = a_task(app, lane, job, max_attempts=1)
    task.after_perform(lambda ctx, result: notes.take("after", result))
    app.on_failure(lambda ctx, error, final: notes.take("failed", type(error).__name__, final))
    await start(app, concurrency=1)
    for how in ("raise", "return", "unstorable"):
        with pytest.raises(JobFailed):
            await (await task.aenqueue(how)).aresult(timeout=20)
    await task.aenqueue("later")
    await (await task.aenqueue("well")).aresult(timeout=20)

    failed = [("failed", error, True) for error in ("ValueError", "Fail", "PayloadError")]
    assert notes() == [*failed, ("after", "well")]


@whatever_the_store
@both
async def test_each_failed_attempt_is_told_once_and_the_last_as_final(
    app: App, store: Store, start: Start, notes: Notes, lane: str, kind: str
) -> None:  # R45
    def job(how: str) -> None:
        if how == "retry":
            raise Retry("again", after=0)
        if how == "after":
            return
        raise ValueError("no good")

    task = a_task(app, lane, job, max_attempts=2)

    def told(ctx: Context, error: BaseException, final: bool) -> None:
        assert tenure.current() is ctx
        notes.take(ctx.attempt, f"{error!r}", final)

    @app.after_perform
    def broken(ctx: Context, result: Any) -> None:
        raise LookupError("after")

    task.on_failure(of_kind(kind, told))
    app.on_failure(of_kind(kind, lambda *args: notes.take("app")))
    await start(app, concurrency=1)

    for how, error in (
        ("raise", "ValueError('no good')"),
        ("retry", "Retry('again')"),
        ("after", "LookupError('after')"),
    ):
        before = len(notes())
        with pytest.raises(JobFailed):
            await (await task.aenqueue(how)).aresult(timeout=20)
        assert notes()[before:] == [(1, error, False), "app", (2, error, True), "app"]


@whatever_the_store
@lanes
async def test_a_timeout_is_a_failure_that_is_told_of(app: App, start: Start, notes: Notes, lane: str) -> None:
    async def awaited() -> None:
        await asyncio.sleep(3600)

    def blocking(ctx: Context) -> None:
        ctx.signal.wait_blocking(10)

    task = app.task(max_attempts=1, timeout=0.1, isolation="process" if lane.startswith("process") else None)(
        awaited if "function" not in lane and lane != "thread" else blocking
    )
    app.on_failure(lambda ctx, error, final: notes.take(type(error).__name__, final))
    await start(app)
    with pytest.raises(JobFailed, match="TimeoutError"):
        await (await task.aenqueue()).aresult(timeout=30)
    assert notes() == [("TimeoutError", True)]


@whatever_the_store
@pytest.mark.parametrize("lane", LANES[2:])
async def test_the_death_of_a_child_is_told_of_in_the_worker(
    app: App, start: Start, notes: Notes, lane: str
) -> None:  # R45
    task = a_task(app, lane, lambda: os.kill(os.getpid(), signal.SIGKILL), max_attempts=2)

    @task.on_failure
    async def told(ctx: Context, error: BaseException, final: bool) -> None:
        notes.take(type(error).__name__, final, os.getpid() == worker)

    worker = os.getpid()
    await start(app)
    with pytest.raises(JobFailed, match="SIGKILL"):
        await (await task.aenqueue()).aresult(timeout=20)
    assert notes() == [("ChildDied", False, True), ("ChildDied", True, True)]


@whatever_the_store
@pytest.mark.parametrize("lane", LANES[2:])
async def test_a_child_that_dies_in_the_hook_has_failed_of_what_it_told(
    app: App, start: Start, notes: Notes, lane: str
) -> None:  # R45, R46
    def job() -> None:
        raise ValueError("no good")

    task = a_task(app, lane, job, max_attempts=1)

    @task.on_failure
    def told(ctx: Context, error: BaseException, final: bool) -> None:
        notes.take(str(error))
        if os.getpid() != worker:
            os._exit(3)

    worker = os.getpid()
    await start(app)
    with pytest.raises(JobFailed, match="ValueError: no good"):
        await (await task.aenqueue()).aresult(timeout=20)
    assert notes() == ["no good"]


@whatever_the_store
@both
async def test_an_error_of_the_hook_is_logged_with_the_failure_which_is_recorded(
    app: App, store: Store, start: Start, notes: Notes, lane: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:  # R46
    def job() -> None:
        raise ValueError("no good")

    def broken(ctx: Context, error: BaseException, final: bool) -> None:
        raise LookupError("no mail server")

    task = a_task(app, lane, job, max_attempts=1)
    app.on_failure(lambda *args: notes.take("the others are told"))
    task.on_failure(of_kind(kind, broken))
    await start(app)
    job_id = (await task.aenqueue()).id
    await eventually(lambda: notes() == ["the others are told"])
    with pytest.raises(JobFailed, match="ValueError: no good"):
        await (await app.ajob(job_id)).aresult(timeout=20)

    [line] = [record for record in caplog.records if "the failure is recorded all the same" in record.getMessage()]
    assert line.levelno == logging.ERROR
    assert "ValueError('no good')" in line.getMessage()
    assert "LookupError('no mail server')" in line.getMessage()


@whatever_the_store
async def test_arguments_that_cannot_be_read_are_a_failure(app: App, start: Start, notes: Notes) -> None:
    @app.task
    def add(a: int) -> int:
        return a

    app.on_failure(lambda ctx, error, final: notes.take(type(error).__name__, final))
    await start(app)
    with pytest.raises(JobBroken):
        await (await app.remote("add").aenqueue("text")).aresult(timeout=20)
    assert notes() == [("PayloadError", True)]


async def test_children_that_the_store_refuses_are_a_failure(app: App, start: Start, notes: Notes) -> None:
    @app.task(queue="nobody")
    def child() -> None: ...

    @app.task(max_attempts=1)
    async def parent(ctx: Context) -> None:
        ctx.enqueue(child.using(unique="k", unique_raises=True).bind())

    app.on_failure(lambda ctx, error, final: notes.take(ctx.job.task, type(error).__name__, final))
    await child.using(unique="k").aenqueue()
    await start(app, "default")
    with pytest.raises(JobFailed, match="EnqueueRefused"):
        await (await parent.aenqueue()).aresult(timeout=20)
    await eventually(lambda: notes() == [("parent", "JobError", True)])


@whatever_the_store
@pytest.mark.parametrize("fails", [False, True])
async def test_a_job_that_its_worker_interrupts_has_failed_only_if_it_is_said_to(
    app: App, start: Start, notes: Notes, fails: bool
) -> None:
    begun = asyncio.Event()

    @app.task
    async def endless() -> None:
        begun.set()
        await asyncio.sleep(3600)

    app.on_failure(lambda ctx, error, final: notes.take(type(error).__name__, final))
    worker = await start(app, fail_interrupted=fails)
    await endless.aenqueue()
    await begun.wait()
    await worker.stop(grace=0)
    assert notes() == ([("Aborted", True)] if fails else [])


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("lane", ["loop", "thread", "process of a function"])
async def test_a_job_that_was_complete_has_not_failed(app: App, start: Start, notes: Notes, lane: str) -> None:
    if lane == "loop":

        @app.task
        async def job(ctx: Context) -> None:
            async with ctx.complete() as tx:
                tx.result = "done"
            raise ValueError("too late")
    else:

        @app.task(isolation="process" if lane.startswith("process") else None)
        def job(ctx: Context) -> None:
            with ctx.complete() as tx:
                tx.result = "done"
            raise ValueError("too late")

    app.on_failure(lambda ctx, error, final: notes.take("failed"))
    app.after_perform(lambda ctx, result: notes.take("after"))
    worker = await start(app)
    assert await (await job.aenqueue()).aresult(timeout=20) == "done"  # type: ignore[func-returns-value]
    await worker.stop()
    assert notes() == []


# What a job enqueues.


@whatever_the_store
@lanes
async def test_what_a_job_enqueues_is_asked_about_there_and_told_of_when_it_is_stored(
    app: App, start: Start, notes: Notes, lane: str
) -> None:  # R3, R4
    @app.task(queue="nobody")
    def child(n: int) -> None: ...

    def job(n: int) -> None:
        tenure.current().enqueue(child.bind(0), child.bind(n))

    task = a_task(app, lane, job, max_attempts=1)
    child.before_enqueue(lambda call: call.args != (13,))
    child.before_enqueue(lambda call: notes.take("asked", *call.args))

    @child.after_enqueue
    async def told(child: Any) -> None:
        notes.take("told", (await child.arefresh()).state)

    await start(app, "default")
    await (await task.aenqueue(1)).aresult(timeout=20)
    await eventually(lambda: len(notes()) == 4)
    assert notes() == [("asked", 0), ("asked", 1), ("told", "waiting"), ("told", "waiting")]
    with pytest.raises(JobFailed, match=EnqueueRefused.__name__):
        await (await task.aenqueue(13)).aresult(timeout=20)
    assert notes()[4:] == [("asked", 0), ("asked", 13)]
    assert len(await app.ajobs(queue="nobody")) == 2


@pytest.mark.parametrize("isolation", [None, "process"])
async def test_what_a_step_lets_the_next_wait_for_is_asked_about_and_the_next_is_not(
    app: App, store: Store, start: Start, notes: Notes, isolation: Any
) -> None:  # R4
    flow = app.flow("f")

    @app.task
    def part(n: int) -> int:
        return n

    @flow.step(isolation=isolation, max_attempts=1)
    def split(n: int) -> Next:
        return Next("join").using(after=[part.bind(1), part.bind(n)])

    @flow.step
    async def join(results: list[int]) -> list[int]:
        return results

    @app.before_enqueue
    async def asked(call: Any) -> bool:
        await asyncio.sleep(0)
        notes.take(call.task, call.flow)
        return bool(call.args != (13,))

    split.after_perform(lambda ctx, result: notes.take(type(result).__name__))
    await start(app, concurrency=2)
    assert await (await flow.astart(n=2)).aresult(timeout=20) == [1, 2]
    assert notes() == [("f.split", "f"), "Next", ("part", None), ("part", None)]
    with pytest.raises(JobFailed, match=EnqueueRefused.__name__):
        await (await flow.astart(n=13)).aresult(timeout=20)
    assert {job.state for job in await app.ajobs(task="part")} == {State.SUCCEEDED}
    assert (await record_of(store, (await app.aflows(state="failed"))[0].id)).state is State.FAILED


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("lane", ["loop", "thread", "process of a function"])
async def test_a_refusal_rolls_a_completion_back(app: App, start: Start, notes: Notes, lane: str) -> None:  # R4
    flow = app.flow("f")

    @app.task(queue="nobody")
    def part(n: int) -> int:
        return n

    if lane == "loop":

        @flow.step(max_attempts=1)
        async def split(ctx: Context, n: int) -> None:
            async with ctx.complete() as tx:
                tx.result = Next("join").using(after=[part.bind(n)])
    else:

        @flow.step(max_attempts=1, isolation="process" if lane.startswith("process") else None)
        def split(ctx: Context, n: int) -> None:
            with ctx.complete() as tx:
                tx.result = Next("join").using(after=[part.bind(n)])

    @flow.step
    def join(results: list[int]) -> None: ...

    @part.before_enqueue
    async def refuse(call: Any) -> bool:
        await asyncio.sleep(0)
        return bool(call.args != (13,))

    part.after_enqueue(lambda job: notes.take(job.task))
    await start(app, "default")
    with pytest.raises(JobFailed, match=EnqueueRefused.__name__):
        await (await flow.astart(n=13)).aresult(timeout=20)
    assert await app.ajobs(queue="nobody") == []
    await flow.astart(n=1)
    await eventually(lambda: notes() == ["part"])
    assert len(await app.ajobs(queue="nobody")) == 1
