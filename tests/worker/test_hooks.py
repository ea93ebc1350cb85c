"""Hooks around attempts, in every lane: their order, what they see, and skipping."""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar
from typing import Any

import pytest

import tenure
from tenure import App, Context, Fail, Reschedule, Retry, State
from tenure.errors import JobFailed
from tenure.stores.base import Store

from .conftest import Start, eventually, record_of, retrying_app, whatever_the_store
from .hooked import LANES, Notes, a_task, both, lanes, notes, of_kind

__all__ = ["notes"]

kinds = pytest.mark.parametrize("kind", ["def", "async def"])

app = retrying_app

colour: ContextVar[str] = ContextVar("colour", default="none")


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
        [how] = task._decode(ctx.job.payload)[0]
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
