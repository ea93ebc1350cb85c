"""How an attempt has ended is told to hooks, in every lane: success, and failures, of which each is told once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Any

import pytest

import tenure
from tenure import App, Context, Fail, Reschedule, Retry
from tenure.errors import JobBroken, JobFailed
from tenure.stores.base import Store

from .conftest import Start, eventually, retrying_app, whatever_the_store
from .hooked import LANES, Notes, a_task, both, lanes, notes, of_kind

__all__ = ["notes"]

app = retrying_app


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

    failed = [("failed", error, True) for error in ("ValueError", "Fail", "InvalidResult")]
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

    [line] = [record for record in caplog.records if "the failure of the job is recorded anyway" in record.getMessage()]
    assert line.levelno == logging.ERROR
    assert "ValueError: no good" in line.getMessage()
    assert "LookupError: no mail server" in line.getMessage()


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
