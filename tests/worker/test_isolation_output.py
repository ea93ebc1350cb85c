"""What isolated attempts write: its end stays with the attempt, or goes to the log."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

import tenure
from tenure import App, Backoff, Context
from tenure.errors import JobFailed
from tenure.stores.base import Store

from .conftest import Lines, Start, eventually, record_of, single_try_app, whatever_the_store

app = single_try_app


@whatever_the_store
async def test_the_end_of_what_a_failed_attempt_wrote_stays_with_it(app: App, store: Store, start: Start) -> None:
    @app.task(isolation="process", output=200, max_attempts=1)
    def writes(how: str) -> None:
        print("x" * 1000)
        print("to stdout, ä\0")
        print("to stderr", file=sys.stderr)
        os.system("echo from a shell")
        if how == "exit":
            os._exit(3)
        if how == "answer":
            raise tenure.Fail("why")
        raise ValueError

    await start(app, concurrency=3)
    jobs = [await writes.aenqueue(how) for how in ("exit", "answer", "raise")]
    for job in jobs:
        with pytest.raises(JobFailed):
            await job.aresult(timeout=20)
        error = (await record_of(store, job.id)).error
        assert error is not None
        assert error.output is not None
        assert error.output.endswith("xxx\nto stdout, ä\\x00\nto stderr\nfrom a shell\n")
        assert error.output.startswith("[")
        assert len(error.output) < 250
        [attempt] = await job.aattempts()
        assert attempt.output == error.output


async def test_the_end_of_what_a_successful_attempt_wrote_stays_with_it(app: App, start: Start, lines: Lines) -> None:
    @app.task(isolation="process", output=200, retry=Backoff(initial=0.01))
    def writes(ctx: Context) -> str:
        print("x" * 1000)
        print(f"attempt {ctx.attempt}, ä\0", file=sys.stderr)
        if ctx.attempt == 1:
            raise ValueError
        return "done"

    @app.task(isolation="process", output=200)
    async def silent() -> None: ...

    flow = app.flow("story")

    @flow.step(isolation="process", output=200, then="last")
    def first() -> None:
        print("once upon a time")

    @flow.step(isolation="process", output=200)
    async def last() -> None:
        print("the end")

    job, other, run = await writes.aenqueue(), await silent.aenqueue(), await flow.astart()
    await start(app, concurrency=3)
    assert await job.aresult(timeout=20) == "done"
    await asyncio.gather(other.aresult(timeout=20), run.aresult(timeout=20))

    wrote = [(attempt.outcome, attempt.output or "") for attempt in await job.aattempts()]
    assert [outcome for outcome, _ in wrote] == ["retried", "succeeded"]
    for number, (_, output) in enumerate(wrote, 1):
        assert output.endswith(f"xxx\nattempt {number}, ä\\x00\n")
        assert len(output) < 250
    assert [(attempt.outcome, attempt.output) for attempt in await other.aattempts()] == [("succeeded", None)]
    told = [await (await app.ajob(step.id)).aattempts() for step in await run.asteps()]
    assert [[attempt.output for attempt in attempts] for attempts in told] == [["once upon a time\n"], ["the end\n"]]
    assert lines(" wrote ") == []


@whatever_the_store
async def test_what_an_attempt_wrote_that_is_not_remembered_goes_to_the_log(
    app: App, start: Start, lines: Lines
) -> None:
    @app.task(isolation="process", output=1000)
    async def writes() -> None:
        print("first\nsecond \x1b[31m")
        raise tenure.Wait

    await start(app)
    await writes.aenqueue()
    await eventually(lambda: len(lines(" wrote ")) == 2)
    assert [line.rpartition(" wrote ")[2] for line in lines(" wrote ")] == ["'first'", "'second \\x1b[31m'"]


@whatever_the_store
async def test_what_an_attempt_wrote_stays_with_it_though_its_success_is_refused(app: App, start: Start) -> None:
    @app.task(queue="nobody")
    async def single() -> None: ...

    @app.task(isolation="process", output=1000, max_attempts=1)
    def parent(ctx: Context) -> None:
        print("all is well")
        ctx.enqueue(single.using(unique="k", unique_raises=True).bind())

    await single.using(unique="k").aenqueue()
    await start(app, "default")
    job = await parent.aenqueue()
    with pytest.raises(JobFailed, match="EnqueueRefused"):
        await job.aresult(timeout=20)
    [attempt] = await job.aattempts()
    assert (attempt.outcome, attempt.output) == ("failed", "all is well\n")
