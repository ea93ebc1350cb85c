"""Hooks about a worker: starting, stopping, idling, pausing, forking; and what it opens for its jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure import App
from tenure.worker.worker import Status

from . import hooked
from .conftest import MakeApp, Start, Wire, eventually, whatever_the_store
from .hooked import Notes
from .hosting import CallerConnection, Host, host

__all__ = ["host"]


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


def note(app: App, notes: Notes, *moments: str) -> None:
    """Take a note at each of these moments, by a blocking and an async hook."""
    for moment in moments:

        async def awaited(moment: str = moment) -> None:
            await asyncio.sleep(0)
            notes.take(f"{moment} 2")

        getattr(app, moment)(lambda moment=moment: notes.take(f"{moment} 1"))
        getattr(app, moment)(awaited)


# Resources.


async def test_what_is_opened_before_the_first_job_is_closed_after_the_last(
    app: App, start: Start, notes: Notes
) -> None:
    @app.on_start
    async def open_pool() -> None:
        notes.take("open", await count())
        app.state.pool = asyncio.get_running_loop()

    @app.on_stop
    async def close_pool() -> None:
        notes.take("close", await count())
        del app.state.pool

    async def count() -> int:
        return len(await app.ajobs(state="succeeded"))

    note(app, notes, "on_start", "on_stop", "worker_exit")

    @app.task
    async def job() -> None:
        assert app.state.pool is asyncio.get_running_loop()
        notes.take("job")

    await job.aenqueue()
    worker = await start(app)
    await eventually(lambda: "job" in notes())
    await worker.stop()
    assert not hasattr(app.state, "pool")
    assert notes() == [
        ("open", 0), "on_start 1", "on_start 2", "job", "on_stop 2", "on_stop 1", ("close", 1),
        "worker_exit 1", "worker_exit 2",
    ]  # fmt: skip


@whatever_the_store
@pytest.mark.parametrize("how", ["start", "run"])
async def test_an_on_start_that_fails_ends_the_start_with_its_error(app: App, notes: Notes, how: str) -> None:  # R44
    note(app, notes, "on_start", "on_stop", "worker_exit")

    @app.on_start
    def broken() -> None:
        raise LookupError("no database here")

    app.on_start(lambda: notes.take("never"))
    worker = app.worker()
    with pytest.raises(LookupError, match="no database here"):
        await (worker.start() if how == "start" else asyncio.to_thread(worker.run))
    assert notes() == ["on_start 1", "on_start 2", "on_stop 2", "on_stop 1", "worker_exit 1", "worker_exit 2"]
    assert worker.status is Status.STOPPED
    assert await app.aworkers() == []


@whatever_the_store
async def test_an_on_stop_that_fails_keeps_nobody_from_ending(
    app: App, start: Start, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    note(app, notes, "on_stop")

    @app.on_stop
    async def broken() -> None:
        raise LookupError("no such pool")

    await (await start(app)).stop()
    assert notes() == ["on_stop 2", "on_stop 1"]
    assert "broken failed" in caplog.text


@whatever_the_store
async def test_workers_that_share_a_loop_share_what_is_opened(app: App, notes: Notes) -> None:
    flow = app.flow("f")

    @flow.step(then="second", queue="q1")
    def first() -> None: ...

    @flow.step(queue="q2")
    def second() -> None: ...

    note(app, notes, "on_start", "on_stop")
    async with flow.workers():
        await (await flow.astart()).aresult(timeout=10)
        assert notes() == ["on_start 1", "on_start 2"]
    assert notes()[2:] == ["on_stop 2", "on_stop 1"]


@whatever_the_store
async def test_children_see_what_was_in_the_state_before_the_worker_started(
    app: App, start: Start, notes: Notes
) -> None:
    app.state.settings = "from the import"

    @app.on_start
    def open_pool() -> None:
        app.state.pool = "of the worker"

    @app.after_fork
    async def own_pool() -> None:
        app.state.own = asyncio.get_running_loop() is not None

    @app.task(isolation="process")
    async def look() -> dict[str, Any]:
        return {**vars(app.state), "parent": os.getppid()}

    await start(app)
    seen = await (await look.aenqueue()).aresult(timeout=20)
    os.kill(seen["parent"], signal.SIGKILL)
    await eventually(lambda: not alive(seen["parent"]))
    again = await (await look.aenqueue()).aresult(timeout=20)

    assert seen.pop("parent") != again.pop("parent")
    assert seen == again == {"settings": "from the import", "own": True}
    assert app.state.pool == "of the worker"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Forks.


@whatever_the_store
@pytest.mark.parametrize("awaited", [False, True])
async def test_hooks_around_a_fork_may_be_async(app: App, start: Start, notes: Notes, awaited: bool) -> None:  # R44
    note(app, notes, "before_first_fork", "before_fork", "after_fork")

    @app.after_fork
    async def loops() -> None:
        app.state.loop = asyncio.get_running_loop()

    @app.task(isolation="process", name="look")
    async def alook() -> None:
        notes.take("job", app.state.loop is asyncio.get_running_loop())

    @app.task(isolation="process")
    def look_blocking() -> None:
        notes.take("job", tenure.current().job.task == "look_blocking" and app.state.loop.is_running())

    await start(app)
    await (await (alook if awaited else look_blocking).aenqueue()).aresult(timeout=20)
    moments = ("before_first_fork", "before_fork", "after_fork")
    assert notes() == [*(f"{moment} {n}" for moment in moments for n in (1, 2)), ("job", True)]


@whatever_the_store
async def test_before_first_fork_is_called_in_a_worker_without_isolated_tasks(
    app: App, start: Start, notes: Notes
) -> None:  # R44
    note(app, notes, "before_first_fork")

    @app.task
    def job() -> None:
        notes.take("job")

    for _ in range(2):
        worker = await start(app)
        await (await job.aenqueue()).aresult(timeout=20)
        await worker.stop()
    assert notes() == ["before_first_fork 1", "before_first_fork 2", "job"] * 2


# Idling.


async def test_a_worker_tells_when_it_has_become_idle_and_not_when_it_starts(
    app: App, start: Start, notes: Notes
) -> None:  # R44
    note(app, notes, "queue_empty")
    idle = ["queue_empty 1", "queue_empty 2"]

    @app.task
    async def job() -> None:
        notes.take("job")

    worker = await start(app, poll=0.05)
    await eventually(lambda: worker.id)
    await asyncio.sleep(0.2)  # several looks into empty queues
    assert notes() == []
    await app.aenqueue(*[job.bind()] * 3)
    await eventually(lambda: notes() == ["job", "job", "job", *idle])
    await asyncio.sleep(0.2)
    await job.aenqueue()
    await eventually(lambda: notes()[5:] == ["job", *idle])


async def test_without_such_a_hook_an_idle_worker_does_not_look_for_queues_after_each_job(
    make_app: MakeApp, wire: Wire, start: Start
) -> None:
    app = make_app(store=wire.open)

    @app.task
    async def job() -> None: ...

    await start(app, "*")
    began = time.monotonic()
    for _ in range(40):
        await (await job.aenqueue()).aresult(timeout=10)
        await asyncio.sleep(0.005)  # it becomes idle
    # The reaper looks once a second, and the worker after a ring that brought no job.
    assert len(wire.calls["busy_queues"]) < 20 + 2 * (time.monotonic() - began)


@whatever_the_store
async def test_a_hook_that_fails_is_logged_and_the_worker_goes_on(
    app: App, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    @app.queue_empty
    async def broken() -> None:
        raise LookupError("no lights to switch off")

    @app.task
    async def job() -> None: ...

    await start(app, poll=0.05)
    told = "a hook for queue_empty failed"
    await (await job.aenqueue()).aresult(timeout=10)
    await eventually(lambda: caplog.text.count(told) == 1)
    await (await job.aenqueue()).aresult(timeout=10)
    await eventually(lambda: caplog.text.count(told) == 2)


# Pausing.


@whatever_the_store
async def test_hooks_are_called_before_a_pause_and_after_it(app: App, start: Start, notes: Notes) -> None:  # R44
    note(app, notes, "before_pause", "after_pause")

    @app.before_pause
    def broken() -> None:
        raise LookupError("keeps nobody from it")

    @app.task
    async def job() -> None:
        notes.take("job")

    worker = await start(app, poll=0.05)
    await eventually(lambda: worker.id)
    await worker.pause()
    await worker.pause()
    assert notes() == ["before_pause 1", "before_pause 2"]
    waiting = await job.aenqueue()
    await asyncio.sleep(0.2)
    assert (await waiting.arefresh()).state == "waiting"
    await asyncio.gather(worker.resume(), worker.resume())
    await waiting.aresult(timeout=10)
    assert sorted(notes()[2:]) == ["after_pause 1", "after_pause 2", "job"]
    assert [each for each in notes()[2:] if each != "job"] == ["after_pause 2", "after_pause 1"]


@whatever_the_store
async def test_a_worker_is_paused_only_while_it_runs(app: App, start: Start) -> None:
    worker = app.worker()
    with pytest.raises(RuntimeError, match="this needs a running worker, and this one is ready"):
        await worker.pause()


# In a process of its own.


@pytest.fixture
def begin(host: Host, make_app: MakeApp, tmp_path: Path) -> Iterator[Any]:
    guests: list[CallerConnection] = []

    def start(*arguments: object) -> CallerConnection:
        guests.append(host.start(hooked.work, f"sqlite:///{tmp_path}/jobs.db", *arguments))
        return guests[-1]

    yield start
    for guest in guests:
        guest.end()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_signals_lead_to_the_hooks(begin: Any, url: str) -> None:  # R44
    worker = begin()
    assert worker.hear("hook") == ["on_start"]
    with App(url) as app:
        app.remote("beep").enqueue()
        worker.hear("beep")
        assert worker.hear("hook") == ["queue_empty"]
        worker.send(signal.SIGUSR2)
        assert worker.hear("hook") == ["before_pause"]
        worker.send(signal.SIGCONT)
        assert worker.hear("hook") == ["after_pause"]
        worker.send(signal.SIGTERM)
        assert worker.rest()["hook"] == [["on_stop"], ["worker_exit"]]
        assert worker.wait() == 0


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_process_whose_on_start_fails_ends_with_status_1(begin: Any, url: str) -> None:  # R44
    worker = begin(True)
    assert worker.hear("hook") == ["on_start"]
    assert worker.rest()["hook"] == [["on_stop"], ["worker_exit"]]
    assert worker.wait() == 1
    assert "LookupError: no database here" in worker.log
    with App(url) as app:
        assert app.workers() == []


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_the_command_ends_with_status_1_too(url: str, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(
        "from tenure import App\n"
        f"app = App({url!r})\n"
        "@app.on_start\n"
        "def broken(): raise LookupError('no database here')\n"
        "@app.worker_exit\n"
        "def bye(): print('bye', flush=True)\n"
    )
    ended = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tenure", "work", f"{tmp_path}/failing.py:app",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await ended.communicate()
    assert ended.returncode == 1
    assert out == b"bye\n"
    assert b"LookupError: no database here" in err
