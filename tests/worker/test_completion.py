"""Jobs that are completed in a transaction: their writes and their end are committed together, or neither is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenure import App, Context, Fail, Retry
from tenure.errors import InvalidOption, UseAsync, WrongState

from .completing import Bodies, Hook, attempts, became, effects, lane, url
from .conftest import Lines, Start, eventually, retrying_app
from .effects import Effects

__all__ = ["effects", "lane", "url"]

app = retrying_app


@pytest.fixture
def bodies(app: App, lane: str, effects: Effects) -> Bodies:
    return Bodies(app, lane, effects)


def first_attempt(error: Exception) -> Hook:
    def hook(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise error

    return hook


def raising(error: Exception) -> Hook:
    def hook(_: Context) -> None:
        raise error

    return hook


# Left normally.


async def test_the_writes_the_result_and_the_children_are_committed_together(
    app: App, bodies: Bodies, effects: Effects, start: Start, lines: Lines
) -> None:  # Q48
    children: list[Any] = []

    @app.task(queue="nobody")
    async def child() -> None: ...

    task = bodies.task(before=lambda ctx: children.extend(ctx.enqueue(child.bind())))
    job = await task.aenqueue(7)
    await start(app, "default")

    assert await job.aresult(timeout=10) == 7
    assert await effects.rows() == [7]
    assert (await children[0].arefresh()).state == "waiting"
    await eventually(lambda: lines("succeeded"))
    assert len(lines(f"job {job.id} of task {task.name} succeeded, attempt 1")) == 1
    assert (await app.astats()).totals.processed == 1


async def test_jobs_that_are_enqueued_in_the_transaction_exist_with_it(
    app: App, lane: str, start: Start, lines: Lines
) -> None:
    @app.task(queue="nobody")
    async def other(n: int) -> None: ...

    @app.task(retry=None)
    async def coroutine(ctx: Context, fails: bool) -> str:
        async with ctx.complete() as tx:
            tx.result = found = (await other.using(connection=tx).aenqueue(1)).id
            if fails:
                raise ValueError
        return found

    @app.task(retry=None)
    def thread(ctx: Context, fails: bool) -> str:
        with ctx.complete() as tx:
            tx.result = found = other.using(connection=tx).enqueue(1).id
            if fails:
                raise ValueError
        return found

    task = coroutine if lane == "coroutine" else thread
    await start(app, "default")
    lost = await task.aenqueue(True)
    kept = await task.aenqueue(False)

    found = await kept.aresult(timeout=10)
    assert [job.id for job in await app.ajobs(queue="nobody")] == [found]
    assert await became(lost, "failed", attempt=1)
    assert lines("so the rest is ignored") == [], "to return the very result is nothing new"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (lambda _: "late", "its return value is dropped"),
        (raising(ValueError("late")), "it raised ValueError: late"),
        (raising(Retry("late")), "it answered Retry"),
    ],
    ids=["returned", "raised", "answered"],
)
async def test_what_comes_after_the_commit_is_logged_once_and_changes_nothing(
    app: App, bodies: Bodies, effects: Effects, start: Start, lines: Lines, after: Hook, said: str
) -> None:
    task = bodies.task(after=after)
    job = await task.aenqueue(7)
    await start(app)

    assert await job.aresult(timeout=10) == 7
    await eventually(lambda: lines("succeeded"))
    assert len(lines(said)) == 1
    assert await attempts(job) == 1
    assert await effects.rows() == [7]


async def test_a_job_is_completed_once(app: App, lane: str, effects: Effects, start: Start) -> None:
    refusals: list[WrongState] = []

    @app.task
    async def coroutine(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
        with pytest.raises(WrongState) as refusal:
            async with ctx.complete():
                pass
        refusals.append(refusal.value)

    @app.task
    def thread(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(effects.insert, 1)
        with pytest.raises(WrongState) as refusal, ctx.complete():
            pass
        refusals.append(refusal.value)

    await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: refusals)
    assert "is succeeded: this needs a job that is running" in str(refusals[0])
    assert await effects.rows() == [1]


async def test_a_block_in_a_block_is_refused(app: App, effects: Effects, start: Start) -> None:
    @app.task(retry=None)
    async def nested(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            async with ctx.complete():
                pass

    job = await nested.aenqueue()
    await start(app)

    await eventually(lambda: became(job, "failed", attempt=1))
    assert job.error is not None
    assert job.error.type == "WrongState"
    assert await effects.rows() == []


async def test_a_transaction_is_of_no_use_after_its_block(app: App, lane: str, effects: Effects, start: Start) -> None:
    raised: list[BaseException] = []

    @app.task
    async def coroutine(ctx: Context) -> None:
        async with ctx.prepare() as tx:
            pass
        with pytest.raises(RuntimeError, match="ended with its block") as error:
            await tx.execute(effects.insert, 1)
        raised.append(error.value)

    @app.task
    def thread(ctx: Context) -> None:
        with ctx.prepare() as tx:
            pass
        with pytest.raises(RuntimeError, match="ended with its block") as error:
            tx.execute(effects.insert, 1)
        raised.append(error.value)

    await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: raised)


async def test_preparing_reads_and_cannot_write(app: App, effects: Effects, start: Start) -> None:
    @app.task(retry=None)
    async def writer(ctx: Context) -> None:
        async with ctx.prepare() as tx:
            assert await tx.fetchrow(f"SELECT n FROM {effects.table}") is None
            await tx.execute(effects.insert, 1)

    job = await writer.aenqueue()
    await start(app)

    await eventually(lambda: became(job, "failed", attempt=1))
    assert await effects.rows() == []


async def test_middleware_may_complete_the_job_around_its_function(app: App, effects: Effects, start: Start) -> None:
    @app.middleware
    async def transactional(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            tx.result = await call_next()
        return None

    @app.task
    async def plain() -> int:
        return 5

    job = await plain.aenqueue()
    await start(app)

    assert await job.aresult(timeout=10) == 5
    assert await effects.rows() == [1]


async def test_each_lane_has_its_own_with(app: App, start: Start) -> None:
    said: list[str] = []

    @app.task
    async def coroutine(ctx: Context) -> None:
        with pytest.raises(UseAsync) as error, ctx.complete():
            pass
        said.append(str(error.value))

    @app.task
    def thread(ctx: Context) -> None:
        async def enter() -> None:
            async with ctx.complete():
                pass

        with pytest.raises(InvalidOption) as error:
            asyncio.run(enter())
        said.append(str(error.value))

    await coroutine.aenqueue()
    await thread.aenqueue()
    await start(app)

    await eventually(lambda: len(said) == 2)
    assert any("use async with instead" in each for each in said)
    assert any("use with" in each for each in said)


# Raised in.


async def test_a_block_that_raises_is_rolled_back_and_the_exception_decides(
    app: App, bodies: Bodies, effects: Effects, start: Start
) -> None:  # Q50
    task = bodies.task(inside=first_attempt(ValueError("in the block")))
    job = await task.aenqueue(7)
    await start(app)

    assert await job.aresult(timeout=10) == 7
    assert await effects.rows() == [7]
    assert await attempts(job) == 2


@pytest.mark.parametrize(
    ("answer", "state"), [(Fail("no"), "failed"), (Retry("later", after=3600), "waiting")], ids=["fail", "retry"]
)
async def test_an_answer_in_the_block_is_obeyed_and_rolled_back(
    app: App, bodies: Bodies, effects: Effects, start: Start, answer: Exception, state: str
) -> None:
    task = bodies.task(inside=raising(answer))
    job = await task.aenqueue(7)
    await start(app)

    await eventually(lambda: became(job, state, attempt=1))
    assert await effects.rows() == []


async def test_a_block_may_be_tried_again(app: App, lane: str, effects: Effects, start: Start) -> None:
    @app.task
    async def coroutine(ctx: Context) -> None:
        for last in (False, True):
            try:
                async with ctx.complete() as tx:
                    await tx.execute(effects.insert, 1)
                    assert last, "try again"
            except AssertionError:
                continue

    @app.task
    def thread(ctx: Context) -> None:
        for last in (False, True):
            try:
                with ctx.complete() as tx:
                    tx.execute(effects.insert, 1)
                    assert last, "try again"
            except AssertionError:
                continue

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await job.aresult(timeout=10)
    assert await effects.rows() == [1]
    assert await attempts(job) == 1


async def test_an_error_of_the_database_rolls_the_block_back(
    app: App, bodies: Bodies, effects: Effects, start: Start
) -> None:  # Q50
    """Even if the function swallows it: a transaction that has failed settles nothing."""
    task = bodies.task(retry=None)

    @app.task(retry=None)
    async def poisoned(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            await tx.execute("INSERT INTO nowhere VALUES (1)")

    bad, good = await poisoned.aenqueue(), await task.aenqueue(7)
    await start(app)

    assert await good.aresult(timeout=10) == 7
    await eventually(lambda: became(bad, "failed", attempt=1))
    assert await effects.rows() == [7]


async def test_a_result_that_cannot_be_stored_rolls_the_block_back(app: App, effects: Effects, start: Start) -> None:
    @app.task(retry=None)
    async def unstorable(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            tx.result = float("nan")

    job = await unstorable.aenqueue()
    await start(app)

    await eventually(lambda: became(job, "failed", attempt=1))
    assert job.error is not None
    assert job.error.type == "PayloadError"
    assert await effects.rows() == []


async def test_children_that_are_refused_roll_the_block_back(
    app: App, bodies: Bodies, effects: Effects, start: Start
) -> None:
    @app.task(queue="nobody")
    async def child() -> None: ...

    unique = child.using(unique="k", unique_raises=True)
    await unique.aenqueue()
    task = bodies.task(before=lambda ctx: ctx.enqueue(unique.bind()), retry=None)
    job = await task.aenqueue(7)
    await start(app, "default")

    await eventually(lambda: became(job, "failed", attempt=1))
    assert job.error is not None
    assert "owns the unique key" in job.error.message
    assert await effects.rows() == []


# Where there is nothing to be part of.


@pytest.mark.parametrize("url", ["memory", "redis"], indirect=True)
@pytest.mark.parametrize("method", ["prepare", "complete"])
async def test_a_store_without_transactions_says_so(app: App, start: Start, method: str) -> None:
    @app.task(retry=None)
    async def hopeful(ctx: Context) -> None:
        getattr(ctx, method)()

    job = await hopeful.aenqueue()
    await start(app)

    await eventually(lambda: became(job, "failed", attempt=1))
    assert job.error is not None
    assert job.error.type == "InvalidOption"
    assert job.error.message.startswith(f"ctx.{method}() needs a worker whose jobs are in a SQL database")


async def test_a_job_that_runs_inline_has_none_either(app: App) -> None:
    @app.task(retry=None)
    async def hopeful(ctx: Context) -> None:
        ctx.complete()

    async with app.inline(raises=False):
        job = await hopeful.aenqueue()

    assert job.error is not None
    assert job.error.message.startswith("ctx.complete() needs a worker")
