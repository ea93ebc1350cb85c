"""What attempts log: its end stays with the attempt, in every lane, and its tail is there while the job runs."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from contextvars import copy_context
from typing import Any

import pytest

from tenure import App, Context
from tenure.core.job import JobRecord
from tenure.errors import JobFailed
from tenure.stores.base import Store
from tenure.worker.output import LogTail, OutputHandler, line_of

from .conftest import Lines, Start, eventually, record_of, single_try_app, whatever_the_store

app = single_try_app
shop = logging.getLogger("shop")
LINE = r"\d\d:\d\d:\d\d\.\d{3} INFO shop: "


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shop")


def without_times(output: str | None) -> str:
    return re.sub(r"(?m)^\d\d:\d\d:\d\d\.\d{3} ", "", output or "")


@pytest.mark.parametrize("lane", ["loop", "thread", "process"])
async def test_what_an_attempt_logs_stays_with_it(app: App, store: Store, start: Start, lane: str) -> None:  # T25
    def logging_(number: int) -> None:
        shop.info("job %d\nsays \x1b[31m ä", number)
        shop.debug("not at this level")
        logging.getLogger("other").warning("any logger")
        if number:
            raise ValueError(number)

    if lane == "loop":

        @app.task(output=10_000, max_attempts=1)
        async def task(number: int) -> None:
            await asyncio.sleep(0)
            logging_(number)
    else:

        @app.task(output=10_000, max_attempts=1, isolation="process" if lane == "process" else None)
        def task(number: int) -> None:
            logging_(number)

    await start(app, concurrency=4)
    jobs = [await task.aenqueue(number) for number in range(2)]
    await jobs[0].aresult(timeout=20)
    with pytest.raises(JobFailed):
        await jobs[1].aresult(timeout=20)

    for number, job in enumerate(jobs):
        [attempt] = await job.aattempts()
        said = f"INFO shop: job {number}\\nsays \\x1b[31m ä\nWARNING other: any logger\n"
        assert without_times(attempt.output) == said
        assert re.match(LINE, attempt.output or "")
    error = (await record_of(store, jobs[1].id)).error
    assert error is not None
    assert without_times(error.output).startswith("INFO shop: job 1")


@whatever_the_store
async def test_a_process_keeps_what_it_writes_and_logs_in_their_order(app: App, start: Start) -> None:
    @app.task(isolation="process", output=10_000)
    def task() -> None:
        print("one")
        shop.info("two")
        print("three")

    await start(app)
    job = await task.aenqueue()
    await job.aresult(timeout=20)

    [attempt] = await job.aattempts()
    assert without_times(attempt.output) == "one\nINFO shop: two\nthree\n"


@whatever_the_store
async def test_each_job_keeps_only_what_was_logged_in_it(app: App, start: Start) -> None:
    @app.task(output=10_000)
    async def task(number: int) -> None:
        for _ in range(5):
            shop.info("number %d", number)
            await asyncio.sleep(0.001)

    @app.task
    async def silent() -> None:
        shop.info("not kept")

    await start(app, concurrency=20)
    jobs = [await task.aenqueue(number) for number in range(20)]
    await silent.aenqueue()
    shop.info("outside of jobs")
    for number, job in enumerate(jobs):
        await job.aresult(timeout=20)
        [attempt] = await job.aattempts()
        assert without_times(attempt.output) == f"INFO shop: number {number}\n" * 5


@whatever_the_store
async def test_threads_of_a_job_that_have_its_context_log_into_its_output(app: App, start: Start) -> None:
    @app.task(output=10_000)
    def task() -> None:
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(shop.info, "from a thread"))
        thread.start()
        thread.join()

    await start(app)
    job = await task.aenqueue()
    await job.aresult(timeout=20)
    [attempt] = await job.aattempts()
    assert "from a thread" in (attempt.output or "")


@whatever_the_store
async def test_a_job_that_logs_nothing_leaves_nothing(app: App, start: Start) -> None:
    @app.task(output=10_000)
    async def task() -> None: ...

    await start(app)
    job = await task.aenqueue()
    await job.aresult(timeout=20)
    [attempt] = await job.aattempts()
    assert attempt.output is None


@whatever_the_store
async def test_the_handler_is_there_only_while_a_worker_needs_it(app: App, start: Start) -> None:
    @app.task
    async def plain() -> None: ...

    @app.task(output=100)
    async def kept() -> None: ...

    def handlers() -> int:
        return sum(isinstance(each, OutputHandler) for each in logging.root.handlers)

    first, second = await start(app), await start(app)
    await (await plain.aenqueue()).aresult(timeout=20)
    assert handlers() == 0
    for _ in range(20):
        await (await kept.aenqueue()).aresult(timeout=20)
    assert handlers() == 1
    await first.stop()
    await second.stop()
    assert handlers() == 0


@pytest.mark.parametrize("lane", ["loop", "thread", "process"])
async def test_the_tail_is_there_while_the_job_runs(app: App, store: Store, start: Start, lane: str) -> None:
    finished = time.monotonic() + 15

    def say(ctx: Context) -> None:
        ctx.progress(1, total=2)
        shop.info("working")
        shop.info("x" * 3000)
        shop.info("still working")

    if lane == "loop":

        @app.task(output=10_000)
        async def task(ctx: Context) -> None:
            say(ctx)
            while ctx.signal.reason is None and time.monotonic() < finished:
                await asyncio.sleep(0.05)
    else:

        @app.task(output=10_000, isolation="process" if lane == "process" else None)
        def task(ctx: Context) -> None:
            say(ctx)
            while ctx.signal.reason is None and time.monotonic() < finished:
                time.sleep(0.05)

    worker = await start(app)
    job = await task.aenqueue()
    seen: list[JobRecord] = []

    async def is_seen() -> bool:
        seen.append(await record_of(store, job.id))
        progress = seen[-1].progress
        return progress is not None and progress.tail is not None and "still working" in progress.tail

    await eventually(is_seen)
    progress = seen[-1].progress
    assert progress is not None
    assert (progress.done, progress.total) == (1, 2)
    assert progress.tail is not None
    assert len(progress.tail) == 2000
    assert progress.tail.endswith("still working\n")
    await job.acancel()
    await worker.stop(grace=2)


@whatever_the_store
async def test_records_that_cannot_be_shown_harm_nothing(app: App, start: Start) -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @app.task(output=10_000)
    async def task() -> str:
        logging.raiseExceptions = False
        try:
            shop.info("%s", Bad())
            shop.info("%d", "x")
        finally:
            logging.raiseExceptions = True
        try:
            raise ValueError("a\nb")
        except ValueError:
            shop.exception("failed")
        return "done"

    await start(app)
    job = await task.aenqueue()
    assert await job.aresult(timeout=20) == "done"
    [attempt] = await job.aattempts()
    lines = without_times(attempt.output).splitlines()
    assert lines[:3] == [
        "INFO shop: %s (its arguments cannot be shown: RuntimeError)",
        "INFO shop: %d (its arguments cannot be shown: TypeError)",
        "ERROR shop: failed",
    ]
    assert lines[3] == "  Traceback (most recent call last):"
    assert lines[-2:] == ["  ValueError: a", "  b"]


def test_the_end_of_a_long_log_is_kept_and_what_was_cut_is_counted() -> None:
    tail = LogTail(100)
    for number in range(10_000):
        tail.add(f"line {number} ä\n")

    text = tail.text()

    assert text is not None
    assert text.startswith("[")
    assert text.endswith("line 9999 ä\n")
    kept = len(text.partition("…")[2].encode())
    assert kept <= 100
    assert text.startswith(
        f"[{len(''.join(f'line {n} ä' for n in range(10_000)).encode()) + 10_000 - kept:,} bytes cut] …"
    )
    whole = LogTail(100)
    whole.add("short\n")
    assert whole.text() == "short\n"


def test_warnings_are_printed_as_before_where_logging_is_not_configured(capsys: pytest.CaptureFixture[str]) -> None:
    handler, before = OutputHandler(), logging.root.handlers
    logging.root.handlers = [handler]
    try:
        logging.getLogger("nobody").warning("to stderr")
        logging.getLogger("nobody").info("to nobody")
    finally:
        logging.root.handlers = before
    assert capsys.readouterr().err == "to stderr\n"


def test_a_line_says_when_how_grave_and_by_whom() -> None:
    record: Any = logging.LogRecord("a.b", logging.WARNING, "", 0, "%s of %s", ("1", "2"), None)
    record.created, record.msecs = 1_000_000_007.25, 250.0

    assert line_of(record) == "01:46:47.250 WARNING a.b: 1 of 2\n"


@whatever_the_store
async def test_output_that_is_not_remembered_is_not_logged_twice(app: App, start: Start, lines: Lines) -> None:
    @app.task(output=10_000)
    async def task(ctx: Context) -> None:
        shop.info("said once")
        raise asyncio.CancelledError

    await start(app)
    await task.aenqueue()
    await asyncio.sleep(0.3)
    assert not [line for line in lines("tenure.worker") if "wrote" in line]
