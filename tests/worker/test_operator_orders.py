"""Orders of operators: a worker obeys them with its next beat."""

from __future__ import annotations

import asyncio

import pytest

from tenure import App
from tenure.errors import InvalidName, InvalidOption
from tenure.stores.values import Order
from tenure.worker.worker import Status, Worker

from .conftest import Start, eventually, whatever_the_store


async def registered(app: App, start: Start) -> tuple[Worker, str]:
    """A worker, and its id in the registry."""
    worker = await start(app, beat=0.05)
    name: str = await eventually(lambda: worker.id)
    return worker, name


async def test_a_quiet_worker_leases_no_job_until_it_may_go_on(app: App, start: Start) -> None:
    @app.task
    async def noop() -> None: ...

    worker, name = await registered(app, start)
    await (await noop.aenqueue()).aresult(timeout=10)

    assert await app.aorder(name, "quiet")
    await eventually(lambda: worker._loop.paused)
    job = await noop.aenqueue()
    await asyncio.sleep(0.3)
    [info] = await app.aworkers()
    assert (info.order, info.trouble) == (Order.QUIET, "it is paused")
    assert (await app.ajob(job.id)).state == "waiting"

    assert await app.aorder(name, Order.GO_ON)
    await job.aresult(timeout=10)
    assert not worker._loop.paused


async def test_a_worker_that_is_told_to_stop_finishes_its_jobs_first(app: App, start: Start) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    worker, name = await registered(app, start)
    running = await slow.aenqueue()
    await begun.wait()

    assert await app.aorder(name, "stop")
    await eventually(lambda: worker.status is Status.STOPPING)
    waiting = await slow.aenqueue()
    go_on.set()

    assert await running.aresult(timeout=10) == "done"
    await eventually(lambda: worker.status is Status.STOPPED)
    assert await app.aworkers() == []
    assert (await app.ajob(waiting.id)).state == "waiting"


@whatever_the_store
async def test_an_order_that_stands_does_not_undo_a_pause(app: App, start: Start) -> None:
    worker = await start(app, beat=0.05)
    await worker.pause()
    await asyncio.sleep(0.3)

    assert worker._loop.paused


@whatever_the_store
async def test_a_worker_that_was_retired_registers_without_its_order(app: App, start: Start) -> None:
    worker, before = await registered(app, start)
    await app.aorder(before, "quiet")
    await eventually(lambda: worker._loop.paused)

    await app.aretire(before)

    await eventually(lambda: worker.id not in {None, before} and not worker._loop.paused)
    [info] = await app.aworkers()
    assert (info.id, info.order) == (worker.id, Order.GO_ON)


@whatever_the_store
async def test_orders_are_checked(app: App) -> None:
    assert not await app.aorder("nobody", "quiet")
    with pytest.raises(InvalidOption, match="order must be one of go_on, quiet, stop, not 'halt'"):
        await app.aorder("nobody", "halt")  # type: ignore[arg-type]
    with pytest.raises(InvalidName):
        await app.aorder("no body", "quiet")
