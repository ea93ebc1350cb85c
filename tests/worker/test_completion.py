"""Jobs that are completed in a transaction: their writes and their end are committed together, or neither is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tenure import App, Backoff, Context, Fail, Retry
from tenure.errors import Aborted, InvalidOption, LeaseLost, OutcomeUnknown, UseAsync, WrongState
from tenure.handle import Job
from tenure.job import State
from tenure.stores import open_store
from tenure.stores.base import OwnTransaction, Store
from tests.conftest import a_url

from .conftest import MakeApp, Start, eventually, record_of
from .effects import Effects

Lines = Callable[[str], list[str]]
Hook = Callable[[Context], Any]

on_sqlite = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("url", ["postgres"], indirect=True)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


@pytest.fixture
async def effects(url: str, store: Store) -> Effects:
    return await Effects.made(url, store)


@pytest.fixture
def app(make_app: MakeApp) -> App:
    return make_app(retry=Backoff(initial=0.01, jitter=0))


@pytest.fixture(params=["coroutine", "thread"])
def lane(request: pytest.FixtureRequest) -> str:
    lane: str = request.param
    return lane


def nothing(_: Context) -> None:
    """Does nothing."""


class Bodies:
    """A task in either lane that writes a row and completes itself, with something else to do before, inside and after."""

    def __init__(self, app: App, lane: str, effects: Effects) -> None:
        self._app = app
        self._lane = lane
        self._effects = effects

    def task(self, *, before: Hook = nothing, inside: Hook = nothing, after: Hook = nothing, **options: Any) -> Any:
        insert = self._effects.insert

        @self._app.task(name="coroutine", **options)
        async def coroutine(ctx: Context, n: int) -> Any:
            before(ctx)
            async with ctx.complete() as tx:
                await tx.execute(insert, n)
                tx.result = n
                inside(ctx)
            return after(ctx)

        @self._app.task(name="thread", **options)
        def thread(ctx: Context, n: int) -> Any:
            before(ctx)
            with ctx.complete() as tx:
                tx.execute(insert, n)
                tx.result = n
                inside(ctx)
            return after(ctx)

        return coroutine if self._lane == "coroutine" else thread


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
    assert await _is(lost, "failed", attempt=1)
    assert lines("all the same") == [], "to return the very result is nothing new"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (lambda _: "late", "what it returned afterwards is dropped"),
        (raising(ValueError("late")), "afterwards it raised ValueError: 'late'"),
        (raising(Retry("late")), "its answer Retry came afterwards"),
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

    await eventually(lambda: _is(job, "failed", attempt=1))
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

    await eventually(lambda: _is(job, state, attempt=1))
    assert await effects.rows() == []


async def attempts(job: Job[Any]) -> int:
    await job.arefresh()
    return job.record.attempt if job.record is not None else 0


async def _is(job: Job[Any], state: str, *, attempt: int) -> bool:
    return await attempts(job) == attempt and job.state == state


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
    await eventually(lambda: _is(bad, "failed", attempt=1))
    assert await effects.rows() == [7]


async def test_a_result_that_cannot_be_stored_rolls_the_block_back(app: App, effects: Effects, start: Start) -> None:
    @app.task(retry=None)
    async def unstorable(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            tx.result = float("nan")

    job = await unstorable.aenqueue()
    await start(app)

    await eventually(lambda: _is(job, "failed", attempt=1))
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

    await eventually(lambda: _is(job, "failed", attempt=1))
    assert job.error is not None
    assert "holds the unique key" in job.error.message
    assert await effects.rows() == []


# A lease that is gone.


@pytest.fixture
def unaware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a worker without signals not ask whether its jobs are still held: it would tell them before they find out themselves."""
    monkeypatch.setattr("tenure.worker.keeper.ASK", 60.0)


async def test_a_lost_lease_is_noticed_by_the_commit_and_nothing_is_settled(
    make_app: MakeApp, lane: str, effects: Effects, start: Start, store: Store, lines: Lines, unaware: None
) -> None:  # I5
    app = make_app(wakeup=False)
    loop = asyncio.get_running_loop()
    raised: list[BaseException] = []

    @app.task
    async def coroutine(ctx: Context) -> None:
        await store.cancel([ctx.job.id])
        try:
            async with ctx.complete() as tx:
                await tx.execute(effects.insert, 1)
        except (LeaseLost, asyncio.CancelledError) as error:  # the keeper, which renews before, may be first
            raised.append(error)
            raise

    @app.task
    def thread(ctx: Context) -> None:
        asyncio.run_coroutine_threadsafe(store.cancel([ctx.job.id]), loop).result()
        with pytest.raises(LeaseLost) as error, ctx.complete() as tx:
            tx.execute(effects.insert, 1)
        raised.append(error.value)

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: raised)
    await eventually(lambda: lines("lost its lease"))
    assert await effects.rows() == []
    assert (await record_of(store, job.id)).state is State.CANCELLED
    assert lines("succeeded") == []


async def test_preparing_tells_whether_the_job_is_still_held(
    make_app: MakeApp, lane: str, start: Start, store: Store, unaware: None
) -> None:
    app = make_app(wakeup=False)
    loop = asyncio.get_running_loop()
    seen: list[Any] = []

    @app.task
    async def coroutine(ctx: Context) -> None:
        async with ctx.prepare() as tx:
            seen.append(await tx.fetchval("SELECT 41"))
        await store.cancel([ctx.job.id])
        with pytest.raises(LeaseLost):
            async with ctx.prepare():
                pass
        seen.append("lost")

    @app.task
    def thread(ctx: Context) -> None:
        with ctx.prepare() as tx:
            seen.append(tx.fetchval("SELECT 41"))
        asyncio.run_coroutine_threadsafe(store.cancel([ctx.job.id]), loop).result()
        with pytest.raises(LeaseLost), ctx.prepare():
            pass
        seen.append("lost")

    await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: seen == [41, "lost"])


async def test_preparing_reads_and_cannot_write(app: App, effects: Effects, start: Start) -> None:
    @app.task(retry=None)
    async def writer(ctx: Context) -> None:
        async with ctx.prepare() as tx:
            assert await tx.fetchrow(f"SELECT n FROM {effects.table}") is None
            await tx.execute(effects.insert, 1)

    job = await writer.aenqueue()
    await start(app)

    await eventually(lambda: _is(job, "failed", attempt=1))
    assert await effects.rows() == []


async def test_a_job_that_goes_on_after_its_end_is_not_told_to_stop(
    make_app: MakeApp, effects: Effects, start: Start, lines: Lines
) -> None:
    app = make_app(wakeup=False, lease=1)  # so that the keeper asks every third of a second
    reasons: list[Any] = []

    @app.task
    async def lingering(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
        await asyncio.sleep(1.5)
        reasons.append(ctx.signal.reason)

    await lingering.aenqueue()
    await start(app)

    await eventually(lambda: reasons)
    assert reasons == [None]
    await eventually(lambda: lines("succeeded"))
    assert lines("gives up") == []


# Time is over.


async def test_a_timeout_in_the_block_rolls_it_back(app: App, lane: str, effects: Effects, start: Start) -> None:
    @app.task(timeout=0.1, retry=None)
    async def coroutine(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            await asyncio.sleep(60)

    @app.task(timeout=0.1, retry=None)
    def thread(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(effects.insert, 1)
            ctx.signal.wait_blocking()

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: _is(job, "failed", attempt=1))
    assert job.error is not None
    assert job.error.type == "TimeoutError"
    assert await effects.rows() == []


async def test_a_stop_in_the_block_rolls_it_back_and_releases_the_job(
    app: App, lane: str, effects: Effects, start: Start, store: Store
) -> None:
    entered = threading.Event()

    @app.task
    async def coroutine(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            entered.set()
            await asyncio.sleep(60)

    @app.task
    def thread(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(effects.insert, 1)
            entered.set()
            ctx.signal.wait_blocking()
            ctx.signal.raise_if_aborted()

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    worker = await start(app)
    await eventually(entered.is_set)

    await worker.stop(grace=0)

    record = await record_of(store, job.id)
    assert (record.state, record.attempt) == (State.WAITING, 0)
    assert await effects.rows() == []


@on_postgres  # a statement of SQLite's takes a moment
async def test_a_thread_that_waits_for_a_statement_is_interrupted(app: App, effects: Effects, start: Start) -> None:
    raised: list[BaseException] = []

    @app.task(timeout=0.2, retry=None)
    def slow(ctx: Context) -> None:
        with pytest.raises(Aborted) as error, ctx.complete() as tx:
            tx.execute("SELECT pg_sleep(60)")
        raised.append(error.value)

    await slow.aenqueue()
    await start(app)

    await eventually(lambda: raised)


@on_postgres  # nobody could settle it while the block is open
async def test_a_thread_that_did_not_stop_in_time_completes_nothing_later(
    app: App, effects: Effects, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:  # I6: its attempt was settled, by its own token
    monkeypatch.setattr("tenure.worker.executor.STRAY", 0.05)
    goes_on = threading.Event()
    raised: list[BaseException] = []

    @app.task(timeout=1, max_attempts=3)  # enough for the second attempt
    def stray(ctx: Context) -> None:
        if ctx.attempt > 1:
            with ctx.complete() as tx:
                tx.execute(effects.insert, ctx.attempt)
            return
        with pytest.raises((LeaseLost, Aborted)) as error, ctx.complete() as tx:
            tx.execute(effects.insert, ctx.attempt)
            goes_on.wait()
        raised.append(error.value)

    job = await stray.aenqueue()
    await start(app)

    await job.aresult(timeout=10)
    goes_on.set()
    await eventually(lambda: raised)
    assert await effects.rows() == [2]


# What came of a commit.


class Doubtful:
    """A store whose commits can be told what happens to them."""

    def __init__(self, url: str, commit: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
        self._store = open_store(url)
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, **options: Any) -> OwnTransaction:
        own = await self._store.begin(**options)
        if options.get("writes", True):
            commit = own.commit
            own.commit = lambda: self._commit(commit)  # type: ignore[assignment,method-assign,return-value]
        return own


Commit = Callable[[], Awaitable[None]]


async def reply_lost(commit: Commit) -> None:
    await commit()
    raise OutcomeUnknown("the reply was lost")


@pytest.mark.parametrize("keep", [None, 0.0], ids=["kept", "not kept"])
async def test_a_commit_whose_reply_was_lost_is_found_out(
    make_app: MakeApp, url: str, lane: str, effects: Effects, start: Start, lines: Lines, keep: float | None
) -> None:  # I19
    app = make_app(store=lambda: cast("Store", Doubtful(url, reply_lost)))
    task = Bodies(app, lane, effects).task(keep=keep)
    job = await task.aenqueue(7)
    await start(app)

    await eventually(lambda: lines(f"job {job.id} of task {task.name} succeeded, attempt 1"))
    assert await effects.rows() == [7]
    assert (await app.astats()).totals.succeeded == 1


async def test_a_commit_that_did_not_happen_is_an_error_that_decides_as_usual(
    make_app: MakeApp, url: str, lane: str, effects: Effects, start: Start, lines: Lines
) -> None:
    commits: list[Commit] = []

    async def first_fails(commit: Commit) -> None:
        commits.append(commit)
        if len(commits) > 1:
            await commit()
        else:
            own = cast("OwnTransaction", commit.__self__)  # type: ignore[attr-defined]
            await own.rollback()
            raise OutcomeUnknown("the connection was lost")

    app = make_app(store=lambda: cast("Store", Doubtful(url, first_fails)), retry=Backoff(initial=0.01, jitter=0))
    task = Bodies(app, lane, effects).task()
    job = await task.aenqueue(7)
    await start(app)

    assert await job.aresult(timeout=10) == 7
    assert await effects.rows() == [7]
    assert await attempts(job) == 2
    await eventually(lambda: lines("runs again"))
    [said] = lines("runs again")
    assert "was not committed: the connection was lost" in said


async def test_a_timeout_while_the_commit_is_under_way_does_not_undo_it(
    make_app: MakeApp, url: str, lane: str, effects: Effects, start: Start, lines: Lines
) -> None:
    contexts: list[Context] = []

    async def slow(commit: Commit) -> None:
        assert await contexts[0].signal.wait() == "timeout"
        await commit()

    app = make_app(store=lambda: cast("Store", Doubtful(url, slow)))
    task = Bodies(app, lane, effects).task(before=contexts.append, timeout=1)  # enough to come that far
    job = await task.aenqueue(7)
    await start(app)

    assert await job.aresult(timeout=10) == 7
    await eventually(lambda: lines("succeeded"))
    assert await effects.rows() == [7]
    assert await attempts(job) == 1


async def test_a_stop_while_the_commit_is_under_way_does_not_undo_it(
    make_app: MakeApp, url: str, lane: str, effects: Effects, start: Start, store: Store
) -> None:
    committing = asyncio.Event()

    async def slow(commit: Commit) -> None:
        committing.set()
        await asyncio.sleep(0.5)
        await commit()

    app = make_app(store=lambda: cast("Store", Doubtful(url, slow)))
    task = Bodies(app, lane, effects).task()
    job = await task.aenqueue(7)
    worker = await start(app)
    await committing.wait()

    await worker.stop(grace=0)

    assert (await record_of(store, job.id)).state is State.SUCCEEDED
    assert await effects.rows() == [7]


# Others.


async def test_leases_outlive_the_block_of_a_neighbour(
    make_app: MakeApp, effects: Effects, start: Start, lines: Lines
) -> None:
    app = make_app(lease=1)
    reasons: list[Any] = []

    @app.task
    async def neighbour(ctx: Context) -> None:
        await asyncio.sleep(2.5)
        reasons.append(ctx.signal.reason)

    @app.task
    async def slow(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            await asyncio.sleep(2)

    jobs = [await neighbour.aenqueue(), await slow.aenqueue()]
    await start(app, concurrency=2)

    for job in jobs:
        await job.aresult(timeout=10)
    assert reasons == [None]
    assert [await attempts(job) for job in jobs] == [1, 1]
    assert await effects.rows() == [1]


@on_sqlite  # elsewhere nobody waits for it
async def test_a_block_that_keeps_everybody_from_writing_is_bounded(
    make_app: MakeApp, lane: str, effects: Effects, start: Start
) -> None:
    app = make_app(complete_timeout=0.2, retry=None)

    @app.task
    async def coroutine(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(effects.insert, 1)
            await asyncio.sleep(0.5)

    @app.task
    def thread(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(effects.insert, 1)
            time.sleep(0.5)

    job = await (coroutine if lane == "coroutine" else thread).aenqueue()
    await start(app)

    await eventually(lambda: _is(job, "failed", attempt=1))
    assert job.error is not None
    assert job.error.type == "TimeoutError"
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


# Where there is nothing to be part of.


@pytest.mark.parametrize("url", ["memory", "redis"], indirect=True)
@pytest.mark.parametrize("method", ["prepare", "complete"])
async def test_a_store_without_transactions_says_so(app: App, start: Start, method: str) -> None:
    @app.task(retry=None)
    async def hopeful(ctx: Context) -> None:
        getattr(ctx, method)()

    job = await hopeful.aenqueue()
    await start(app)

    await eventually(lambda: _is(job, "failed", attempt=1))
    assert job.error is not None
    assert job.error.type == "InvalidOption"
    assert job.error.message.startswith(f"ctx.{method}() needs a worker whose jobs are in a SQL database")


async def test_a_job_that_runs_inline_has_none_either(app: App) -> None:
    @app.task(retry=None)
    async def hopeful(ctx: Context) -> None:
        ctx.complete()

    async with app.inline():
        job = await hopeful.aenqueue()

    assert job.error is not None
    assert job.error.message.startswith("ctx.complete() needs a worker")
