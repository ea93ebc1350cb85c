"""What workers write to the history. They do so when they stop, too, so no test waits for the next time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tenure import Backoff, Context, Fail
from tenure.app import App
from tenure.core.measures import EVER, RESOLUTIONS, HistorySearch
from tenure.errors import StoreUnavailable
from tenure.jobs.handle import Job
from tenure.stores.base import Store
from tenure.worker import historian

from .conftest import MakeApp, Start, Wire, eventually, record_of, whatever_the_store


async def ever(store: Store, queue: str = "", task: str = "") -> dict[str, float]:
    """What was counted of a queue and a task since ever."""
    rows = await store.history(HistorySearch(resolution=EVER, queue=queue, task=task))
    return rows[0].counts if rows else {}


async def done(store: Store, job_id: str) -> bool:
    return (await record_of(store, job_id)).state.final


async def all_done(store: Store, jobs: list[Job[Any]]) -> bool:
    return all([await done(store, job.id) for job in jobs])


async def test_ends_of_jobs_are_in_the_history_of_all_the_queue_and_the_task(
    make_app: MakeApp, start: Start, store: Store
) -> None:
    app = make_app(retry=Backoff(initial=0.01, jitter=0), max_attempts=2, wakeup=False)

    @app.task(queue="mail")
    async def send(ctx: Context) -> None: ...

    @app.task(queue="mail")
    async def flaky(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise KeyError("once")

    @app.task(queue="mail")
    def refuse() -> None:
        raise Fail("never")

    @app.task(queue="other")
    async def late(ctx: Context) -> None:
        """Its first lease is taken away while it runs, so its first end comes too late."""
        if ctx.job.fence == 1:
            await store.release([ctx.job.id])

    worker = await start(app)
    jobs = [await task.aenqueue() for task in (send, send, flaky, refuse, late)]
    await eventually(lambda: all_done(store, jobs))
    await worker.stop()

    whole, mail, other = await app.ahistory(), await app.ahistory("mail"), await app.ahistory("other")
    total = whole.total
    assert (total.succeeded, total.failed, total.retried, total.broken, total.stale) == (4, 1, 1, 0, 1)
    assert (total.finished, total.in_line, total.running) == (5, 0, 0)
    assert total.errors == {"Fail": 1, "KeyError": 1}
    assert (mail.total.succeeded, mail.total.failed, mail.total.retried, mail.total.stale) == (3, 1, 1, 0)
    assert (other.total.succeeded, other.total.stale) == (1, 1)
    assert (await app.ahistory(task=send)).total.succeeded == 2
    assert (await app.ahistory("mail", refuse)).total.errors == {"Fail": 1}
    flaky_total = (await app.ahistory(task=flaky)).total
    assert (flaky_total.succeeded, flaky_total.retried, flaky_total.errors) == (1, 1, {"KeyError": 1})
    for resolution in RESOLUTIONS:
        rows = await store.history(HistorySearch(resolution=resolution))
        assert sum(row.counts.get("succeeded", 0) for row in rows) == 4


async def test_the_time_until_a_job_is_due_is_no_wait(make_app: MakeApp, start: Start, store: Store) -> None:
    app = make_app(retry=Backoff(initial=1.0, jitter=0))

    @app.task
    async def flaky(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise KeyError("once")

    worker = await start(app)
    job = await flaky.using(delay=1.0).aenqueue()
    await eventually(lambda: done(store, job.id))
    await worker.stop()

    counts = await ever(store)
    assert (counts["succeeded"], counts["retried"]) == (1, 1)
    assert counts["wait"] < 1.0, "of both attempts"
    assert counts["wait"] >= ((await record_of(store, job.id)).waited or 0)


async def test_runs_are_as_long_as_attempts_ran(app: App, start: Start, store: Store) -> None:
    @app.task
    async def nap(seconds: float) -> None:
        await asyncio.sleep(seconds)

    jobs = await app.aenqueue(nap.bind(0.01), nap.bind(0.3))
    worker = await start(app, concurrency=2)
    for job in jobs:
        await job.aresult(timeout=20)
    await worker.stop()
    counts = await ever(store, "default", nap.name)
    assert counts["run"] >= 0.31
    run = (await app.ahistory(task=nap)).total.run
    assert run["p99"] > 0.25


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_a_job_that_ends_in_its_own_transaction_counts(make_app: MakeApp, start: Start, store: Store) -> None:
    app = make_app()

    @app.task
    async def write(ctx: Context) -> None:
        async with ctx.complete():
            pass

    worker = await start(app)
    await (await write.aenqueue()).aresult(timeout=20)
    await worker.stop()
    assert (await ever(store))["succeeded"] == 1


async def test_an_app_without_history_writes_none(make_app: MakeApp, start: Start, store: Store) -> None:
    app = make_app(history=False, release="v1")

    @app.task
    async def send() -> None: ...

    worker = await start(app)
    await (await send.aenqueue()).aresult(timeout=20)
    assert [each.release for each in await app.aworkers()] == ["v1"]
    await worker.stop()
    for resolution in (*RESOLUTIONS, EVER):
        for rows in ("one", "queues", "tasks"):
            assert await store.history(HistorySearch(resolution=resolution, rows=rows)) == []
    assert await store.marks() == []
    assert (await app.ahistory()).total.in_line == 0, "this moment is known all the same"


async def test_a_worker_that_is_idle_writes_nothing_but_lengths(app: App, start: Start, store: Store) -> None:
    worker = await start(app)
    await eventually(lambda: store.history(HistorySearch(resolution=EVER)))
    await worker.stop()
    [row] = await store.history(HistorySearch(resolution=EVER))
    assert row.counts == {}
    assert row.gauges["in_line"] == 0


# Releases.


async def test_workers_are_listed_with_their_release_which_is_marked_once(
    make_app: MakeApp, start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await start(make_app(release="v1"))
    monkeypatch.setenv("TENURE_RELEASE", "v2")
    await start(make_app(release="v1"))

    async def listed(*releases: str) -> bool:
        return sorted(worker.release for worker in await store.workers()) == [*releases]

    await eventually(lambda: listed("v1", "v1", "v1", "v1"))
    await eventually(store.marks)
    await start(make_app())
    await eventually(lambda: listed("v1", "v1", "v1", "v1", "v2"))
    assert [mark.label for mark in await store.marks()][:1] == ["v1"]
    assert len(await store.marks()) <= 2


@whatever_the_store
async def test_workers_that_start_at_once_mark_their_release_once(
    wire: Wire, make_app: MakeApp, start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(historian, "INTERVAL", 0.05)
    looks, together = 0, threading.Barrier(3)

    async def look_together(marks: Any) -> Any:
        nonlocal looks
        found = await marks()
        looks += 1
        if looks <= 3:
            together.wait(10)  # of three keepers, each on a thread of its own
        return found

    wire.hooks["marks"] = look_together
    await asyncio.gather(*(start(make_app(store=wire.open, release="v1")) for _ in range(3)))
    await eventually(lambda: looks >= 4)
    assert [mark.label for mark in await store.marks()] == ["v1"]


@whatever_the_store
async def test_each_release_is_marked_though_they_come_at_once(
    make_app: MakeApp, start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(historian, "INTERVAL", 0.05)
    monkeypatch.setattr(historian, "MARKING", 0.2)
    for release in ("v1", "v2", "v1", ""):
        await start(make_app(release=release))

    async def both() -> bool:
        return sorted(mark.label for mark in await store.marks()) == ["v1", "v2"]

    await eventually(both)


# Trouble.


@whatever_the_store
async def test_a_store_that_refuses_the_history_holds_up_no_job_and_gets_it_later(
    wire: Wire, make_app: MakeApp, start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(historian, "INTERVAL", 0.05)
    app = make_app(store=wire.open)
    refusing = True

    async def refuse(record_history: Any, writes: Any) -> None:
        if refusing:
            raise StoreUnavailable("no history today")
        await record_history(writes)

    @app.task
    async def send() -> None: ...

    wire.hooks["record_history"] = refuse
    worker = await start(app)
    for _ in range(3):
        await (await send.aenqueue()).aresult(timeout=20)
    await eventually(lambda: len(wire.calls["record_history"]) > 2)
    assert await app.aworkers() != []
    refusing = False
    await worker.stop()
    assert (await ever(store)).get("succeeded", 0) >= 1
