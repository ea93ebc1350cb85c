"""Isolated tasks: each attempt in a child process of its own, on every store, and what passes between the two."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

import tenure
from tenure import App, Backoff, Context
from tenure.core.job import State
from tenure.errors import InvalidOption, JobFailed
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.sync import private_loop
from tenure.tasks.context import AbortSignal
from tenure.worker.isolation.child import MainThread
from tenure.worker.isolation.link import WorkerLink
from tests.faults.scale import on

from .conftest import Lines, MakeApp, Start, eventually, record_of, single_try_app, whatever_the_store

app = single_try_app


# What passes through.


@on("memory", "postgres")
async def test_arguments_results_progress_log_lines_and_children_pass_between_worker_and_child(
    app: App, store: Store, start: Start, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    @app.task(queue="nobody")
    async def child_job(n: int) -> None: ...

    @app.task(isolation="process")
    def blocking(ctx: Context, words: list[str]) -> dict[str, Any]:
        """Says how far it is, and waits until somebody has seen it."""
        ctx.progress(1, 2, "half")
        ctx.enqueue(child_job.bind(7))
        ctx.log.warning("a line of %d words", len(words), extra={"answer": 42})
        while not (tmp_path / "seen").exists():
            time.sleep(0.01)
        return {"words": words, "pid": os.getpid(), "attempt": ctx.attempt, "worker": ctx.worker_id}

    @app.task(isolation="process")
    async def awaited(ctx: Context) -> int:
        await asyncio.sleep(0)
        assert tenure.current() is ctx
        return os.getpid()

    caplog.set_level(logging.INFO)
    worker = await start(app, "default", concurrency=2)
    job = await blocking.aenqueue(["a", "b" * 300_000])
    other = await awaited.aenqueue()

    await eventually(lambda: caplog.messages, 10)
    progress = await eventually(lambda: _progress(store, job.id))
    (tmp_path / "seen").touch()
    result = await job.aresult(timeout=20)

    assert (progress.done, progress.total, progress.note) == (1, 2, "half")
    assert result["words"] == ["a", "b" * 300_000]
    assert (result["attempt"], result["worker"]) == (1, worker.id)
    assert os.getpid() not in (result["pid"], await other.aresult(timeout=20))
    [logged] = [record for record in caplog.records if "a line of" in record.message]
    assert logged.message.endswith("a line of 2 words")
    assert (logged.name, logged.levelname, logged.process) == ("tenure.job", "WARNING", result["pid"])
    assert (logged.job_id, logged.answer) == (job.id, 42)  # type: ignore[attr-defined]
    [waiting] = await app.ajobs(queue="nobody")
    assert waiting.record is not None
    assert waiting.record.payload == child_job.bind(7).payload


async def _progress(store: Store, job_id: str) -> Any:
    return (await record_of(store, job_id)).progress


async def test_a_child_has_connections_of_its_own(app: App, url: str, start: Start) -> None:  # F22
    @app.task(queue="nobody")
    async def follow_up(n: int) -> None: ...

    @app.task(isolation="process")
    def blocking() -> str:
        return follow_up.enqueue(1).id

    @app.task(isolation="process")
    async def awaited() -> str:
        return (await follow_up.aenqueue(2)).id

    await start(app, "default", concurrency=2)
    jobs = [await blocking.aenqueue(), await awaited.aenqueue()]

    if url.startswith("memory:"):
        for job in jobs:
            with pytest.raises(JobFailed, match=r"use ctx\.enqueue"):
                await job.aresult(timeout=20)
    else:
        ids = [await job.aresult(timeout=20) for job in jobs]
        assert {job.id for job in await app.ajobs(queue="nobody")} == set(ids)


@whatever_the_store
async def test_answers_and_exceptions_of_a_child_mean_what_they_do_elsewhere(
    app: App, store: Store, start: Start
) -> None:
    @app.task(isolation="process", retry=Backoff(initial=60, on=(KeyError,)))
    def answers(what: str) -> None:
        if what == "retry":
            raise tenure.Retry("later", after=50)
        if what == "fail":
            raise tenure.Fail("never")
        if what == "reschedule":
            raise tenure.Reschedule(after=70)
        raise {"covered": KeyError, "not covered": ValueError}[what](what)

    await start(app, concurrency=2)
    jobs = {what: await answers.aenqueue(what) for what in ("retry", "fail", "reschedule", "covered", "not covered")}
    undecodable = await app.remote("answers").aenqueue(1, 2, 3)

    async def settled() -> bool:
        records = [await record_of(store, job.id) for job in jobs.values()]
        return all(record.fence and record.state is not State.RUNNING for record in records)

    with pytest.raises(JobFailed, match="not covered"):
        await jobs["not covered"].aresult(timeout=20)
    with pytest.raises(JobFailed, match="never"):
        await jobs["fail"].aresult(timeout=20)
    with pytest.raises(JobFailed):
        await undecodable.aresult(timeout=20)
    await eventually(settled)
    records = {what: await record_of(store, job.id) for what, job in jobs.items()}
    assert (await record_of(store, undecodable.id)).state is State.BROKEN
    assert [records[what].label for what in ("retry", "covered")] == ["retrying", "retrying"]
    assert (records["reschedule"].label, records["reschedule"].attempt) == ("scheduled", 0)
    traceback = records["not covered"].error
    assert traceback is not None
    assert "test_isolation.py" in (traceback.traceback or "")
    assert "executor.py" not in (traceback.traceback or "")


@whatever_the_store
async def test_middleware_wraps_isolated_tasks_in_the_child(app: App, start: Start) -> None:
    @app.middleware
    async def twice(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(0)
        return [os.getpid(), ctx.job.task, await call_next()]

    @app.task(isolation="process")
    def blocking() -> Any:
        assert tenure.current().job.task == "blocking"
        return os.getpid(), threading.current_thread() is threading.main_thread()

    @app.task(isolation="process")
    async def awaited() -> Any:
        return os.getpid()

    await start(app, concurrency=2)
    outer, task, (inner, in_main) = await (await blocking.aenqueue()).aresult(timeout=20)
    assert (outer, task, in_main) == (inner, "blocking", True)
    outer, task, inner = await (await awaited.aenqueue()).aresult(timeout=20)
    assert (outer, task) == (inner, "awaited")
    assert outer != os.getpid()


def test_what_middleware_calls_before_the_main_thread_listens_is_called() -> None:  # F20
    """In a child that lost the processor in between, the function of a good job was never called, and its attempt failed."""
    main = MainThread(AbortSignal(), cast("Context", None), cast("WorkerLink", None))
    asked = asyncio.run_coroutine_threadsafe(main.run(threading.get_ident, (), {}), private_loop())
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), private_loop()).result(10)  # it has asked by now

    main.serve(asked)

    assert asked.result(10) == threading.get_ident()


# The lanes.


@whatever_the_store
async def test_the_worker_may_isolate_every_task_that_does_not_object(app: App, start: Start) -> None:
    @app.task
    def any_task() -> int:
        return os.getpid()

    @app.task(isolation=None)
    def objector() -> int:
        return os.getpid()

    worker = await start(app, isolation="process")
    assert await (await any_task.aenqueue()).aresult(timeout=20) != os.getpid()
    assert await (await objector.aenqueue()).aresult(timeout=20) == os.getpid()
    assert [info.lanes for info in await app.aworkers() if info.id == worker.id] == [("thread", "process")]


@whatever_the_store
async def test_each_attempt_has_a_process_of_its_own_with_the_app_imported_once(app: App, start: Start) -> None:
    imported: list[int] = [os.getpid()]

    @app.task(isolation="process")
    def spoil() -> list[int]:
        imported.append(os.getpid())
        return imported

    await start(app)
    first, second = [await (await spoil.aenqueue()).aresult(timeout=20) for _ in range(2)]
    assert first[0] == second[0] == os.getpid()
    assert len(first) == len(second) == 2  # nothing stays of the one before
    assert first[1] != second[1]


@whatever_the_store
async def test_there_are_never_more_children_than_allowed(app: App, start: Start, tmp_path: Path) -> None:
    inside, met = tmp_path / "inside", tmp_path / "met"
    inside.mkdir()

    @app.task(isolation="process")
    def counted(n: int) -> int:
        """The first two wait for each other, however long one takes to begin."""
        here, until = inside / str(n), time.monotonic() + 10
        here.touch()
        while not met.exists() and time.monotonic() < until:
            if len(list(inside.iterdir())) > 1:
                met.touch()
            time.sleep(0.01)
        time.sleep(0.05)
        number = len(list(inside.iterdir()))
        here.unlink()
        return number

    @app.task
    async def beside() -> str:
        return "on the loop"

    await start(app, concurrency=10, isolated=2)
    jobs = [await counted.aenqueue(n) for n in range(8)]
    seen = [await job.aresult(timeout=30) for job in jobs]
    assert max(seen) == 2
    assert await (await beside.aenqueue()).aresult(timeout=20) == "on the loop"


@whatever_the_store
@pytest.mark.parametrize(
    "options", [{"isolation": "thread"}, {"memory_limit": 1 << 30}, {"isolation": None, "memory_limit": 1 << 30}]
)
def test_options_of_children_need_isolation(app: App, options: Any) -> None:
    def task() -> None: ...

    with pytest.raises(InvalidOption):
        app.task(**options)(task)


# The store cannot be reached.


@pytest.mark.parametrize("url", ["redis"], indirect=True)
async def test_a_job_that_cannot_reach_the_store_from_its_child_is_released(
    url: str, make_app: MakeApp, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: Lines
) -> None:  # R15
    monkeypatch.setattr("tenure.worker.isolation.lazy_store.PAUSES", (0.01, 0.01))
    here, tried = os.getpid(), tmp_path / "tried"

    def make_store() -> Store:
        if os.getpid() == here or tried.exists():
            return open_store(url)
        tried.touch()
        return open_store("redis://127.0.0.1:1/0")

    app = make_app(store=make_store)

    @app.task(isolation="process", max_attempts=1)
    def looks(ctx: Context) -> int:
        app.queues()
        return ctx.attempt

    await start(app)
    job = await looks.aenqueue()
    assert await job.aresult(timeout=30) == 1  # the attempt was given back
    assert lines("could not reach the store")
