"""`tenure work` with several processes, for tests: what they run, and what a test sees of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tenure import App, Job
from tenure.stores import open_store
from tenure.stores.values import WorkerInfo
from tests.faults.processes import Process, Processes, eventually

__all__ = ["BEGUN", "Service", "alive", "app", "children"]

LOOK = 0.05
"""Seconds between looks: those who are looked at need the processor."""

BEGUN = "a job has begun"

URL, MADE = os.environ.get("SERVICE_URL", "memory://"), os.environ.get("SERVICE_MADE")

app = App((lambda: open_store(URL)) if MADE else URL, lease=60, retry=None)
"""The lease is longer than any test: what comes back sooner was released, or its holder was retired."""


def begin() -> None:
    """Say that a job runs: it is held a moment before."""
    with contextlib.suppress(OSError):  # a terminal may be closed as soon as that has been read there
        print(BEGUN, file=sys.stderr, flush=True)


@app.task
async def nap(seconds: float) -> int:
    begin()
    await asyncio.sleep(seconds)
    return os.getpid()


@app.task
def sleep(seconds: float) -> int:
    """Hears nothing meanwhile."""
    begin()
    time.sleep(seconds)
    return os.getpid()


@app.task(isolation="process")
def isolated(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@app.task
def orphan() -> int:
    """Leaves a grandchild behind, which ends when its parent has ended; its pid."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        parent = os.getpid()
        grandchild = os.fork()
        if not grandchild:
            while os.getppid() == parent:
                time.sleep(0.01)
            os._exit(0)
        os.write(write, str(grandchild).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(read, 20))


class Service:
    """One store, and the supervisors that tests start on it."""

    def __init__(self, url: str, processes: Processes, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.app = App(url)
        self.started = processes

    def start(self, *options: str, target: str = "tests.cli.service:app", made: bool = False) -> Process:
        """Start `tenure work`; of an app whose store is made by a function, so that nobody else can reach it."""
        return self.started.work(target, "-v", *options, SERVICE_URL=self.url, SERVICE_MADE="1" if made else "")

    def enqueue(self, task: str, *arguments: Any, number: int = 1) -> list[Job[Any]]:
        return [self.app.remote(task).enqueue(*arguments) for _ in range(number)]

    def workers(self, number: int) -> list[WorkerInfo]:
        """Wait until so many workers are in the registry."""
        what = lambda: f"{number} workers: {self.started.last_words()}"  # noqa: E731
        eventually(lambda: len(self.app.workers()) == number, what, step=LOOK)
        return self.app.workers()

    def holder(self, job: Job[Any], *, other_than: Sequence[WorkerInfo] = ()) -> WorkerInfo:
        """Wait until somebody runs this job; who."""
        known: list[WorkerInfo] = []

        def held() -> bool:
            record = job.refresh().record
            assert record is not None
            known[:] = [worker for worker in self.app.workers() if record.worker == worker.id]
            return record.state == "running" and bool(known) and known[0].id not in {other.id for other in other_than}

        eventually(held, lambda: f"a holder of {job}: {self.started.last_words()}", step=LOOK)
        return known[0]

    def begun(self, supervisor: Process, number: int) -> None:
        """Wait until so many jobs have begun there, which a job that is held has not: its worker may still give it back."""
        eventually(lambda: supervisor.log.read_text().count(BEGUN) == number, f"{number} jobs", step=LOOK)


def children(pid: int) -> set[int]:
    """The processes that a process has started."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def alive(pid: int) -> bool:
    """Whether there is such a process; one that nobody has waited for is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
