"""A PostgreSQL that is stopped, absent or full of old rows, or whose connections are ended, shared or few, under workers that
go on (F14, F17).
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure import App, Context
from tests.servers.postgres import Pooler, Postgres
from tests.servers.proxy import proxied

from .absence import ridden_out
from .cluster import Cluster
from .processes import eventually
from .producer import Producer
from .scale import lengths


@pytest.fixture
def server() -> Iterator[Postgres]:
    """One that syncs to disk, as servers do."""
    server = Postgres("-c", "max_connections=400", "-c", "shared_buffers=64MB").start()
    yield server
    server.remove()


@pytest.fixture
def url(server: Postgres) -> str:
    return f"{server.url}?timeout=2"


async def do(server: Postgres, statement: str) -> Any:
    connection = await asyncpg.connect(server.url)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@pytest.mark.parametrize("kills", lengths(2, 20))
def test_nothing_acknowledged_is_lost_when_the_server_is_stopped_at_once(
    cluster: Cluster, server: Postgres, kills: int
) -> None:  # F14, I1, I2, I6, I19
    chance = random.Random(kills)
    for _ in range(2):
        cluster.worker("-c", "3")
    producer = Producer(cluster)
    for _ in range(kills):
        time.sleep(chance.uniform(0.5, 1))  # the instant of the kill is what the test is about
        server.stop(signal.SIGQUIT)
        time.sleep(chance.uniform(0, 0.5))
        server.start()
    eventually(lambda: producer.enqueued > kills, "some jobs")  # a busy machine may have been slow until now
    producer.stop()

    records = cluster.wait_for_end(timeout=60)

    assert len(records) > kills
    assert {record.state for record in records.values()} == {"succeeded"}
    assert cluster.violations(ordered=False) == []


@pytest.mark.parametrize("rounds", lengths(15, 300))
def test_connections_that_are_ended_again_and_again_cost_time_and_nothing_else(
    cluster: Cluster, server: Postgres, rounds: int
) -> None:  # F14, I1, I6
    chance = random.Random(rounds)
    cluster.enqueue("quick", 1)
    workers = [cluster.worker("-c", "3") for _ in range(2)]
    cluster.wait_for_end()
    producer = Producer(cluster)
    for _ in range(rounds):
        time.sleep(chance.uniform(0, 0.3))
        asyncio.run(do(server, END_OTHERS))
    producer.stop()

    records = cluster.wait_for_end(timeout=60)

    assert {record.state for record in records.values()} == {"succeeded"}
    assert not any(worker.ended for worker in workers)
    assert cluster.violations(ordered=False) == []


async def test_workers_that_start_before_the_server_work_once_it_is_there(server: Postgres) -> None:  # F14, F17
    server.stop()
    app = App(f"{server.url}?timeout=2")

    @app.task
    async def quick() -> int:
        return 7

    workers = [app.worker() for _ in range(50)]
    starting = [asyncio.create_task(worker.start()) for worker in workers]
    await asyncio.sleep(1)  # for all to have tried, and more than once
    await asyncio.to_thread(server.start)

    async with asyncio.timeout(40):
        await asyncio.gather(*starting)
        assert await (await quick.aenqueue()).aresult(timeout=20) == 7
        while len(await app.aworkers()) < 50:
            await asyncio.sleep(0.1)
    await asyncio.gather(*(worker.stop() for worker in workers))
    await app.aclose()


@pytest.mark.parametrize("seconds", lengths(4, 30))
async def test_fifty_workers_ride_out_the_absence_of_the_server(
    server: Postgres, caplog: pytest.LogCaptureFixture, seconds: int
) -> None:  # F17, I11
    with proxied(server.port) as proxy:
        url = f"{server.url.replace(str(server.port), str(proxy.port))}?timeout=2"
        await ridden_out(url, proxy, partial(server.stop, signal.SIGQUIT), server.start, caplog, seconds)


class TestBehindAPooler:
    """pgbouncer with two connections for everybody, each transaction on another."""

    @pytest.fixture
    def pooler(self, server: Postgres) -> Iterator[Pooler]:
        pooler = Pooler(server.url)
        yield pooler
        pooler.remove()

    @pytest.fixture
    def url(self, pooler: Pooler) -> str:
        return f"{pooler.url}?pooled=true&timeout=5"

    def test_workers_share_its_connections_whatever_becomes_of_them(
        self, cluster: Cluster, server: Postgres
    ) -> None:  # F14, I1, I6
        chance = random.Random(1)
        cluster.enqueue("quick", 1)
        for _ in range(2):
            cluster.worker("-c", "3")
        cluster.wait_for_end()
        producer = Producer(cluster)
        for _ in range(5):
            time.sleep(chance.uniform(0, 0.5))
            asyncio.run(do(server, END_OTHERS))
        producer.stop()

        records = cluster.wait_for_end(timeout=60)

        assert {record.state for record in records.values()} == {"succeeded"}
        assert cluster.violations(ordered=False) == []


async def test_ten_slots_need_no_more_than_two_connections(server: Postgres) -> None:  # F14, I7, I12
    app = App(f"{server.url}?connections=2&timeout=30", lease=2)
    held = asyncio.Semaphore(0)
    over = asyncio.Event()

    @app.task
    async def hold(ctx: Context) -> None:
        """Keeps a connection of those for jobs to itself."""
        async with ctx.complete() as tx:
            await tx.execute("SELECT 1")
            held.release()
            await over.wait()

    @app.task
    async def nap() -> None:
        await asyncio.sleep(4)

    @app.task
    async def quick() -> int:
        return 7

    async with app.worker(concurrency=10):
        jobs = [*await hold.aenqueue_many([()] * 3), *await nap.aenqueue_many([()] * 5)]
        try:
            for _ in range(2):
                await held.acquire()
            began = time.monotonic()
            while time.monotonic() - began < 5:  # two leases and a half
                assert await (await quick.aenqueue()).aresult(timeout=10) == 7
            [worker] = await app.aworkers()
            assert worker.silent_for < 10
        finally:
            over.set()
        for job in jobs:
            await job.aresult(timeout=20)

    ends = {(job.state, job.record and job.record.attempt, job.record and job.record.losses) for job in jobs}
    assert ends == {("succeeded", 1, 0)}
    await app.aclose()
