"""Everything that can happen is an event, on every store, and is told to those who listen."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Context, Retry, events
from tenure.errors import InvalidOption
from tenure.events import Event
from tenure.job import ErrorInfo, NewJob, RunStep, State, new_id
from tenure.lease import AbortReason
from tenure.lifecycle import Finish, Park, Requeue
from tenure.observe import audience, listeners
from tenure.stores.base import Store
from tenure.stores.values import Change, Renewal
from tenure.testing.conformance.scene import a_worker, ask, lease, lease_one, settle
from tests.faults.processes import eventually

from .conftest import Timed

BOOM = ErrorInfo("ValueError", "boom")


class Stage:
    """Where a scene is played: a store, its clock, and a queue of its own."""

    def __init__(self, timed: Timed, queue: str) -> None:
        self.app, self.clock = timed
        self.queue = queue

    @property
    def store(self) -> Store:
        return self.app.session.store

    def job(self, **fields: Any) -> NewJob:
        return NewJob(**{"id": new_id(), "task": f"task.{self.queue}", "queue": self.queue} | fields)

    async def enqueue(self, **fields: Any) -> str:
        [answer] = await self.store.enqueue([self.job(**fields)])
        return answer.id

    async def leased(self, **fields: Any) -> Any:
        await self.enqueue(**fields)
        return await lease_one(self.store, self.queue)

    async def settled(self, step: Any, **fields: Any) -> str:
        held = await self.leased(**fields)
        await settle(self.store, held, step)
        return str(held.job.id)

    async def a_run(self) -> NewJob:
        run_id = new_id()
        first = self.job(id=run_id, task="order.first", step=RunStep(run_id=run_id, flow="order"))
        await self.store.enqueue([first])
        return first

    async def advanced(self) -> NewJob:
        """A run that is in its second step; that."""
        first = await self.a_run()
        second = self.job(task="order.second", step=RunStep(run_id=first.id, flow="order"))
        await settle(self.store, await lease_one(self.store, self.queue), Finish(State.SUCCEEDED, successor=second))
        return second


Scene = Callable[[Stage], Awaitable[object]]
SCENES: dict[type[Event], Scene] = {}


def scene(kind: type[Event]) -> Callable[[Scene], Scene]:
    def add(play: Scene) -> Scene:
        SCENES[kind] = play
        return play

    return add


# The rows of the table of transitions, in its order: a job's life.


@scene(events.Enqueued)
async def _(stage: Stage) -> object:
    return await stage.enqueue()


@scene(events.Leased)
async def _(stage: Stage) -> object:
    return (await stage.leased()).job.id


@scene(events.Renewed)
async def _(stage: Stage) -> object:
    held = await stage.leased()
    await stage.store.renew([Renewal(held, 60.0)])
    return held.job.id


@scene(events.Succeeded)
async def _(stage: Stage) -> object:
    return await stage.settled(Finish(State.SUCCEEDED, "42"))


@scene(events.Retried)
async def _(stage: Stage) -> object:
    return await stage.settled(Requeue(5.0, error=BOOM))


@scene(events.Rescheduled)
async def _(stage: Stage) -> object:
    return await stage.settled(Requeue(5.0, counts=False))


@scene(events.Parked)
async def _(stage: Stage) -> object:
    return await stage.settled(Park(60.0))


@scene(events.Failed)
async def _(stage: Stage) -> object:
    return await stage.settled(Finish(State.FAILED, error=BOOM))


@scene(events.Reoffered)
async def _(stage: Stage) -> object:
    return await stage.settled(Requeue(10.0, counts=False, missed=True, error=BOOM))


@scene(events.Broken)
async def _(stage: Stage) -> object:
    return await stage.settled(Finish(State.BROKEN, error=BOOM))


@scene(events.Released)
async def _(stage: Stage) -> object:
    return await stage.settled(Requeue(counts=False, front=True))


@scene(events.Lost)
async def _(stage: Stage) -> object:
    held = await stage.leased()
    stage.clock.advance(31)
    await stage.store.reap([stage.queue])
    return held.job.id


@scene(events.Unblocked)
async def _(stage: Stage) -> object:
    blocker = await stage.enqueue()
    waiting = await stage.enqueue(after=(blocker,))
    await settle(stage.store, await lease_one(stage.store, stage.queue), Finish(State.SUCCEEDED))
    return waiting


@scene(events.Triggered)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue(delay=60.0)
    await stage.store.trigger([job_id])
    return job_id


@scene(events.Cancelled)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue()
    await stage.store.cancel([job_id])
    return job_id


@scene(events.Expired)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue(expires=10.0)
    stage.clock.advance(11)
    await ask(stage.store, stage.queue)
    return job_id


@scene(events.Completed)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue()
    await stage.store.complete(job_id, Finish(State.SUCCEEDED, "1"))
    return job_id


@scene(events.Deleted)
async def _(stage: Stage) -> object:
    job_id = await stage.enqueue()
    await stage.store.delete([job_id])
    return job_id


@scene(events.Revived)
async def _(stage: Stage) -> object:
    job_id = await stage.settled(Finish(State.FAILED, error=BOOM))
    await stage.store.retry([job_id])
    return job_id


# What else can happen to a job.


@scene(events.LeaseLost)
async def _(stage: Stage) -> object:
    held = await stage.leased()
    await stage.store.cancel([held.job.id])
    await stage.store.renew([Renewal(held, 60.0)])
    return held.job.id


@scene(events.Fenced)
async def _(stage: Stage) -> object:
    held = await stage.leased()
    await stage.store.cancel([held.job.id])
    await settle(stage.store, held, Finish(State.SUCCEEDED))
    return held.job.id


@scene(events.Overdue)
async def _(stage: Stage) -> object:
    first = await stage.a_run()
    await settle(stage.store, await lease_one(stage.store, stage.queue), Park(10.0, "late"))
    stage.clock.advance(11)
    await stage.store.reap([stage.queue])
    return first.id


# Queues, workers, runs: told by the queue, the worker or the run that it happened to.


@scene(events.QueuePaused)
async def _(stage: Stage) -> object:
    await stage.store.pause(stage.queue)
    return stage.queue


@scene(events.QueueResumed)
async def _(stage: Stage) -> object:
    await stage.store.pause(stage.queue)
    await stage.store.resume(stage.queue)
    return stage.queue


@scene(events.QueuePurged)
async def _(stage: Stage) -> object:
    await stage.enqueue()
    await stage.store.purge(stage.queue)
    return stage.queue


@scene(events.WorkerStarted)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    return stage.queue


@scene(events.WorkerStopping)
async def _(stage: Stage) -> object:
    async with stage.app.worker([stage.queue], id=stage.queue, poll=0.05) as worker:
        async with asyncio.timeout(10):
            while worker.id is None:
                await asyncio.sleep(0.01)
    return stage.queue


@scene(events.WorkerStopped)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    await stage.store.leave(stage.queue)
    return stage.queue


@scene(events.WorkerMissing)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    stage.clock.advance(11)
    await stage.store.workers()
    await stage.store.workers()
    return stage.queue


@scene(events.WorkerRetired)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    await stage.store.retire(stage.queue, reason="killed by SIGKILL")
    return stage.queue


@scene(events.WorkerPruned)
async def _(stage: Stage) -> object:
    await stage.store.register(a_worker(stage.queue))
    stage.clock.advance(11)
    await stage.store.forget({stage.queue: 10.0})
    return stage.queue


@scene(events.RunStarted)
async def _(stage: Stage) -> object:
    return (await stage.a_run()).id


@scene(events.RunAdvanced)
async def _(stage: Stage) -> object:
    second = await stage.advanced()
    return second.run_id


@scene(events.RunEnded)
async def _(stage: Stage) -> object:
    second = await stage.advanced()
    await settle(stage.store, await lease_one(stage.store, stage.queue), Finish(State.FAILED, error=BOOM))
    return second.run_id


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.all: list[Event] = []
        app.listen(self.all.append)

    async def of(self, *kinds: type[Event], number: int = 1) -> list[Any]:
        """Wait for so many of these kinds, and see that there are no more."""
        async with asyncio.timeout(10):
            while len(found := self._found(kinds)) < number:
                await asyncio.sleep(0.005)
        await self._app.audience.listeners.aflush()
        found = self._found(kinds)
        assert len(found) == number, found
        return found

    def _found(self, kinds: tuple[type[Event], ...]) -> list[Event]:
        return [event for event in self.all if isinstance(event, kinds)]

    def order(self, job_id: str) -> list[type[Event]]:
        """The kinds of what has happened to a job."""
        return [type(event) for event in self.all if getattr(event, "job_id", None) == job_id]


def subject(event: Event) -> str:
    """What an event has happened to."""
    match event:
        case events.JobEvent():
            return event.job_id
        case events.QueueEvent():
            return event.queue
        case events.WorkerEvent():
            return event.worker
        case events.RunEvent():
            return event.run_id
    raise AssertionError(event)


def test_every_kind_of_event_is_shown_to_happen() -> None:
    """The walk below leaves out nothing, and neither does what stores tell of jobs that nobody named."""
    from tenure.observe.deriving import BY_CHANGE

    assert SCENES.keys() == set(events.KINDS.values())
    assert BY_CHANGE.keys() == set(Change)


async def test_every_row_of_the_table_of_transitions_is_an_event(timed: Timed) -> None:  # Q69, W31, Q9, Q20
    heard = Heard(timed.app)
    happened = {kind: await play(Stage(timed, f"q{number}")) for number, (kind, play) in enumerate(SCENES.items())}

    async def missing() -> list[str]:
        told = {(type(event), subject(event)) for event in heard.all}
        return [kind.__name__ for kind, what in happened.items() if (kind, what) not in told]

    for _ in range(100):
        if not await missing():
            break
        await asyncio.sleep(0.05)
    assert await missing() == []
    for event in heard.all:
        if isinstance(event, events.JobEvent):
            assert event.task, event
            assert event.queue.startswith("q"), event
    silent = happened[events.WorkerMissing]
    [missed] = [each for each in heard.all if isinstance(each, events.WorkerMissing) and each.worker == silent]
    assert missed.silent_for > 10


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
        await app.session.open()
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


# Listeners.


async def test_a_listener_hears_the_kinds_that_it_asked_for() -> None:
    app = App(f"memory://{new_id()}")
    of_queues: list[Event] = []
    of_two: list[str] = []
    app.listen(events.QueueEvent)(of_queues.append)

    @app.listen("enqueued", events.Cancelled)
    def two(event: Event) -> None:
        of_two.append(event.kind)

    job = await app.remote("t").aenqueue()
    await job.acancel()
    await app.apause("q")
    await app.aclose()
    assert of_two == ["enqueued", "cancelled"]
    assert [event.kind for event in of_queues] == ["queue_paused"]


async def test_a_listener_that_raises_is_logged_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    app = App(f"memory://{new_id()}")
    heard = Heard(app)
    calls: list[Event] = []

    @app.listen
    def bad(event: Event) -> None:
        calls.append(event)
        raise (ValueError if len(calls) < 3 else SystemExit)("no")

    task = app.remote("t")
    for _ in range(4):
        await task.aenqueue()
    await app.aclose()
    assert len(calls) == len(heard.all) == 4
    said = [message for message in caplog.messages if "bad has failed" in message]
    assert [message.partition(" of ")[0].rpartition(" ")[2] for message in said] == ["'ValueError'", "'SystemExit'"]


async def test_a_listener_that_hangs_slows_nobody_and_loses_only_events(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listeners, "BACKLOG", 100)
    monkeypatch.setattr(listeners, "PATIENCE", 0.1)
    app = App(f"memory://{new_id()}")
    hanging = threading.Event()
    heard: list[Event] = []

    @app.listen
    def slow(event: Event) -> None:
        hanging.wait(20)
        heard.append(event)

    task = app.task(name="t")(lambda: None)
    jobs = await task.aenqueue_many([()] * 50)
    async with app.worker(concurrency=10):
        for job in jobs:
            await job.aresult(timeout=10)
    assert heard == []
    assert app.audience.listeners.dropped > 0
    hanging.set()
    await app.audience.listeners.aflush(10)
    assert 0 < len(heard) <= 100
    assert len([message for message in caplog.messages if "some are dropped" in message]) == 1


async def test_an_async_listener_is_refused() -> None:
    async def listener(event: Event) -> None: ...

    app = App(f"memory://{new_id()}")
    with pytest.raises(InvalidOption, match="is async"):
        app.listen(listener)
    with pytest.raises(InvalidOption, match="no kind of event named 'sucess'"):
        app.listen("sucess")
    with pytest.raises(InvalidOption, match="function of one event"):
        App(listeners=[3])  # type: ignore[list-item]


async def test_events_are_derived_only_while_somebody_wants_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With nothing registered, and the store having said that nobody watches, no event is made."""
    monkeypatch.setattr(audience, "ASK", 60.0)  # so that it is not time to ask again, however long this takes
    caplog.set_level(logging.WARNING)
    app = App(f"memory://{new_id()}", log=False)
    await app.remote("t").aenqueue()
    async with asyncio.timeout(10):
        while app.audience.wants:
            await asyncio.sleep(0.005)
    assert app.audience.ask_at > 0
    before = app.audience.ask_at
    store = app.session.store
    assert await lease(store, "default")
    assert app.audience.ask_at == before
    assert store.on_consequences is None
    await app.aclose()
