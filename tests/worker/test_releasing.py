"""Running jobs that are released from outside: the worker stops the attempt, and the job runs again as if it had not been leased."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import State
from tenure.core.lease import AbortReason
from tenure.errors import Aborted, WrongState
from tenure.tasks.context import Context
from tests.conftest import KINDS
from tests.worker.test_isolation_ends import alive

from .conftest import Start, eventually

LANES = ("loop", "thread", "process")
SHORT = [*((kind, "loop") for kind in KINDS), ("memory", "thread"), ("memory", "process")]
"""Each store and each lane in every run: a store does not know in which lane a job runs."""


class Lanes:
    """A task for each lane: its first attempt runs until it gets the abort signal, the next one until the first has got it."""

    def __init__(self, app: App, folder: Path) -> None:
        self.began: list[int] = []
        self.reasons: list[AbortReason | None] = []
        self.folder = folder
        attempts = iter(range(1, 10))
        lock, told = threading.Lock(), threading.Event()

        def begin(ctx: Context) -> bool:
            with lock:
                self.began.append(ctx.job.attempt)
                return next(attempts) == 1

        @app.task(lease=60)
        async def loop(ctx: Context) -> str:
            if begin(ctx):
                try:
                    await asyncio.sleep(60)
                finally:
                    self.reasons.append(ctx.signal.reason)
            await eventually(lambda: self.reasons)
            return "done"

        @app.task(lease=60)
        def thread(ctx: Context) -> str:
            if begin(ctx):
                ctx.signal.wait_blocking(60)
                self.reasons.append(ctx.signal.reason)
                told.set()
                return "too late"
            told.wait(30)
            return "done"

        @app.task(lease=60, isolation="process")
        def process(ctx: Context) -> str:
            if (folder / "pid").exists():
                while not (folder / "told").exists():
                    time.sleep(0.005)
                return "done"
            (folder / "new").write_text(str(os.getpid()))
            (folder / "new").rename(folder / "pid")
            try:
                time.sleep(60)
            except Aborted as aborted:
                (folder / "told").write_text(aborted.reason)
                raise
            return "too late"

        self.tasks: dict[str, Any] = {"loop": loop, "thread": thread, "process": process}

    @property
    def running(self) -> Callable[[], bool]:
        return lambda: bool(self.began) or (self.folder / "pid").exists()


@pytest.mark.parametrize(
    ("url", "lane"),
    [
        pytest.param(kind, lane, marks=() if (kind, lane) in SHORT else pytest.mark.long)
        for kind in KINDS
        for lane in LANES
    ],
    indirect=["url"],
)
async def test_a_job_that_is_released_while_it_runs_stops_and_runs_again_as_its_first_attempt(
    app: App, start: Start, tmp_path: Path, lane: str
) -> None:  # W14
    lanes = Lanes(app, tmp_path)
    await start(app, concurrency=2)
    job = await lanes.tasks[lane].aenqueue()
    await eventually(lanes.running)

    await job.arelease()

    assert job.state is State.WAITING
    assert await job.aresult(timeout=30) == "done"
    if lane == "process":
        pid = int((tmp_path / "pid").read_text())
        await eventually(lambda: not alive(pid))
        assert (tmp_path / "told").read_text() == AbortReason.TAKEN
    else:
        await eventually(lambda: lanes.reasons)
        assert lanes.reasons == [AbortReason.TAKEN]
        assert lanes.began == [1, 1]
    record = (await job.arefresh()).record
    assert record is not None
    assert (record.state, record.attempt, record.losses, record.fence) == (State.SUCCEEDED, 1, 0, 2)
    assert record.attempts == ()
    [queue] = await app.aqueues()
    assert (queue.totals.processed, queue.totals.succeeded, queue.totals.lost, queue.totals.retried) == (1, 1, 0, 0)
    with pytest.raises(WrongState, match="is succeeded: this needs a job that is running"):
        await job.arelease()


async def test_a_run_is_released_by_its_id_and_goes_on_in_the_same_step(app: App, start: Start) -> None:
    began: list[str] = []
    flow = app.flow("trip")

    @flow.step(then="second")
    async def first() -> None:
        began.append("first")

    @flow.step
    async def second(ctx: Context) -> str:
        began.append("second")
        if began.count("second") == 1:
            await asyncio.sleep(60)
        return f"attempt {ctx.job.attempt}"

    await start(app)
    run = await flow.astart()
    await eventually(lambda: "second" in began)

    await run.arelease()

    assert await run.aresult(timeout=30) == "attempt 1"
    assert began == ["first", "second", "second"]
