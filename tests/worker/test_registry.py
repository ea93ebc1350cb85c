"""The registry: what it shows of workers, and when it forgets them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenure.app import App
from tenure.core.lease import new_nonce
from tenure.core.patterns import covers
from tenure.errors import InvalidOption, OutcomeUnknown
from tenure.stores.base import Store
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.postgres.address import Address as PostgresAddress
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.redis.address import Address as RedisAddress
from tenure.stores.redis.store import RedisStore
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import JOBS_SHOWN, LeaseRequest, WorkerInfo
from tenure.tasks.context import Context
from tenure.testing.clock import ManualClock
from tenure.worker.registry_pruner import required_silence

from .conftest import MakeApp, Start, Wire, a_job, eventually, whatever_the_store


def a_worker(worker_id: str, *queues: str, **fields: Any) -> WorkerInfo:
    return WorkerInfo(id=worker_id, host="h", pid=1, queues=queues or ("*",), tasks=(), concurrency=1, **fields)


async def test_a_worker_shows_what_it_is_at(app: App, start: Start) -> None:  # R30, R37
    done = asyncio.Event()

    @app.task
    async def wait() -> None:
        await done.wait()

    @app.task
    def block() -> None: ...

    jobs = [await wait.aenqueue() for _ in range(JOBS_SHOWN + 5)]
    worker = await start(app, "default", concurrency=100, beat=0.05)

    async def shown() -> list[WorkerInfo]:
        return [each for each in await app.aworkers() if each.held == len(jobs) and len(each.jobs) == JOBS_SHOWN]

    [info] = await eventually(shown)
    assert (info.id, info.queues, info.lanes, info.missing) == (worker.id, ("default",), ("loop", "thread"), False)
    assert set(info.jobs) <= {job.id for job in jobs}
    assert 10e6 < info.memory < 10e9
    assert info.trouble == ""

    done.set()
    for job in jobs:
        await job.aresult(timeout=10)
    [info] = await eventually(lambda: _beaten(app, held=0))
    assert (info.jobs, info.totals.succeeded) == ((), len(jobs))


async def _beaten(app: App, held: int) -> list[WorkerInfo]:
    return [each for each in await app.aworkers() if each.held == held]


Timed = Callable[[], Store]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_store(url: str, clock: ManualClock) -> Timed:
    """Makes stores whose clock moves by hand."""
    data = Data(clock)

    def make() -> Store:
        if url.startswith("memory"):
            return MemoryStore(data)
        if url.startswith("sqlite"):
            return SqliteStore(url.removeprefix("sqlite:///"), clock=clock)
        if url.startswith("redis"):
            return RedisStore(RedisAddress.from_url(url), clock=clock)
        return PostgresStore(PostgresAddress.from_url(url), clock=clock)

    return make


async def test_missing_workers_that_hold_nothing_are_forgotten_at_start_and_while_running(
    make_app: MakeApp, make_store: Timed, clock: ManualClock, start: Start
) -> None:  # R18, R19, R20, R21, T15
    app = make_app(store=make_store)
    store = app.internals.session.store
    for worker_id, queue in (("dead", "mine"), ("holding", "mine"), ("elsewhere", "other")):
        await store.register(a_worker(worker_id, queue))
    await store.enqueue([a_job("t", queue="mine", lease=1e6)])
    request = LeaseRequest(queues=("mine",), limit=1, worker="holding", ttl=1, nonce=new_nonce())
    [lease] = (await store.lease(request)).leases
    clock.advance(300)

    async def known() -> set[str]:
        return {each.id for each in await store.workers()}

    worker = await start(app, "mine", beat=0.02, prune_interval=0.2)
    await eventually(lambda: worker.id)
    assert await known() == {worker.id, "holding", "elsewhere"}

    await store.register(a_worker("latest", "mine"))
    clock.advance(300)

    async def gone() -> bool:
        return not await known() & {"latest", "elsewhere"}

    await eventually(gone)
    assert "holding" in await known()
    [job] = await store.get([lease.job.id])
    assert job is not None
    assert (job.state, job.worker, job.losses) == ("running", "holding", 0)


@whatever_the_store
async def test_a_store_that_goes_while_a_worker_starts_is_told_in_two_lines(
    make_app: MakeApp, wire: Wire, start: Start, caplog: pytest.LogCaptureFixture
) -> None:  # F17
    gone = True

    async def register(method: Callable[..., Awaitable[None]], *args: object) -> None:
        nonlocal gone
        if gone:
            gone = False
            raise OutcomeUnknown("it was cut off")
        await method(*args)

    wire.hooks["register"] = register
    await start(make_app(store=wire.open))
    await eventually(lambda: any("is back" in message for message in caplog.messages))

    told = [record for record in caplog.records if "the store" in record.getMessage()]
    assert ["the store is down" in record.getMessage() for record in told] == [True, False]
    assert [record.exc_info for record in told] == [None, None]


async def test_a_worker_says_after_how_long_a_silence_it_is_missing(make_app: MakeApp, start: Start) -> None:  # W25
    app = make_app(missing_after=3)
    await start(app, beat=0.01)
    await start(app)

    async def announced() -> bool:  # with every beat, not only when it registers
        return [info.missing_after for info in await app.aworkers() if info.memory] == [3.0, 3.0]

    await eventually(announced)


@whatever_the_store
def test_a_silence_that_a_worker_cannot_keep_below_is_refused(make_app: MakeApp) -> None:
    with pytest.raises(InvalidOption, match=r"missing_after must be at least 1\.5"):
        make_app(missing_after=1)
    app = make_app(missing_after=3)
    app.worker()
    with pytest.raises(
        InvalidOption, match=r"beats every 2\.1 s .* after 3 s of silence: give it a beat of at most 2 s"
    ):
        app.worker(beat=2.1)


async def test_a_worker_that_does_not_reap_forgets_nobody(
    make_app: MakeApp, make_store: Timed, clock: ManualClock, start: Start
) -> None:
    app = make_app(store=make_store)
    await app.internals.session.store.register(a_worker("dead"))
    clock.advance(3600)

    worker = await start(app, beat=0.02, prune_interval=0.05, reap=False)
    await eventually(lambda: worker.id)
    clock.advance(1)
    await asyncio.sleep(0.2)

    assert {each.id for each in await app.aworkers()} == {"dead", worker.id}


async def test_a_forgotten_worker_that_comes_back_takes_another_name(
    make_app: MakeApp, make_store: Timed, start: Start
) -> None:  # W21
    app = make_app(store=make_store)

    @app.task
    async def who(ctx: Context) -> str:
        return ctx.worker_id

    worker = await start(app, beat=0.05)
    first = await eventually(lambda: worker.id)
    assert await app.internals.session.store.forget({first: 0.0}) == [first]
    await eventually(lambda: worker.id not in (None, first))
    assert await (await who.aenqueue()).aresult(timeout=10) == worker.id


@pytest.mark.parametrize(
    ("workers", "interval", "expected"),
    [
        ([a_worker("w", "q", silent_for=10)], 60.0, {}),
        ([a_worker("w", "q", silent_for=11)], 60.0, {"w": 60.0}),
        ([a_worker("w", "q", silent_for=11)], 1.0, {"w": 10.0}),
        ([a_worker("w", "q", silent_for=11, missing_after=20)], 1.0, {}),
        ([a_worker("w", "q", silent_for=4, missing_after=3)], 1.0, {"w": 3.0}),
        ([a_worker("w", "x", silent_for=999, missing_after=900)], 60.0, {"w": 900.0}),
        ([a_worker("w", "x", silent_for=11)], 60.0, {"w": 600.0}),
        ([a_worker("w", "q", "x", silent_for=11)], 60.0, {"w": 600.0}),
        ([a_worker("w", "x", silent_for=11)], 3600.0, {"w": 3600.0}),
        ([a_worker("v", "q", silent_for=1), a_worker("w", "q", silent_for=99)], 60.0, {"w": 60.0}),
    ],
)
def test_who_may_be_forgotten_and_when(workers: list[WorkerInfo], interval: float, expected: dict[str, float]) -> None:
    # T15, R19, R20
    assert required_silence(workers, ["q", "r*"], interval) == expected


@pytest.mark.parametrize(
    ("patterns", "others", "expected"),
    [
        (["*"], ["a", "b*"], True),
        (["a", "b"], ["b", "a"], True),
        (["a"], ["a", "b"], False),
        (["a*"], ["ab", "ac*"], True),
        (["a*"], ["*"], False),
        (["*", "!x"], ["a"], True),
        (["*", "!x"], ["x"], False),
        (["*", "!x"], ["*"], False),
        (["*", "!x"], ["*", "!x", "!y"], True),
        (["a"], ["a", "!b"], True),
    ],
)
def test_one_list_of_queues_covers_another(patterns: list[str], others: list[str], expected: bool) -> None:  # R22
    assert covers(patterns, others) is expected
