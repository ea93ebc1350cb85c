"""What happens in any process is seen by whoever watches."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tenure import App, events
from tenure.core.job import ErrorInfo, State, new_id
from tenure.errors import InvalidOption, UseAsync
from tenure.events import Event, Kind
from tenure.observe import audience
from tenure.observe.encoding import decode, encode
from tenure.observe.watching import Watch
from tenure.stores.base import MESSAGE_BYTES
from tests.conftest import KINDS

WITHIN = 20.0


async def first(watch: Watch, number: int) -> list[Event]:
    """The first so many events."""
    found: list[Event] = []
    async with asyncio.timeout(WITHIN):
        async for event in watch:
            found.append(event)
            if len(found) == number:
                break
    return found


def in_order(seen: list[Event]) -> list[Event]:
    """As they have happened: those of two store objects come by two connections, of which either may be the faster one."""
    return sorted(seen, key=lambda event: event.at)


@pytest.fixture
async def other(url: str) -> AsyncIterator[App]:
    """Another app on the same store, as another process has one."""
    app = App(url)
    yield app
    await app.aclose()


async def test_whoever_watches_sees_what_others_do(app: App, other: App) -> None:  # W7, W31, T16
    async with other.watch() as watch:
        job = await app.remote("t").aenqueue()
        await job.acancel()
        await job.adelete()
        await app.apause("default")
        seen = await first(watch, 4)
    assert sorted(event.kind for event in seen) == ["cancelled", "deleted", "enqueued", "queue_paused"]
    assert {event.job_id for event in seen if isinstance(event, events.JobEvent)} == {job.id}


async def test_a_release_by_an_operator_is_seen(app: App, other: App) -> None:
    async with other.watch(kinds=events.Released) as watch:
        job = await app.remote("t").aenqueue()
        await app.alease("default")
        await job.arelease()
        [seen] = await first(watch, 1)
    assert isinstance(seen, events.Released)
    assert (seen.job_id, seen.task, seen.queue) == (job.id, "t", "default")


async def test_a_whole_life_is_seen_elsewhere(app: App, other: App) -> None:  # W7, W31
    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    kinds: list[Kind] = [events.Enqueued, "leased", events.Succeeded]
    async with other.watch(task=greet, kinds=kinds) as watch:
        job = await greet.aenqueue("Zoë")  # a worker that runs by now could lease it before this call has its answer
        async with app.worker(poll=0.1):
            seen = in_order(await first(watch, 3))
    assert [(type(event), event.job_id) for event in seen if isinstance(event, events.JobEvent)] == [
        (events.Enqueued, job.id), (events.Leased, job.id), (events.Succeeded, job.id),
    ]  # fmt: skip
    assert "Zo" not in repr(seen)


async def test_what_is_watched_for_can_be_chosen(app: App, other: App) -> None:
    one, two = app.remote("one", queue="a"), app.remote("two", queue="b")
    async with other.watch(queue="b", kinds="cancelled") as of_queue, other.watch(task="two") as of_task:
        jobs = [await one.aenqueue(), await two.aenqueue()]
        async with other.watch(job=jobs[1], kinds=events.Cancelled) as of_job:
            await app.acancel(*jobs)
            for watch, number in ((of_queue, 1), (of_task, 2), (of_job, 1)):
                *_, event = await first(watch, number)
                assert isinstance(event, events.Cancelled)
                assert event.job_id == jobs[1].id


async def test_a_run_is_watched(app: App, other: App) -> None:
    flow = app.flow("order")

    @flow.step(then="charge")
    async def reserve(sku: str) -> None: ...

    @flow.step
    async def charge() -> int:
        return 12

    async with other.watch(kinds=[events.RunEvent]) as watch:
        run = await flow.astart(sku="x")
        async with app.worker(poll=0.1):
            seen = in_order(await first(watch, 3))
    assert [event.kind for event in seen] == ["run_started", "run_advanced", "run_ended"]
    assert {event.run_id for event in seen if isinstance(event, events.RunEvent)} == {run.id}


async def test_a_busy_process_notices_a_new_watcher(app: App, other: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience, "CHECK_INTERVAL", 0.2)
    task = app.remote("t")

    async def produce() -> None:
        while True:
            await task.aenqueue()
            await asyncio.sleep(0.01)

    producing = asyncio.create_task(produce())
    await asyncio.sleep(0.1)
    async with other.watch(queue="default") as watch:
        [event] = await first(watch, 1)
    producing.cancel()
    assert event.kind == "enqueued"


def test_blocking_code_watches_with_a_plain_loop(url: str) -> None:
    with App(url) as app, app.watch(queue="default") as watch:
        threading.Thread(target=app.remote("t").enqueue).start()
        for event in watch:
            assert isinstance(event, events.Enqueued)
            break


async def test_blocking_ways_are_refused_on_a_loop_and_what_cannot_be_is_too() -> None:
    app = App(f"memory://{new_id()}")
    with pytest.raises(UseAsync, match="use async for"):
        iter(app.watch())
    with pytest.raises(UseAsync, match="use async with"):
        app.watch().__enter__()
    with pytest.raises(InvalidOption, match="no kind of event"):
        app.watch(kinds=["sucess"])
    await app.aclose()


async def test_an_idle_worker_does_not_ask_who_watches(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience, "CHECK_INTERVAL", 0.05)
    offered = threading.Event()
    app.listen(events.Reoffered)(lambda _: offered.set())
    async with app.worker(poll=0.05):
        await app.remote("nobody").aenqueue()
        assert await asyncio.to_thread(offered.wait, WITHIN)
        await asyncio.sleep(0.3)  # what has happened so far is told
        before = app.internals.audience.check_at
        await asyncio.sleep(0.5)  # ten times as long as it would take to ask
        assert app.internals.audience.check_at == before


def test_a_note_is_never_too_long() -> None:
    long = events.Failed(1.0, "id", "t" * 600, "q" * 600, error=ErrorInfo("E", "ü" * 500))
    [note] = encode([long])
    assert len(note.encode()) <= MESSAGE_BYTES
    told = decode(note)
    assert isinstance(told, events.Failed)
    assert (told.task, told.error) == ("t" * 600, None)
    assert encode([events.Succeeded(1.0, "id", "t" * MESSAGE_BYTES)]) == []


@pytest.mark.parametrize(
    "note", ["", "{}", "no JSON", '{"event": "of a later version", "at": 1}', '{"event": "failed"}']
)
def test_a_note_that_says_nothing_is_passed_over(note: str) -> None:
    assert decode(note) is None


SAID: dict[str, Any] = {
    "tick": 2.5, "lag": 0.5, "attempt": 2, "delay": 5.0, "duration": 0.25, "error": ErrorInfo("E", "why"), "jobs": 3, "losses": 1, "pid": 4,
    "queues": ("a",), "run_at": 9.0, "silent_for": 11.0, "state": State.FAILED, "timeout": 60.0,
}  # fmt: skip


@pytest.mark.parametrize("kind", events.KINDS.values(), ids=list(events.KINDS))
def test_every_event_comes_through_as_it_was(kind: type[Event]) -> None:
    fields = {name: SAID.get(name, f"some {name}") for name in kind.__struct_fields__ if name not in ("at", "reason")}
    event = kind(at=1.5, **fields)
    [note] = encode([event])
    assert decode(note) == event


WATCHER = """
import sys
from tenure import App, events
with App(sys.argv[1]) as app, app.watch(kinds=[events.Enqueued, events.Succeeded, events.WorkerStopped]) as watch:
    print("watching", flush=True)
    for event in watch:
        print(event.at, event.kind, getattr(event, "job_id", ""), flush=True)
"""

WORKER = """
import sys
from tenure import App
app = App(sys.argv[1])
@app.task
def work(): ...
app.worker().run(until_empty=True)
"""


@pytest.fixture
def run(url: str) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def run(code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize("url", [kind for kind in KINDS if kind != "memory"], indirect=True)  # which is of one process
def test_processes_tell_each_other(url: str, run: Callable[[str], Any]) -> None:  # W7, W31
    with App(url) as app:
        app.queues()
        watcher = run(WATCHER)
        assert watcher.stdout.readline() == "watching\n"
        job = app.remote("work").enqueue()
        assert run(WORKER).wait(WITHIN) == 0
        told = [watcher.stdout.readline().split() for _ in range(3)]
        # As it has happened: a worker tells of its jobs and of its end by two connections.
        assert [said for _, *said in sorted(told, key=lambda line: float(line[0]))] == [
            ["enqueued", job.id], ["succeeded", job.id], ["worker_stopped"],
        ]  # fmt: skip
