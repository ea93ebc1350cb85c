"""Suspects of isolated tasks: they harm nobody but themselves, so a worker takes them beside its other jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tenure import App
from tenure.core.job import State
from tenure.errors import JobFailed
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest

from .conftest import MakeApp, Start, Wire, eventually, lose, record_of, whatever_the_store


async def test_a_busy_worker_runs_an_isolated_suspect_at_once_and_another_one_when_it_holds_nothing(
    app: App, store: Store, start: Start
) -> None:  # F6, T1
    finish = asyncio.Event()

    @app.task(isolation="process")
    def isolated() -> int:
        return os.getpid()

    @app.task
    async def suspect() -> bool:
        return finish.is_set()

    @app.task(queue="first")
    async def long() -> None:
        await finish.wait()

    jobs = [await suspect.aenqueue(), await isolated.aenqueue()]
    for job in jobs:
        await lose(store, job.id)
        await lose(store, job.id)
    await app.apause("default")
    held = await long.aenqueue()
    await start(app, "first", "default", concurrency=2, poll=0.1)
    await eventually(lambda: _is(store, held.id, State.RUNNING))
    await app.aresume("default")

    assert await jobs[1].aresult(timeout=20) != os.getpid()
    assert await _is(store, jobs[0].id, State.WAITING)
    assert await _is(store, held.id, State.RUNNING)
    finish.set()
    assert await jobs[0].aresult(timeout=20)


async def test_a_worker_goes_on_taking_jobs_beside_its_isolated_suspects(
    app: App, store: Store, start: Start, tmp_path: Path
) -> None:
    @app.task(isolation="process")
    def isolated(name: str) -> None:
        (tmp_path / name).touch()
        while not (tmp_path / "end").exists():
            time.sleep(0.01)

    @app.task
    async def quick() -> None: ...

    jobs = [await isolated.aenqueue("one"), await isolated.aenqueue("two")]
    for job in jobs:
        await lose(store, job.id)
        await lose(store, job.id)
    ordinary = await quick.aenqueue()
    # It would not look again before the test has failed.
    await start(app, "default", concurrency=3, poll=60)

    await ordinary.aresult(timeout=20)
    await eventually(lambda: (tmp_path / "one").exists() and (tmp_path / "two").exists(), 20)
    (tmp_path / "end").touch()
    for job in jobs:
        await job.aresult(timeout=20)


@whatever_the_store
async def test_an_isolated_suspect_that_kills_its_process_has_failed_and_was_not_lost(
    make_app: MakeApp, store: Store, start: Start
) -> None:
    app = make_app(retry=None)

    @app.task(isolation="process")
    def poison() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    job = await poison.aenqueue()
    await lose(store, job.id)
    await lose(store, job.id)
    await start(app)

    with pytest.raises(JobFailed, match="SIGKILL"):
        await job.aresult(timeout=20)
    record = await record_of(store, job.id)
    assert (record.losses, record.error and record.error.type) == (2, "ChildDied")


@whatever_the_store
async def test_suspects_are_not_leased_ahead(make_app: MakeApp, wire: Wire, start: Start) -> None:
    app = make_app(store=wire.open)
    asked: list[tuple[int, tuple[str, ...]]] = []

    @app.task(isolation="process")
    def isolated() -> None: ...

    @app.task
    async def quick() -> None:
        await asyncio.sleep(0.001)

    async def look(method: Any, settlements: Any, request: LeaseRequest) -> Any:
        asked.append((worker._loop._slots.busy + len(worker._loop._buffer), request.isolated))
        return await method(settlements, request)

    worker = await start(app, concurrency=2)
    wire.hooks["settle_and_lease"] = look
    for _ in range(5):  # on a busy machine quick jobs are slow now and then, and nothing is leased ahead of them
        for job in await quick.aenqueue_many([()] * 100):
            await job.aresult(timeout=20)
        if any(held >= 2 for held, _ in asked):
            break
    else:
        pytest.fail("none was leased ahead: this shows nothing")

    assert [named for held, named in asked] == [(isolated.name,) if held == 1 else () for held, _ in asked]


async def _is(store: Store, job_id: str, state: State) -> bool:
    return (await record_of(store, job_id)).state is state
