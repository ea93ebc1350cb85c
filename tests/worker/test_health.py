"""A worker tells whether it works, from a thread that its jobs cannot block, and what is stuck otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure import Context
from tenure.app import App
from tenure.errors import InvalidOption, StoreUnavailable
from tenure.worker.health import STUCK_SECONDS, WorkerHealth
from tenure.worker.loop_monitor import LoopMonitor
from tenure.worker.outage import Outage
from tenure.worker.worker import Worker
from tests.conftest import KINDS

from .conftest import MakeApp, Start, Wire, eventually

on_memory = pytest.mark.parametrize("url", [KINDS[0]], indirect=True)


def ask(port: int) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/health")
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    return answer.status, body


async def asked(worker: Worker) -> tuple[int, Any]:
    assert worker.health_port is not None
    return await asyncio.to_thread(ask, worker.health_port)


async def test_a_worker_that_works_is_well(app: App, start: Start) -> None:
    worker = await start(app, health_port=0, poll=0.05)
    await eventually(lambda: worker.id)

    assert await asked(worker) == (200, {"status": "ok", "trouble": "", "worker": worker.id})

    await worker.stop()
    assert worker.health_port is None


@on_memory
async def test_a_job_that_blocks_the_loop_is_named(app: App, start: Start) -> None:
    @app.task
    async def blocks() -> None:
        time.sleep(STUCK_SECONDS + 2.0)

    worker = await start(app, health_port=0, poll=0.01, beat=0.05)
    port = worker.health_port
    assert port is not None
    await eventually(lambda: worker.id)
    seen: list[tuple[int, Any]] = []

    def watch() -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end and (not seen or seen[-1][0] == 200):
            seen.append(ask(port))
            time.sleep(0.02)

    watching = asyncio.to_thread(watch)
    job = await blocks.aenqueue()
    await watching

    status, told = seen[-1]
    assert seen[0][0] == 200
    assert (status, told["status"]) == (503, "stuck")
    assert f"job {job.id} of task blocks has blocked the event loop for" in told["trouble"]
    await job.aresult(timeout=10)
    await eventually(lambda: _is_well(worker))

    async def clear() -> bool:
        return [each.trouble for each in await app.aworkers()] == [""]

    await eventually(clear)


async def _is_well(worker: Worker) -> bool:
    return (await asked(worker))[0] == 200


@on_memory
@pytest.mark.parametrize("full", [True, False])
async def test_a_store_that_is_gone_is_named(make_app: MakeApp, wire: Wire, start: Start, full: bool) -> None:
    app = make_app(store=wire.open)
    started, done = asyncio.Event(), asyncio.Event()

    @app.task
    async def task() -> None:
        started.set()
        await done.wait()

    worker = await start(app, "default", health_port=0, poll=0.01, beat=0.05)
    await eventually(lambda: worker.id)
    if full:
        await task.aenqueue()
        await started.wait()

    async def refuse(*_: Any) -> Any:
        raise StoreUnavailable("gone")

    wire.hooks |= dict.fromkeys(("settle_and_lease", "lease", "settle", "beat", "reap", "renew"), refuse)

    async def told() -> Any:
        return (await asked(worker))[1]["trouble"]

    await eventually(told)
    assert (await told()).startswith("the store has been down for")
    wire.hooks.clear()
    done.set()
    await eventually(lambda: _is_well(worker))


@on_memory
async def test_a_port_that_others_use_refuses_the_start(app: App) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        worker = app.worker(health_port=taken.getsockname()[1])
        with pytest.raises(InvalidOption, match="health_port"):
            await worker.start()
    with pytest.raises(InvalidOption, match="health_port"):
        app.worker(health_port=70_000)


@on_memory
async def test_it_is_told_to_this_machine_alone_and_to_nobody_who_says_nothing(app: App, start: Start) -> None:
    worker = await start(app, health_port=0)
    port = worker.health_port
    assert port is not None
    await eventually(lambda: worker.id)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port), timeout=2):
        pass
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000)
    with contextlib.suppress(ConnectionResetError):  # as it is where some of that has not been read
        assert await asyncio.wait_for(reader.read(), 20) == b""
    writer.close()
    idle, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await asyncio.wait_for(idle.read(), 20) == b""
    writer.close()
    assert (await asked(worker))[0] == 200


def test_what_is_said_of_a_worker() -> None:
    outage = Outage("w")
    health = WorkerHealth(outage, poll=1.0)

    def said(*, registered: bool = True, blocked_by: str | None = None) -> str:
        return health.trouble(registered=registered, blocked_by=blocked_by)

    assert said() == ""
    assert said(registered=False) == "it is not registered"
    assert said(blocked_by="job 1") == ""  # for less than is worth mentioning
    health.paused = True
    assert said() == "it is paused"
    health.stopping = True
    assert said() == "it is stopping"
    health.paused = health.stopping = False
    health = WorkerHealth(outage, poll=-1.0)  # a loop that should have come round a second ago
    assert said() == "its loop has made no progress for 0 s"
    outage.failed("beat", StoreUnavailable("gone"))
    assert said() == "the store has been down for 0 s: gone"
    assert said(blocked_by="job 1") == "job 1 has blocked the event loop for 0 s"
    outage.answered("beat")
    assert said() == "its loop has made no progress for 0 s"


def metrics_of(port: int, path: str = "/metrics") -> dict[str, dict[tuple[str, ...], float]]:
    """The samples of a worker, by name and by the values of their labels."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Content-Type", "").partition(";")[0]) == (200, "text/plain")
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(answer.read().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    connection.close()
    return found


async def test_a_worker_shows_what_only_it_knows_as_metrics(make_app: MakeApp, start: Start) -> None:
    app = make_app(lease=1.0)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def task() -> None:
        begun.set()
        await go_on.wait()

    worker = await start(app, health_port=0, poll=0.05)
    assert worker.health_port is not None
    job = await task.aenqueue()
    await begun.wait()
    port = worker.health_port

    async def renewed() -> Any:
        found = await asyncio.to_thread(metrics_of, port)
        return found if found["tenure_worker_renewals_total"]["1",] else None

    found = await eventually(renewed)
    assert found["tenure_worker_busy"] == {("1",): 1.0}
    assert found["tenure_worker_refused_total"] == {("1",): 0.0}
    assert found["tenure_worker_memory_bytes"]["1",] > 10_000_000
    assert 0 <= found["tenure_worker_loop_lag_seconds"]["1",] < 1
    trips, count = found["tenure_worker_round_trip_seconds_bucket"], found["tenure_worker_round_trip_seconds_count"]
    assert count["1",] >= 1
    assert trips["1", "+Inf"] == count["1",]
    assert list(trips.values()) == sorted(trips.values())
    assert 0 < found["tenure_worker_round_trip_seconds_sum"]["1",] < 60
    go_on.set()
    await job.aresult(timeout=10)


@on_memory
async def test_an_end_that_the_store_refuses_is_counted(make_app: MakeApp, start: Start) -> None:
    app = make_app(wakeup=False)  # so that the worker has no time to notice that the job is cancelled

    @app.task
    async def task(ctx: Context) -> None:
        assert await app.acancel(ctx.job.id) == 1

    worker = await start(app, health_port=0, poll=0.05)
    port = worker.health_port
    assert port is not None
    await task.aenqueue()

    async def refused() -> bool:
        return (await asyncio.to_thread(metrics_of, port))["tenure_worker_refused_total"]["1",] == 1

    await eventually(refused)


def test_the_lag_is_that_of_the_last_answer_or_of_the_one_that_is_due() -> None:
    async def look() -> list[float]:
        monitor = LoopMonitor(lambda: None)
        lags = [monitor.lag(time.monotonic())]
        begun = time.monotonic()
        monitor.check("w", begun)
        time.sleep(0.1)
        lags.append(monitor.lag(begun + 0.1))
        await asyncio.sleep(0)
        lags.append(monitor.lag(time.monotonic()))
        lags.append(monitor.lag(time.monotonic() + 60))
        return lags

    idle, waiting, answered, long_ago = asyncio.run(look())

    assert idle == long_ago == 0.0
    assert waiting == pytest.approx(0.1)
    assert answered >= 0.1
