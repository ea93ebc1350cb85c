"""What becomes of a job, whatever its function does."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.app import App
from tenure.core.backoff import Backoff
from tenure.core.job import JobRecord, State
from tenure.core.lease import AbortReason
from tenure.core.outcome import Fail, Reschedule, Retry, Wait
from tenure.errors import JobFailed
from tenure.stores.base import Store
from tenure.tasks.context import Context
from tenure.worker import executor
from tests.faults.scale import lengths

from .conftest import MakeApp, Start, eventually, record_of


async def settled(store: Store, job_id: str) -> JobRecord:
    """The record of a job once its first attempt has ended."""

    async def ended() -> JobRecord | None:
        record = await record_of(store, job_id)
        return record if record.fence and record.state is not State.RUNNING else None

    record: JobRecord = await eventually(ended)
    return record


LANES = pytest.mark.parametrize("lane", ["loop", "thread"])


def register(app: App, lane: str, function: Callable[[], Any], **options: Any) -> Any:
    """A task that calls this, on the loop or in a thread."""
    if lane == "thread":

        @app.task(name="task", **options)
        def in_a_thread() -> Any:
            return function()

        return in_a_thread

    @app.task(name="task", **options)
    async def on_the_loop() -> Any:
        return function()

    return on_the_loop


@LANES
@pytest.mark.parametrize("ending", ["raised", "returned"])
@pytest.mark.parametrize(
    ("answer", "state", "label", "attempt", "error"),
    [
        (Retry("not yet", after=60), State.WAITING, "retrying", 1, "Retry"),
        (Fail("never"), State.FAILED, "failed", 1, "Fail"),
        (Reschedule(after=60), State.WAITING, "scheduled", 0, None),
        (Reschedule(at=datetime.now(UTC) + timedelta(hours=1)), State.WAITING, "scheduled", 0, None),
        (Wait(), State.BLOCKED, "parked", 0, None),
    ],
)
async def test_an_answer_decides_raised_or_returned(
    app: App,
    store: Store,
    start: Start,
    lane: str,
    ending: str,
    answer: Any,
    state: State,
    label: str,
    attempt: int,
    error: str | None,
) -> None:  # H2, Q25, T5, T6
    def function() -> Any:
        if ending == "raised":
            raise answer
        return answer

    job = await register(app, lane, function).aenqueue()
    await start(app)
    record = await settled(store, job.id)
    assert (record.state, record.label, record.attempt) == (state, label, attempt)
    assert (record.error.type if record.error else None) == error


async def test_success_is_not_run_again(app: App, store: Store, start: Start) -> None:  # H4
    ran = []

    @app.task
    async def task() -> dict[str, int]:
        ran.append(1)
        return {"a": 1}

    job = await task.aenqueue()
    await start(app, poll=0.05)
    assert await job.aresult(timeout=5) == {"a": 1}
    await asyncio.sleep(0.15)
    assert ran == [1]
    assert (await record_of(store, job.id)).error is None


async def test_a_retry_goes_to_the_back(app: App, start: Start) -> None:  # H5, H12, I9
    ran: list[str] = []

    @app.task
    async def task(name: str) -> None:
        ran.append(name)
        if ran.count("again") == 1 and name == "again":
            raise Retry(after=0)

    await task.aenqueue_many([("again",), ("b",), ("c",)])
    await start(app, look_ahead=False)
    await eventually(lambda: len(ran) == 4)
    assert ran == ["again", "b", "c", "again"]


@LANES
async def test_an_exception_is_retried_by_the_backoff_and_its_text_kept(
    app: App, store: Store, start: Start, lane: str
) -> None:  # Q24, Q26, Q28
    def function() -> None:
        raise ValueError("wrong\nvalue")

    job = await register(app, lane, function, retry=Backoff(initial=60, jitter=0)).aenqueue()
    await start(app)
    record = await settled(store, job.id)
    assert (record.state, record.attempt) == (State.WAITING, 1)
    assert record.run_at is not None
    assert record.error is not None
    assert (record.error.type, record.error.message) == ("ValueError", "wrong\nvalue")
    trace = record.error.traceback or ""
    assert "in function" in trace
    assert "tenure/worker" not in trace


async def test_an_exception_fails_a_job_whose_attempts_are_used_up(app: App, store: Store, start: Start) -> None:  # I7
    ran = []

    @app.task(retry=Backoff(initial=0), max_attempts=3)
    async def task() -> None:
        ran.append(1)
        raise ValueError(len(ran))

    job = await task.aenqueue()
    await start(app)
    with pytest.raises(JobFailed, match="ValueError: 3"):
        await job.aresult(timeout=5)
    assert len(ran) == 3


@pytest.mark.parametrize(
    ("task_retry", "worker_retry", "app_retry", "state"),
    [
        (Backoff(), None, None, State.WAITING),
        (None, Backoff(), Backoff(), State.FAILED),
        ("unset", Backoff(), None, State.WAITING),
        ("unset", None, Backoff(), State.FAILED),
        ("unset", "unset", Backoff(), State.WAITING),
        ("unset", "unset", None, State.FAILED),
    ],
)
async def test_the_policy_is_the_task_s_else_the_worker_s_else_the_app_s(
    make_app: MakeApp, store: Store, start: Start, task_retry: Any, worker_retry: Any, app_retry: Any, state: State
) -> None:  # H3, Q13
    app = make_app(retry=app_retry)
    options = {} if task_retry == "unset" else {"retry": task_retry}

    @app.task(**options)
    async def task() -> None:
        raise ValueError

    job = await task.aenqueue()
    await start(app, **({} if worker_retry == "unset" else {"retry": worker_retry}))
    assert (await settled(store, job.id)).state is state


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Huge(Exception):
    def __str__(self) -> str:
        return "x" * 5_000_000


def recurse() -> None:
    recurse()


def long_chain() -> None:
    error = None
    for number in range(500):
        try:
            raise ValueError("y" * 1000, number) from error
        except ValueError as raised:
            error = raised
    assert error is not None
    raise error


@LANES
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (SystemExit(3), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
        (MemoryError(), "MemoryError"),
        (StopIteration(1), "RuntimeError"),  # what Python makes of it in a coroutine
        (Unreadable(), "Unreadable"),
        (Huge(), "Huge"),
        (recurse, "RecursionError"),
        (long_chain, "ValueError"),
        (ValueError("half a pair \ud800, NUL \0, \x1b[31m"), "ValueError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_nothing_that_a_job_raises_ends_the_worker(
    app: App, store: Store, start: Start, lane: str, raised: Any, kind: str
) -> None:  # F19, F20, H8, I17
    def function() -> None:
        if callable(raised):
            raised()
        raise raised

    bad = await register(app, lane, function, retry=None).aenqueue()

    @app.task
    async def good() -> int:
        return 1

    await start(app)
    record = await settled(store, bad.id)
    assert record.state is State.FAILED
    assert record.error is not None
    assert record.error.type == kind
    assert len(record.error.message) + len(record.error.traceback or "") < 10_200
    assert await (await good.aenqueue()).aresult(timeout=5) == 1


async def test_a_failed_job_makes_one_log_line(app: App, start: Start, caplog: pytest.LogCaptureFixture) -> None:  # I22
    caplog.set_level(logging.INFO)

    @app.task(retry=None)
    async def task() -> None:
        raise ValueError("one\r\ntwo \x1b[31m")

    job = await task.aenqueue()
    await start(app)
    with pytest.raises(JobFailed):
        await job.aresult(timeout=5)
    [line] = await eventually(lambda: [message for message in caplog.messages if job.id in message])
    assert line.isprintable()


@LANES
@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800", 2**80, {1: 2, "1": 3}])
async def test_a_result_that_cannot_be_stored_fails_the_attempt(
    app: App, store: Store, start: Start, lane: str, value: Any
) -> None:  # F19
    job = await register(app, lane, lambda: value).aenqueue()
    await start(app)
    record = await settled(store, job.id)
    assert (record.state, record.attempt) == (State.FAILED, 1)  # another attempt would give the same
    assert record.error is not None
    assert record.error.type == "InvalidResult"


async def test_jobs_enqueued_in_a_job_exist_only_if_it_succeeds(app: App, store: Store, start: Start) -> None:
    ids: list[str] = []

    @app.task
    async def child(number: int) -> int:
        return number

    @app.task(retry=Backoff(initial=0))
    async def parent(ctx: Context) -> None:
        ids.extend(job.id for job in ctx.enqueue(child.bind(1), child.bind(2)))
        if ctx.attempt == 1:
            raise ValueError

    job = await parent.aenqueue()
    await start(app)
    await job.aresult(timeout=5)
    assert await store.get(ids[:2]) == [None, None]
    assert [(await record_of(store, id_)).task for id_ in ids[2:]] == ["child", "child"]


async def test_children_that_are_refused_fail_the_attempt(app: App, store: Store, start: Start) -> None:
    @app.task
    async def child() -> None: ...

    @app.task(retry=None)
    async def parent(ctx: Context) -> None:
        ctx.enqueue(child.using(unique="key", unique_raises=True).bind())

    holder = await child.using(unique="key", queue="elsewhere").aenqueue()
    job = await parent.aenqueue()
    await start(app, "default")
    record = await settled(store, job.id)
    assert (record.state, record.error and record.error.type) == (State.FAILED, "EnqueueRefused")
    assert holder.id in (record.error.message if record.error else "")


async def test_a_coroutine_that_takes_too_long_is_cancelled_and_has_failed(
    app: App, store: Store, start: Start
) -> None:  # G24
    seen: list[AbortReason | None] = []

    @app.task(timeout=0.05, retry=None)
    async def task(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(ctx.signal.reason)

    job = await task.aenqueue()
    await start(app)
    record = await settled(store, job.id)
    assert (record.state, record.error and record.error.type) == (State.FAILED, "TimeoutError")
    assert "0.05 s" in (record.error.message if record.error else "")
    assert "asyncio.sleep(60)" in ((record.error.traceback if record.error else "") or "")
    assert seen == [AbortReason.TIMEOUT]


async def test_a_timeout_counts_as_an_attempt_under_the_policy(app: App, start: Start) -> None:
    attempts = []

    @app.task(timeout=0.05, retry=Backoff(initial=0))
    async def task(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        await asyncio.sleep(60 if ctx.attempt == 1 else 0)
        return ctx.attempt

    await start(app)
    assert await (await task.aenqueue()).aresult(timeout=5) == 2
    assert attempts == [1, 2]


async def test_a_slot_forgets_that_its_last_job_was_cancelled(app: App, store: Store, start: Start) -> None:  # F20
    @app.task(timeout=0.02, retry=None)
    async def cancelled() -> None:
        await asyncio.sleep(60)

    @app.task(retry=None)
    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    await start(app)
    first = await cancelled.aenqueue()
    second = await cancels_itself.aenqueue()
    for job, kind in ((first, "TimeoutError"), (second, "CancelledError")):
        record = await settled(store, job.id)
        assert (record.state, record.error and record.error.type) == (State.FAILED, kind)


async def test_a_value_that_comes_after_the_timeout_is_no_success(app: App, store: Store, start: Start) -> None:
    @app.task(timeout=0.05, retry=None)
    def task(ctx: Context) -> str:
        ctx.signal.wait_blocking(20)
        return "stopped half way"

    job = await task.aenqueue()
    await start(app)
    record = await settled(store, job.id)
    assert (record.state, record.error and record.error.type) == (State.FAILED, "TimeoutError")


async def test_a_thread_that_does_not_stop_at_its_timeout_loses_its_slot(
    app: App, store: Store, start: Start, monkeypatch: pytest.MonkeyPatch, lines: Callable[[str], list[str]]
) -> None:  # F21
    monkeypatch.setattr(executor, "STRAY", 0.1)
    finish = threading.Event()

    @app.task(timeout=0.05, retry=None)
    def stubborn() -> str:
        finish.wait(20)
        return "too late"

    @app.task
    def other() -> int:
        return 1

    try:
        job = await stubborn.aenqueue()
        await start(app)
        assert (await settled(store, job.id)).state is State.FAILED
        assert await (await other.aenqueue()).aresult(timeout=5) == 1
        [warning] = lines("has not stopped")
        assert job.id in warning
    finally:
        finish.set()
    assert (await record_of(store, job.id)).state is State.FAILED


async def test_a_coroutine_that_catches_its_cancellation_is_cancelled_again(
    app: App, store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:  # F21
    monkeypatch.setattr(executor, "STRAY", 0.05)

    @app.task(timeout=0.05, retry=None)
    async def task() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                continue
        await asyncio.sleep(20)

    job = await task.aenqueue()
    await start(app)
    record = await settled(store, job.id)
    assert (record.state, record.error and record.error.type) == (State.FAILED, "TimeoutError")


@pytest.mark.parametrize("number", lengths(400, 1000))
async def test_memory_does_not_grow_with_the_jobs_that_ran(app: App, start: Start, number: int) -> None:  # I16
    @app.task(keep=0)
    async def task() -> None: ...

    await start(app, concurrency=10)

    async def nothing_left() -> bool:
        return all(queue.waiting + queue.running == 0 for queue in await app.aqueues())

    async def run(number: int) -> None:
        await task.aenqueue_many([()] * number)
        await eventually(nothing_left)

    def alive() -> int:
        gc.collect()
        return sum(
            1 for each in gc.get_objects() if type(each).__name__ in {"Attempt", "Context", "Lease", "AbortSignal"}
        )

    await run(number)
    await run(number // 5)
    before = alive()
    await run(number)
    await eventually(lambda: alive() <= before + 50)
