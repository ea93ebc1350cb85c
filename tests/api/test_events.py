"""What events say of jobs and runs, wherever these are enqueued and run, and when events of a transaction are told."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Context, Retry, events
from tenure.core.job import ErrorInfo, RunStep, State, new_id
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Finish, Requeue
from tenure.core.schedule import Firing, Overlap, SchedulePut, TickEnd, TickRecord
from tenure.events import Event
from tenure.stores.values import Renewal
from tenure.testing.conformance.scene import lease_one, settle
from tests.faults.processes import eventually

from .conftest import Timed, whatever_the_store
from .stage import BOOM, Heard, Stage


async def test_what_an_event_says(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    held = await stage.leased()
    await settle(stage.store, held, Requeue(5.0, error=ErrorInfo("ValueError", "x" * 5000, "Traceback …")))
    [retried] = await heard.of(events.Retried)
    assert (retried.job_id, retried.task, retried.queue, retried.attempt, retried.worker, retried.delay) == (
        held.job.id, "task.q", "q", 1, "w", 5.0,
    )  # fmt: skip
    assert retried.error == ErrorInfo("ValueError", "x" * 500)
    assert retried.kind == "retried"
    stage.clock.advance(6)
    held = await lease_one(stage.store, "q")
    await stage.store.cancel([held.job.id])
    await stage.store.renew([Renewal(held, 60.0)])
    [lost] = await heard.of(events.LeaseLost)
    assert lost.reason is AbortReason.CANCELLED


async def test_a_failure_that_nobody_settled_says_why(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    blocker = await stage.enqueue()
    waiting = await stage.enqueue(after=(blocker,))
    await settle(stage.store, await lease_one(stage.store, "q"), Finish(State.FAILED, error=BOOM))
    _, failed = await heard.of(events.Failed, number=2)
    assert (failed.job_id, failed.error.type) == (waiting, "BlockerFailed")

    lost = await stage.leased(max_losses=1)
    stage.clock.advance(31)
    await stage.store.reap(["q"])
    *_, failed = await heard.of(events.Failed, number=3)
    assert (failed.job_id, failed.error.type) == (lost.job.id, "Lost")
    assert heard.order(lost.job.id)[-2:] == [events.Lost, events.Failed]


async def test_children_and_runs_that_end_otherwise(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    child = stage.job(queue="children")
    await stage.settled(Finish(State.SUCCEEDED, children=(child,)))
    assert [event.job_id for event in await heard.of(events.Enqueued, number=2)][-1] == child.id

    second = await stage.advanced()
    await stage.store.cancel([second.run_id or ""])
    [cancelled] = await heard.of(events.Cancelled)
    assert (cancelled.job_id, cancelled.run_id, cancelled.task) == (second.id, second.run_id, "order.second")
    [ended] = await heard.of(events.RunEnded)
    assert (ended.run_id, ended.flow, ended.state) == (second.run_id, "order", State.CANCELLED)


async def test_a_duplicate_is_no_event(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    first = await stage.enqueue(unique="k")
    assert await stage.enqueue(unique="k") == first
    await heard.of(events.Enqueued)


# Through the app.


async def test_what_the_events_of_a_schedule_say(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    await stage.put()
    first = await stage.fired()
    await stage.fired(overlap=Overlap.SKIP, entries=(TickRecord(5.0, TickEnd.MISSED, until=7.0),))
    await stage.put("{ }")
    await stage.put(None)

    [fired] = await heard.of(events.ScheduleFired)
    assert (fired.schedule, fired.job_id, fired.task, fired.queue) == ("q", first.id, "task.q", "q")
    assert (fired.tick, fired.lag) == (timed.clock.wall() - 10, pytest.approx(10, abs=0.01))
    skipped, missed = await heard.of(events.ScheduleSkipped, number=2)
    assert (skipped.schedule, skipped.why, skipped.job_id, skipped.tick) == ("q", "skipped", first.id, fired.tick)
    assert (missed.why, missed.job_id, missed.tick) == ("missed", None, 5.0)
    changes = await heard.of(events.ScheduleChanged, number=3)
    assert [each.change for each in changes] == ["created", "changed", "deleted"]
    [enqueued] = await heard.of(events.Enqueued)
    assert (enqueued.job_id, enqueued.state) == (first.id, State.WAITING)


async def test_what_another_has_forestalled_is_no_event(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    await stage.put()
    await stage.store.fire([Firing(name="q", version=9, jobs=((1.0, stage.job()),))])
    assert await stage.store.put_schedules([SchedulePut(name="q", if_version=9, settings="{ }")]) == [False]
    await stage.fired()

    await heard.of(events.ScheduleFired)
    await heard.of(events.ScheduleChanged)
    await heard.of(events.Enqueued)


async def test_a_job_that_a_schedule_replaces_is_cancelled(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    first = await stage.fired()
    second = await stage.fired(overlap=Overlap.REPLACE)

    [cancelled] = await heard.of(events.Cancelled)
    assert (cancelled.job_id, cancelled.task, cancelled.queue) == (first.id, "task.q", "q")
    assert [each.job_id for each in await heard.of(events.ScheduleFired, number=2)] == [first.id, second.id]


async def test_a_run_that_a_schedule_replaces_has_ended(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    run_id = new_id()
    await stage.fired(job={"id": run_id, "task": "order.first", "step": RunStep(run_id=run_id, flow="order")})
    await stage.fired(overlap=Overlap.REPLACE)

    [started] = await heard.of(events.RunStarted)
    [ended] = await heard.of(events.RunEnded)
    assert (started.run_id, ended.run_id, ended.state) == (run_id, run_id, State.CANCELLED)


async def test_a_job_that_waits_for_the_last_one_of_its_schedule_is_enqueued_as_blocked(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")
    first = await stage.fired(overlap=Overlap.WAIT)
    await heard.of(events.Enqueued)
    await lease_one(stage.store, "q")
    second = await stage.fired(overlap=Overlap.WAIT)

    enqueued = await heard.of(events.Enqueued, number=2)
    assert [(each.job_id, each.state) for each in enqueued] == [
        (first.id, State.WAITING),
        (second.id, State.BLOCKED),
    ]


@whatever_the_store
async def test_a_job_that_is_gone_already_was_enqueued_by_its_schedule(timed: Timed) -> None:
    heard, stage = Heard(timed.app), Stage(timed, "q")

    async def run_it() -> None:
        await settle(stage.store, await lease_one(stage.store, "q"), Finish(State.SUCCEEDED))

    await stage.put()
    fired, _ = await asyncio.gather(stage.fired(overlap=Overlap.WAIT, job={"keep": 0.0}), run_it())

    [enqueued] = await heard.of(events.Enqueued)
    assert (enqueued.job_id, enqueued.state) == (fired.id, State.WAITING)


async def test_a_job_from_its_enqueue_to_its_end(app: App) -> None:  # Q69
    heard = Heard(app)

    @app.task
    async def flaky(ctx: Context) -> str:
        await asyncio.sleep(0.02)
        if ctx.attempt == 1:
            raise Retry("not yet", after=0)
        return "done"

    job = await flaky.aenqueue()
    async with app.worker(poll=0.1):
        await job.aresult(timeout=10)
        [succeeded] = await heard.of(events.Succeeded)  # the worker may be told of its settle after the waiter is
    assert heard.order(job.id) == [
        events.Enqueued, events.Leased, events.Retried, events.Leased, events.Succeeded,
    ]  # fmt: skip
    assert 0.015 < succeeded.duration < 10
    assert succeeded.attempt == 2
    [begun], [stopping], [stopped] = [
        await heard.of(kind) for kind in (events.WorkerStarted, events.WorkerStopping, events.WorkerStopped)
    ]
    assert begun.worker == stopping.worker == stopped.worker == succeeded.worker
    assert [type(event) for event in heard.all[-2:]] == [events.WorkerStopping, events.WorkerStopped]  # Q9


def test_blocking_code_is_told_too(url: str) -> None:
    seen: list[Event] = []
    with App(url, listeners=[seen.append]) as app:
        task = app.task(name="t")(lambda: None)
        job = task.enqueue()
        task.enqueue_many([(), ()])
        with app.batch():
            task.enqueue()
        job.cancel()
        app.pause("default")
        # What was cancelled is looked up first, and closing waits for that half a second only.
        eventually(lambda: any(isinstance(event, events.Cancelled) for event in seen), "the end of the job")
    seen.sort(key=lambda event: event.at)
    assert [type(event) for event in seen] == [*[events.Enqueued] * 4, events.Cancelled, events.QueuePaused]


async def test_jobs_that_run_inline_are_told(app: App) -> None:
    heard = Heard(app)
    task = app.task(name="t")(lambda: None)
    async with app.inline():
        job = await task.aenqueue()
    await heard.of(events.Succeeded)
    assert heard.order(job.id) == [events.Enqueued, events.Leased, events.Succeeded]


ISOLATED = """
import os, sys
from tenure import App
app = App(sys.argv[1])
main = os.getpid()

@app.task
def other(): ...

@app.task(isolation="process")
def isolated(): other.enqueue()

@app.listen("enqueued", "succeeded")
def hear(event):
    with open(sys.argv[2], "a") as file:
        file.write(f"{event.kind} {event.task} {'here' if os.getpid() == main else 'in the child'}\\n")

app.worker().run(until_empty=True)
"""


def test_what_an_isolated_job_enqueues_is_told_in_its_process(tmp_path: Path) -> None:
    url, heard = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "heard"
    with App(url) as app:
        app.remote("isolated").enqueue()

    subprocess.run([sys.executable, "-c", ISOLATED, url, str(heard)], timeout=30, check=True)

    assert sorted(heard.read_text().splitlines()) == [
        "enqueued other in the child", "succeeded isolated here", "succeeded other here",
    ]  # fmt: skip


# Transactions.


on_databases = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)


@on_databases
async def test_an_end_in_a_transaction_is_told_after_its_commit(url: str) -> None:  # Q70
    heard_at: list[tuple[type[Event], bool]] = []
    committed = threading.Event()
    app = App(url)

    @app.listen(events.Succeeded, events.Failed)
    def hear(event: Event) -> None:
        heard_at.append((type(event), committed.is_set()))

    @app.task(retry=None)
    async def complete(ctx: Context) -> int:
        with pytest.raises(ZeroDivisionError):
            async with ctx.complete():
                raise ZeroDivisionError
        async with ctx.complete() as tx:
            tx.result = 7
        committed.set()
        return 7

    job = await complete.aenqueue()
    async with app.worker(poll=0.1):
        assert await job.aresult(timeout=10) == 7
    await app.aclose()
    assert heard_at == [(events.Succeeded, True)]


@pytest.fixture
async def connect(url: str) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Connections of a caller's own, each in a transaction, with `commit` and `rollback`."""
    opened: list[Any] = []

    async def sqlite() -> Any:
        import apsw

        connection: Any = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN IMMEDIATE")
        opened.append(connection)
        return connection

    async def postgres() -> Any:
        import asyncpg  # type: ignore[import-untyped]

        connection = await asyncpg.connect(url.partition("?")[0])
        await connection.execute("BEGIN")
        opened.append(connection)
        return connection

    yield sqlite if url.startswith("sqlite") else postgres
    for connection in opened:
        closing = connection.close()
        if closing is not None:
            await closing


async def end(connection: Any, how: str) -> None:
    ending = connection.execute(how)
    if isinstance(ending, Awaitable):
        await ending


@on_databases
async def test_what_a_caller_has_rolled_back_is_never_told(
    url: str, connect: Callable[[], Awaitable[Any]]
) -> None:  # Q70
    async with App(url) as app:
        heard = Heard(app)
        task = app.task(name="t")(lambda: None)
        await app.internals.session.open()
        connection = await connect()
        await task.using(connection=connection).aenqueue()
        await end(connection, "ROLLBACK")
        connection = await connect()
        kept = await task.using(connection=connection).aenqueue()
        await asyncio.sleep(0.15)  # in which it is looked for, and not found
        assert heard.all == []
        await end(connection, "COMMIT")
        [told] = await heard.of(events.Enqueued)
        assert told.job_id == kept.id
