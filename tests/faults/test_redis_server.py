"""A Redis that is killed, emptied, filled, paused or away, under workers that go on (F13, F17)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.errors import JobNotFound, StoreError, StoreFull
from tenure.stores import open_store
from tests.servers.proxy import proxied
from tests.servers.server import Server

from .absence import ridden_out
from .cluster import Cluster
from .processes import eventually
from .producer import Producer
from .scale import lengths

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "redis", *DURABLE).start()
    yield server
    server.kill()


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url}?timeout=2"


@pytest.mark.parametrize("kills", lengths(2, 20))
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    cluster: Cluster, server: Server, kills: int
) -> None:  # F13, I1, I2, I6, I19
    chance = random.Random(kills)
    for _ in range(2):
        cluster.worker("-c", "3")
    producer = Producer(cluster)
    for _ in range(kills):
        time.sleep(chance.uniform(0.5, 1))  # the instant of the kill is what the test is about
        server.kill()
        time.sleep(chance.uniform(0, 0.5))
        server.start()
    eventually(lambda: producer.enqueued > 50 * kills, "some jobs")  # a busy machine may have been slow until now
    producer.stop()

    records = cluster.wait_for_end(timeout=60)

    assert len(records) > 50 * kills
    assert {record.state for record in records.values()} == {"succeeded"}
    assert cluster.violations() == []


@pytest.mark.parametrize("rounds", lengths(10, 200))
def test_flushed_scripts_killed_connections_and_pauses_cost_time_and_nothing_else(
    cluster: Cluster, server: Server, rounds: int
) -> None:  # F13, I1, I6
    chance = random.Random(rounds)
    workers = [cluster.worker("-c", "3") for _ in range(2)]
    producer = Producer(cluster)
    for _ in range(rounds):
        time.sleep(chance.uniform(0, 0.3))
        for trouble in (
            ("SCRIPT", "FLUSH"),
            ("CLIENT", "KILL", "TYPE", "normal"),
            ("CLIENT", "KILL", "TYPE", "pubsub"),
            ("CLIENT", "PAUSE", "100"),
        ):
            if chance.random() < 0.5:
                server.do(*trouble)
    producer.stop()

    records = cluster.wait_for_end(timeout=60)

    assert {record.state for record in records.values()} == {"succeeded"}
    assert not any(worker.ended for worker in workers)
    assert cluster.violations() == []


def test_workers_go_on_when_everything_is_deleted(cluster: Cluster, server: Server) -> None:  # F13
    naps = cluster.enqueue("nap", 1, number=2)
    workers = [cluster.worker("-c", "1") for _ in range(2)]
    for nap in naps:
        cluster.wait_for_start(nap)

    server.do("FLUSHALL")

    eventually(lambda: len(cluster.app.workers()) == 2, "workers that register again")
    after = cluster.enqueue("nap", 0.2, number=10)
    assert {job.result(timeout=10) for job in after} == {str(worker.pid) for worker in workers}
    for nap in naps:
        with pytest.raises(JobNotFound):
            nap.refresh()


def test_a_full_server_is_drained_and_takes_jobs_again(cluster: Cluster, server: Server) -> None:  # F13, I19
    task = cluster.app.tasks["quick"].using(keep=0, tags=["x" * 100] * 20)
    used = server.client().info("memory")["used_memory"]
    server.do("CONFIG", "SET", "maxmemory", used + 3_000_000)
    stored = 0
    with pytest.raises(StoreFull, match="maxmemory"):
        for _ in range(10_000):
            stored += len(task.enqueue_many([(1,)] * 20))
    assert stored > 100

    cluster.worker("-c", "5")

    eventually(lambda: sum(queue.waiting + queue.running for queue in cluster.app.queues()) == 0, "an empty queue")
    assert cluster.app.stats().totals.succeeded == stored
    eventually(lambda: _enqueued(cluster), "room for another job")


def _enqueued(cluster: Cluster) -> bool:
    try:
        cluster.enqueue("quick", 1)
    except StoreFull:
        return False
    return True


async def test_a_server_that_may_evict_jobs_is_refused_unless_that_is_wanted(server: Server) -> None:  # F13
    server.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    store = open_store(server.url)
    with pytest.raises(StoreError, match=r"allkeys-lru.*noeviction.*any_eviction=true"):
        await store.open()
    await store.close()

    willing = open_store(f"{server.url}?any_eviction=true")
    await willing.open()
    await willing.close()


@pytest.mark.parametrize("seconds", lengths(4, 30))
async def test_fifty_workers_ride_out_the_absence_of_the_server(
    server: Server, caplog: pytest.LogCaptureFixture, seconds: int
) -> None:  # F17, I11
    with proxied(server.port) as proxy:
        await ridden_out(f"redis://127.0.0.1:{proxy.port}?timeout=2", proxy, server.kill, server.start, caplog, seconds)
