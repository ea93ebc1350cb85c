"""Isolated jobs of a worker in a process of its own: what becomes of them when it is killed, and when all are signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tenure import App
from tenure.core.job import State

from .conftest import eventually
from .isolated import app_in
from .test_isolation_ends import alive

Launch = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with app_in(tmp_path) as app:
        yield app


@pytest.fixture
async def launch(tmp_path: Path) -> AsyncIterator[Launch]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(*options: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("wb") as log:
            command = [sys.executable, "-m", "tests.worker.isolated", str(tmp_path), *options]
            started.append(subprocess.Popen(command, stderr=log, start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


async def pids_of(folder: Path) -> tuple[int, int]:
    """The child that runs the job, and the template."""
    await eventually((folder / "pids").exists, 30)
    child, template = (folder / "pids").read_text().split()
    return int(child), int(template)


async def test_nothing_is_left_of_a_worker_that_is_killed(app: App, launch: Launch, tmp_path: Path) -> None:  # F1, F11
    worker = launch()
    await app.remote("deaf").aenqueue(str(tmp_path))
    child, template = await pids_of(tmp_path)
    assert template not in (worker.pid, os.getpid())

    worker.kill()
    await eventually(lambda: not (alive(child) or alive(template)))
    assert b"while other threads run" not in (tmp_path / "log").read_bytes()


async def test_a_signal_to_the_whole_group_means_what_it_means_to_the_worker(
    app: App, launch: Launch, tmp_path: Path
) -> None:  # R38, R39
    worker = launch("graceful")
    job = await app.remote("patient").aenqueue(str(tmp_path))
    child, template = await pids_of(tmp_path)

    for pid in (worker.pid, template, child):
        os.kill(pid, signal.SIGTERM)
    await eventually(lambda: b"SIGTERM" in (tmp_path / "log").read_bytes())
    (tmp_path / "end").touch()
    assert await job.aresult(timeout=30) == "ended well"
    assert worker.wait(30) == 0


async def test_a_worker_that_stops_tells_its_children_and_leaves_none(
    app: App, launch: Launch, tmp_path: Path
) -> None:  # R38, R40
    worker = launch()
    job = await app.remote("patient").aenqueue(str(tmp_path))
    child, template = await pids_of(tmp_path)

    worker.terminate()
    assert worker.wait(30) == 0
    assert not (alive(child) or alive(template))
    record = (await app.ajob(job.id)).record
    assert record is not None
    assert (record.state, record.attempt) == (State.WAITING, 0)
