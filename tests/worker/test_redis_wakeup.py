"""Many idle workers on one Redis: a new job wakes one of them, not all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.worker.conftest import MakeApp, Start, Wire, eventually

WORKERS = 100
JOBS = 100


@pytest.fixture
def url(redis_url: str) -> str:
    return redis_url


@pytest.mark.parametrize("pattern", ["default", "*"])
async def test_a_new_job_wakes_one_of_a_hundred_idle_workers(
    make_app: MakeApp, wire: Wire, start: Start, pattern: str
) -> None:
    app = make_app(store=wire.open)

    @app.task
    async def quick() -> None:
        pass

    idle: set[object] = set()

    async def wait_for_work(method: Any, *args: Any, **kwargs: Any) -> Any:
        idle.add(method.__self__)
        try:
            return await method(*args, **kwargs)
        finally:
            idle.discard(method.__self__)

    wire.hooks["wait_for_work"] = wait_for_work
    await quick.aenqueue()
    for _ in range(WORKERS):
        await start(app, pattern, poll=60, reap=False, beat=5)
    await eventually(lambda: len(idle) == WORKERS, within=30)
    await asyncio.sleep(0.5)
    before = len(wire.calls["settle_and_lease"])

    for _ in range(JOBS):
        job = await quick.aenqueue()
        await job.aresult(timeout=10)

    leases = len(wire.calls["settle_and_lease"]) - before
    # Two each, and those of workers that looked for queues meanwhile: more on a slow machine. Waking all would take 100 each.
    assert leases <= 5 * JOBS
