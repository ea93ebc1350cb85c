"""A worker in a web server: what `App.lifespan` gives starts, works, is replaced, and stops in time."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import apsw
import pytest

from tenure import App, Context
from tenure.errors import InvalidOption, LayoutTooNew, StoreUnavailable
from tenure.stores.base import Store
from tenure.worker import lifespan

from .conftest import Lines, MakeApp, Wire, eventually, record_of, whatever_the_store


async def test_a_worker_runs_jobs_between_the_start_and_the_end_of_a_server(app: App, store: Store) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.lifespan(concurrency=2)(object()) as given:
        assert given is None
        assert await (await add.aenqueue(2, 3)).aresult(timeout=10) == 5
        [info] = await app.aworkers()
        assert info.concurrency == 2
    assert await store.workers() == []


async def test_jobs_that_outlast_the_grace_are_released_and_run_elsewhere(app: App, store: Store) -> None:
    """The coroutine is cancelled, the thread is not interested, and neither counts as an attempt."""
    begun: list[str] = []
    never = threading.Event()

    @app.task
    async def on_the_loop() -> str:
        begun.append("loop")
        await asyncio.sleep(60 if begun.count("loop") == 1 else 0)
        return "loop"

    @app.task
    def in_a_thread() -> str:
        begun.append("thread")
        if begun.count("thread") == 1:
            never.wait(60)
        return "thread"

    jobs = [await on_the_loop.aenqueue(), await in_a_thread.aenqueue()]
    try:
        async with app.lifespan(concurrency=2, grace=0.3)():
            await eventually(lambda: len(begun) == 2)
            stopping = time.monotonic()
        took = time.monotonic() - stopping
        records = [await record_of(store, job.id) for job in jobs]
        assert [(record.state, record.attempt, record.losses) for record in records] == [("waiting", 0, 0)] * 2
        assert 0.25 < took < 2.5
        async with App(app.url).lifespan(worker=False)():  # another process that serves, and takes none of them
            assert (await record_of(store, jobs[0].id)).state == "waiting"
        async with app.lifespan(concurrency=2)():
            assert [await job.aresult(timeout=10) for job in jobs] == ["loop", "thread"]
    finally:
        never.set()


@whatever_the_store
async def test_a_job_may_finish_until_the_grace_without_its_time_to_clean_up_is_over(app: App) -> None:
    begun = asyncio.Event()
    ends: list[tuple[str, float]] = []

    @app.task
    async def nap(ctx: Context, seconds: float) -> None:
        begun.set()
        try:
            await asyncio.sleep(seconds)
            ends.append(("finished", time.monotonic()))
        except asyncio.CancelledError:
            ends.append((f"aborted: {ctx.signal.reason}", time.monotonic()))
            raise

    for seconds, grace, term_timeout in [(0.1, 10, 4), (60, 3, 2.8)]:
        begun.clear()
        async with app.lifespan(grace=grace, term_timeout=term_timeout)():
            job = await nap.aenqueue(seconds)
            await begun.wait()
            stopping = time.monotonic()
    await job.acancel()

    assert [end for end, _ in ends] == ["finished", "aborted: shutdown"]
    assert 0.1 < ends[1][1] - stopping < 2, "the 2.8 s to clean up are part of the 3 s"


@whatever_the_store
async def test_no_time_at_all_releases_everything_at_once(app: App, store: Store) -> None:
    begun = asyncio.Event()

    @app.task
    async def nap() -> None:
        begun.set()
        await asyncio.sleep(60)

    async with app.lifespan(grace=0)():
        job = await nap.aenqueue()
        await begun.wait()
        stopping = time.monotonic()
    assert time.monotonic() - stopping < 3
    assert (await record_of(store, job.id)).state == "waiting"


@whatever_the_store
async def test_what_keeps_a_worker_from_starting_keeps_the_server_from_starting(app: App, store: Store) -> None:
    calls: list[str] = []

    @app.on_start
    async def connect() -> None:
        raise ConnectionError("no mail server")

    @app.on_stop
    async def disconnect() -> None:
        calls.append("stopped")

    with pytest.raises(ConnectionError, match="no mail server"):
        async with app.lifespan()():
            calls.append("served")
    assert calls == ["stopped"]
    assert await store.workers() == []


@pytest.mark.parametrize("worker", [True, False])
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_server_does_not_start_on_a_store_that_a_newer_tenure_has_written(
    app: App, url: str, worker: bool
) -> None:
    await app.aqueues()
    await app.aclose()
    database = apsw.Connection(url.removeprefix("sqlite:///"))
    database.execute("UPDATE tenure_meta SET value = 9999 WHERE key = 'layout'")
    database.close()

    with pytest.raises(LayoutTooNew):
        async with app.lifespan(worker=worker)():
            raise AssertionError("it serves")


@whatever_the_store
async def test_an_error_of_the_application_stops_the_worker_and_comes_through(app: App, store: Store) -> None:
    async def serve() -> None:
        async with app.lifespan()():
            await eventually(store.workers)
            raise ValueError("no routes")

    with pytest.raises(ValueError, match="no routes"):
        await serve()
    assert await store.workers() == []


@whatever_the_store
async def test_a_server_that_is_cancelled_while_it_starts_leaves_no_worker(app: App, store: Store) -> None:
    starting = asyncio.Event()

    @app.on_start
    async def slow() -> None:
        starting.set()
        await asyncio.sleep(60)

    serving = asyncio.create_task(app.lifespan()().__aenter__())
    await starting.wait()
    serving.cancel()
    await asyncio.wait([serving])
    assert serving.cancelled()
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("tenure")] == []


async def test_a_server_starts_while_its_store_is_down_and_works_when_that_is_back(
    make_app: MakeApp, wire: Wire, lines: Lines
) -> None:
    async def down(method: Any, *args: Any, **options: Any) -> Any:
        raise StoreUnavailable("the store is away")

    app = make_app(store=wire.open)

    @app.task
    async def ping() -> str:
        return "pong"

    wire.hooks = {"open": down, "register": down, "lease": down, "settle_and_lease": down, "enqueue": down}
    async with app.lifespan()():
        assert lines("the server starts without it") == [
            "the store is down; the server starts without it, and calls try again: the store is away"
        ]
        wire.hooks.clear()
        assert await (await ping.aenqueue()).aresult(timeout=10) == "pong"


@whatever_the_store
async def test_a_worker_that_an_error_ends_is_replaced(
    make_app: MakeApp, wire: Wire, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifespan, "FIRST", 0.02)
    refused: list[str] = []

    def open_store() -> Store:
        """Refuse the keepers of the first two workers, which have threads of their own; they die of it."""
        if threading.current_thread() is not threading.main_thread() and len(refused) < 2:
            refused.append("keeper")
            raise RuntimeError("no second connection")
        return wire.open()

    app = make_app(store=open_store)

    @app.task
    async def ping() -> str:
        return "pong"

    async with app.lifespan()():
        assert await (await ping.aenqueue()).aresult(timeout=10) == "pong"
        assert len(await app.aworkers()) == 1
    assert len(lines("an error ended the worker: jobs that it held run again")) == 2


@whatever_the_store
async def test_a_worker_that_was_told_to_stop_is_not_replaced(app: App, lines: Lines) -> None:
    async with app.lifespan(beat=0.1)():
        [info] = await eventually(app.aworkers)
        assert await app.aorder(info.id, "stop")
        await eventually(lambda: lines("this server runs no jobs until it is restarted"))
        assert await app.aworkers() == []


@pytest.mark.parametrize("worker", [True, False])
@pytest.mark.parametrize("away", ["redis://127.0.0.1:1/0", "postgresql://127.0.0.1:1/shop"])
async def test_a_server_whose_store_is_not_there_starts_and_stops(away: str, worker: bool, lines: Lines) -> None:
    async with App(away).lifespan(worker=worker)():
        [warning] = lines("the server starts without it")
        assert "refused the connection: is it running?" in warning


async def test_each_entry_has_a_worker_of_its_own_at_once_or_one_after_another(app: App, store: Store) -> None:
    @app.task
    async def queue_of(ctx: Context) -> str:
        return ctx.job.queue

    calls: list[str] = []
    app.on_start(lambda: calls.append("start"))
    app.on_stop(lambda: calls.append("stop"))
    mail, pdf = app.lifespan(queues=["mail"]), app.lifespan(queues=["pdf"])
    for _ in range(2):
        async with mail(), pdf():
            jobs = [await queue_of.using(queue=queue).aenqueue() for queue in ("pdf", "mail")]
            assert [await job.aresult(timeout=10) for job in jobs] == ["pdf", "mail"]
            assert sorted(info.queues for info in await app.aworkers()) == [("mail",), ("pdf",)]
        assert await store.workers() == []
    assert calls == ["start", "stop"] * 2, "once for all workers on an event loop"


async def test_without_a_worker_it_opens_the_store_and_closes_the_app(make_app: MakeApp, wire: Wire) -> None:
    app = make_app(store=wire.open)

    async with app.lifespan(worker=False)():
        assert len(wire.calls["open"]) == 1
        assert wire.calls["close"] == []
    assert len(wire.calls["close"]) == 1
    assert wire.calls["register"] == wire.calls["lease"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurency": 5}, "lifespan: there is no option 'concurency'"),
        ({"concurrency": 0}, "lifespan: concurrency"),
        ({"queues": []}, "queue"),
        ({"middleware": [5]}, "middleware"),
        ({"beat": 3600}, "would count as missing"),
        ({"grace": -1}, "lifespan: grace must be at least 0 s"),
        ({"worker": False, "concurrency": 5}, "with worker=False there is no worker to take concurrency"),
        ({"max_jobs": 5, "max_age": 3}, "max_age, max_jobs would leave this server without a worker"),
        ({"graceful_term": True}, "graceful_term says what a signal does"),
    ],
)
def test_wrong_options_are_refused_where_they_are_given(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        App("memory://").lifespan(**options)
