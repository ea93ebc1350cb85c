"""Middleware, in every lane: the onion, the worker's own, and context variables that jobs and loggers see."""

from __future__ import annotations

import asyncio
import logging
import os
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Context
from tenure.errors import JobFailed

from .conftest import Start, single_try_app
from .hooked import LANES, Notes, a_task

pytestmark = pytest.mark.parametrize("url", ["memory"], indirect=True)
lanes = pytest.mark.parametrize("lane", LANES)

request_id: ContextVar[str] = ContextVar("request_id", default="-")


app = single_try_app


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


def layer(notes: Notes, name: str) -> Any:
    async def wrap(ctx: Context, call_next: Any) -> Any:
        notes.take(f"{name} before", ctx.job.task, ctx.worker_id)
        await asyncio.sleep(0)
        value = await call_next()
        notes.take(f"{name} after")
        return f"{name}({value})"

    return wrap


@lanes
async def test_middleware_is_an_onion_with_the_worker_s_own_inside_and_hooks_within(
    app: App, start: Start, notes: Notes, lane: str
) -> None:  # Q38
    app.middleware(layer(notes, "1"))
    app.middleware(layer(notes, "2"))
    app.before_perform(lambda ctx: notes.take("hook before"))
    app.after_perform(lambda ctx, result: notes.take("hook after", result))

    def job() -> str:
        notes.take("job")
        return "value"

    task = a_task(app, lane, job)
    worker = await start(app, middleware=[layer(notes, "3")])

    assert await (await task.aenqueue()).aresult(timeout=20) == "1(2(3(value)))"
    seen = notes()
    assert seen[0][1:] == ("job", worker.id)
    assert [each if isinstance(each, str) else each[0] for each in seen] == [
        "1 before", "2 before", "3 before", "hook before", "job", "hook after", "3 after", "2 after", "1 after",
    ]  # fmt: skip
    assert ("hook after", "value") in seen


@lanes
async def test_a_job_and_its_log_lines_see_the_context_that_middleware_sets(
    app: App, start: Start, caplog: pytest.LogCaptureFixture, lane: str
) -> None:  # Q38
    class Adds(logging.Filter):
        """As the logging cookbook has it."""

        def filter(self, record: logging.LogRecord) -> bool:
            record.request_id = request_id.get()
            return True

    @app.middleware
    async def tagged(ctx: Context, call_next: Any) -> Any:
        token = request_id.set(f"request of {ctx.job.task}")
        try:
            return await call_next()
        finally:
            request_id.reset(token)

    def job() -> tuple[str, bool]:
        logging.getLogger("shop").warning("sold out")
        return request_id.get(), os.getpid() == worker

    worker = os.getpid()
    task = a_task(app, lane, job)
    adds = Adds()
    caplog.handler.addFilter(adds)
    logging.root.addHandler(caplog.handler)
    try:
        await start(app)
        seen, here = await (await task.aenqueue()).aresult(timeout=20)
    finally:
        caplog.handler.removeFilter(adds)
    assert (seen, here) == ("request of job", not lane.startswith("process"))
    lines = [record for record in caplog.records if record.name == "shop"]
    assert {(line.getMessage(), vars(line)["request_id"]) for line in lines} == {("sold out", "request of job")}
    assert request_id.get() == "-"


@lanes
async def test_middleware_may_answer_change_and_catch(app: App, start: Start, notes: Notes, lane: str) -> None:
    @app.middleware
    async def cache(ctx: Context, call_next: Any) -> Any:
        [how] = task._decode(ctx.job.payload)[0]
        if how == "cached":
            return "from the cache"
        try:
            return await call_next()
        except ZeroDivisionError:
            return "caught"

    def job(how: str) -> str:
        notes.take(how)
        if how == "caught":
            raise ZeroDivisionError
        return how

    task = a_task(app, lane, job)
    app.on_failure(lambda *args: notes.take("failed"))
    await start(app)
    answers = [await (await task.aenqueue(how)).aresult(timeout=20) for how in ("cached", "caught", "plain")]
    assert answers == ["from the cache", "caught", "plain"]
    assert notes() == ["caught", "plain"]


async def test_what_middleware_raises_is_the_attempt_s_and_told_once(app: App, start: Start, notes: Notes) -> None:
    @app.middleware
    async def broken(ctx: Context, call_next: Any) -> Any:
        await call_next()
        raise LookupError("no tracer")

    @app.task
    async def job() -> None: ...

    app.on_failure(lambda ctx, error, final: notes.take(str(error), final))
    await start(app)
    with pytest.raises(JobFailed, match="LookupError: no tracer"):
        await (await job.aenqueue()).aresult(timeout=10)
    assert notes() == [("no tracer", True)]


async def test_middleware_that_is_no_coroutine_says_so(app: App, start: Start) -> None:
    @app.middleware  # type: ignore[type-var]
    def forgetful(ctx: Context, call_next: Any) -> str:
        return "no await here"

    @app.task
    async def job() -> None: ...

    await start(app)
    with pytest.raises(
        JobFailed, match=r"middleware .*forgetful returned something that cannot be awaited: write it as async def"
    ):
        await (await job.aenqueue()).aresult(timeout=10)
