"""`worker.run()`: a whole process that works, and ends by itself or by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import JobRecord, State
from tenure.core.outcome import Retry
from tenure.worker.worker import Status

from .conftest import MakeApp, Wire


@pytest.fixture
def blocking_app(url: str) -> Iterator[App]:
    app = App(url)
    yield app
    app.close()


def test_until_empty_ends_when_nothing_is_waiting_due_or_running(blocking_app: App) -> None:  # R27, Q6
    app = blocking_app
    ran: list[int] = []

    @app.task
    async def task(number: int) -> None:
        ran.append(number)
        if number < 3:
            await task.using(queue=f"queue-{number}").aenqueue(number + 1)
        await asyncio.sleep(0.01)

    @app.task
    async def later() -> None:
        raise Retry(after=600)

    task.enqueue(0)
    scheduled = later.using(delay=600).enqueue()
    retrying = later.enqueue()
    app.pause("paused")
    paused = task.using(queue="paused").enqueue(9)
    worker = app.worker(concurrency=4)
    worker.run(until_empty=True)
    assert worker.status is Status.STOPPED
    assert ran == [0, 1, 2, 3]
    for job in (scheduled, retrying, paused):
        assert job.refresh().state is State.WAITING


def test_until_empty_does_not_overlook_what_the_last_job_has_enqueued(blocking_app: App) -> None:  # Q6
    app = blocking_app
    ran: list[int] = []

    @app.task
    async def task(number: int) -> None:
        ran.append(number)
        if number < 200:
            await task.aenqueue(number + 1)

    task.enqueue(0)
    app.worker(concurrency=4).run(until_empty=True)
    assert ran == list(range(201))


def test_until_empty_does_not_overlook_a_queue_that_a_chore_has_found_meanwhile(wire: Wire) -> None:
    """A chore refreshes the list of queues between a lease and the look that decides whether there is work left."""
    ran: list[str] = []
    with App(wire.open, log=False) as app:

        @app.task
        async def task() -> None:
            ran.append("task")

        worker = app.worker()

        async def lease(original: Any, *request: Any) -> Any:
            answer = await original(*request)
            leased = answer[1] if isinstance(answer, tuple) else answer
            if ran and not leased.leases:
                wire.hooks.clear()
                await task.using(queue="new").aenqueue()
                await worker._loop.queues.refresh()
            return answer

        wire.hooks |= {"lease": lease, "settle_and_lease": lease}
        task.enqueue()
        worker.run(until_empty=True)
    assert ran == ["task", "task"]


def test_until_empty_ends_at_once_where_there_is_nothing(blocking_app: App) -> None:
    before = time.monotonic()
    blocking_app.worker(poll=60).run(until_empty=True)
    blocking_app.worker(["exact"], poll=60).run(until_empty=True)
    assert time.monotonic() - before < 20


def test_a_worker_runs_in_any_thread(blocking_app: App) -> None:
    @blocking_app.task
    def task() -> int:
        return 1

    job = task.enqueue()
    thread = threading.Thread(target=lambda: blocking_app.worker().run(until_empty=True))
    thread.start()
    thread.join(30)
    assert job.result(timeout=0) == 1


PROGRAM = """
import asyncio, logging, sys, time
from tenure.app import App

logging.basicConfig(level=logging.INFO)

app = App(sys.argv[1])

@app.task
async def waits():
    print("started", flush=True)
    await asyncio.sleep(60)

@app.task
def ignores():
    print("started", flush=True)
    time.sleep(60)

if __name__ == "__main__":
    app.tasks[sys.argv[2]].enqueue()
    app.worker(term_timeout=60).run()
    print("stopped", flush=True)
"""


@contextmanager
def working(tmp_path: Path, task: str) -> Iterator[subprocess.Popen[str]]:
    """A worker in a process of its own that is at work on a job of this task."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(program), f"sqlite:///{tmp_path}/jobs.db", task],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def only_job(app: App) -> JobRecord:
    [job] = await app.ajobs()
    record = (await job.arefresh()).record
    assert record is not None
    return record


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_worker_and_releases_its_jobs(
    tmp_path: Path, signum: signal.Signals
) -> None:  # R26, I18, T13
    with working(tmp_path, "waits") as process:
        process.send_signal(signum)
        output, errors = await asyncio.to_thread(process.communicate, timeout=30)
        assert (process.returncode, output) == (0, "stopped\n"), errors
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    record = await only_job(app)
    assert (record.state, record.attempt, record.losses) == (State.WAITING, 0, 0)
    assert await app.aworkers() == []
    await app.aclose()


async def test_a_second_interrupt_does_not_wait_for_jobs_that_ignore_the_first(tmp_path: Path) -> None:  # F23
    with working(tmp_path, "ignores") as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "stops: SIGINT" not in await asyncio.to_thread(process.stderr.readline):
            assert process.poll() is None
        await asyncio.sleep(1.1)  # one that comes sooner may be the same keystroke by another way
        assert process.poll() is None
        before = time.monotonic()
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.wait, 30)
        assert time.monotonic() - before < 20
        assert process.returncode == 0
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    record = await only_job(app)
    assert (record.state, record.attempt) == (State.WAITING, 0)
    await app.aclose()


async def test_a_loop_that_ends_without_stopping_its_worker_leaves_no_thread(
    make_app: MakeApp, url: str
) -> None:  # I16
    def carelessly() -> None:
        async def main() -> None:
            app = App(url)
            await app.worker().start()
            await asyncio.sleep(0.1)
            await app.aclose()

        asyncio.run(main())

    await asyncio.to_thread(carelessly)
    assert [thread.name for thread in threading.enumerate() if thread.name == "tenure-keeper"] == []
