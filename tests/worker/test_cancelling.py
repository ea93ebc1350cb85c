"""Running jobs that are cancelled hear of it within a second, whatever became of the signal."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis

from tenure.app import App
from tenure.core.job import State
from tenure.core.lease import AbortReason
from tenure.tasks.context import Context
from tests.faults.scale import lengths

from .conftest import MakeApp, Start, eventually

SOON = 1.0
"""Seconds within which a running job hears that it is cancelled; a machine that is busy with other things takes up to three times that."""


class Jobs:
    """Tasks that run until they are told to stop, and when they were."""

    def __init__(self, app: App) -> None:
        self.started = 0
        self.stopped: list[float] = []
        self.reasons: list[AbortReason | None] = []

        @app.task(lease=60)
        async def on_the_loop(ctx: Context, number: int) -> None:
            self.started += 1
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self._stop(ctx)
                raise

        @app.task(lease=60)
        def in_a_thread(ctx: Context, number: int) -> None:
            self.started += 1
            ctx.signal.wait_blocking(60)
            self._stop(ctx)

        self.on_the_loop, self.in_a_thread = on_the_loop, in_a_thread
        self._lock = threading.Lock()

    def _stop(self, ctx: Context) -> None:
        with self._lock:
            self.stopped.append(time.monotonic())
            self.reasons.append(ctx.signal.reason)


@pytest.mark.parametrize("wakeup", [True, False], ids=["signals", "polling"])
@pytest.mark.parametrize("times", lengths(1, 10))
async def test_running_jobs_that_are_cancelled_in_bulk_stop_within_a_second(
    make_app: MakeApp, start: Start, wakeup: bool, times: int
) -> None:  # W18, T14
    app = make_app(wakeup=wakeup)
    jobs = Jobs(app)
    await start(app, concurrency=8, poll=0.1)
    for turn in range(1, times + 1):
        for number in (1, 1, 1, 2):
            await jobs.on_the_loop.aenqueue(number)
            await jobs.in_a_thread.aenqueue(number)
        await eventually(lambda: jobs.started == 8 * turn)  # noqa: B023

        asked = time.monotonic()
        assert await app.acancel(jobs.on_the_loop.bind(1)) == 3
        assert await app.acancel(task=jobs.in_a_thread) == 4
        assert await app.acancel(queue="default", state="running") == 1
        done = time.monotonic()
        await eventually(lambda: len(jobs.stopped) == 8 * turn)  # noqa: B023

        assert max(jobs.stopped) - (asked if times == 1 else done) < SOON * (3 if times == 1 else 1)
        assert set(jobs.reasons) == {AbortReason.CANCELLED}
    assert len(await app.ajobs(state=State.CANCELLED)) == min(8 * times, 50)


async def _cut_the_listener(url: str) -> None:
    """The worker begins to listen beside everything else, maybe after its first job."""
    if url.startswith("redis"):
        with redis.Redis.from_url(url.partition("?")[0]) as client:
            await eventually(lambda: client.execute_command("CLIENT", "KILL", "TYPE", "pubsub"))
        return
    server = await asyncpg.connect(url.partition("?")[0])
    listening = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'"
    await eventually(lambda: server.fetch(listening))
    await server.close()


@pytest.mark.parametrize("url", ["redis", "postgres"], indirect=True)
async def test_a_cancellation_is_noticed_although_its_signal_was_lost(app: App, url: str, start: Start) -> None:
    # I11: hints may be lost
    jobs = Jobs(app)
    await start(app)
    job = await jobs.on_the_loop.aenqueue(1)
    await eventually(lambda: jobs.started == 1)

    await _cut_the_listener(url)
    asked = time.monotonic()
    await job.acancel()

    await eventually(lambda: jobs.stopped)
    assert jobs.stopped[0] - asked < 3 * SOON


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_where_no_notification_comes_through_running_jobs_are_asked_for(
    make_app: MakeApp, url: str, start: Start
) -> None:
    app = make_app(store=f"{url}{'&' if '?' in url else '?'}pooled=true")
    jobs = Jobs(app)
    await start(app)
    job: Any = await jobs.on_the_loop.aenqueue(1)
    await eventually(lambda: jobs.started == 1)

    asked = time.monotonic()
    await job.acancel()

    await eventually(lambda: jobs.stopped)
    assert jobs.stopped[0] - asked < 3 * SOON
