"""A network that fails between Tenure and a Redis: answers that are lost, connections that are silent, cut or slow (F16)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import App
from tenure.core.job import State
from tenure.errors import OutcomeUnknown
from tenure.stores.base import Store
from tenure.stores.redis.keys import Keys
from tenure.stores.redis.scripts import scripts
from tenure.testing.conformance.scene import a_job, assert_counters_equal_a_recount, lease_one, record
from tests.servers.proxy import Proxy, proxied
from tests.servers.server import Server

from .calls import CALLS, Call, Scene, a_request, a_scene, after, states
from .cluster import Cluster
from .network import LEASE, after_a_lost_lease, failing
from .processes import eventually
from .scale import lengths


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "redis").start()
    yield server
    server.kill()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with proxied(server.port) as proxy:
        yield proxy


@pytest.fixture
def url(proxy: Proxy) -> str:
    """The store behind the network, which is not waited for long."""
    return f"redis://127.0.0.1:{proxy.port}?timeout=1&connect_timeout=1"


@pytest.fixture
def loaded(server: Server) -> None:
    """Every script is known to the server, so that each request is the one that does what is asked."""
    for script in scripts.values():
        server.do("SCRIPT", "LOAD", script.source)


@pytest.fixture
async def scene(store: Store, server: Server, loaded: None) -> Scene:
    async def put_in(queue: str, entry: bytes) -> None:
        server.do("RPUSH", Keys("tenure").inbox(queue), entry)

    return await a_scene(store, put_in)


HERE = CALLS | {
    "enqueue_now": Call(
        lambda scene: asyncio.to_thread(scene.store.enqueue_now, [a_job(id="new")]),
        lambda answers: [answer.id for answer in answers] == ["new"],
        {"new": State.WAITING},
    ),
}


@pytest.mark.parametrize("name", HERE)
async def test_a_call_whose_answer_is_lost_may_be_made_again(scene: Scene, proxy: Proxy, name: str) -> None:  # F16
    call, before = HERE[name], await states(scene)
    proxy.lose_reply(to=b"LRANGE" if name == "marks" else b"EVALSHA")

    try:
        answer = await call.ask(scene)
    except OutcomeUnknown:
        answer = await call.ask(scene)
    else:
        assert name.startswith("enqueue"), "nobody else makes a call again unasked"

    assert proxy.lost.is_set()
    assert call.again(answer)
    assert await states(scene) == after(call, before)
    await assert_counters_equal_a_recount(scene.store)


async def test_a_job_whose_lease_was_lost_on_the_way_comes_back(scene: Scene, proxy: Proxy) -> None:  # F16, I4, I7
    proxy.lose_reply(to=b"EVALSHA")
    with pytest.raises(OutcomeUnknown):
        await scene.store.lease(a_request(ttl=0.1))

    async with asyncio.timeout(5):
        while not await scene.store.reap(["q"]):
            await asyncio.sleep(0.02)

    again = await lease_one(scene.store)
    assert (again.job.id, again.token.fence) == ("waiting", 2)
    assert (await record(scene.store, "waiting")).losses == 1


@pytest.mark.usefixtures("loaded")
async def test_a_worker_gives_back_what_it_was_given_in_an_answer_that_was_lost(url: str, proxy: Proxy) -> None:
    # F16, I1: lost three times so, it would have failed without ever having started
    async with App(url) as app:
        job = await after_a_lost_lease(app, proxy, repr(LEASE).encode())

    assert (job.attempt, job.losses, job.fence) == (1, 0, 2)


def test_work_that_comes_while_all_connections_are_silent_is_found(
    cluster: Cluster, server: Server, proxy: Proxy
) -> None:  # F16, I11
    cluster.enqueue("quick", 1)
    cluster.worker()
    cluster.wait_for_end()
    eventually(lambda: b" cmd=blpop " in server.do("CLIENT", "LIST"), "a worker that waits for work")

    proxy.deafen()
    began = time.monotonic()
    with App(server.url) as past_the_network:
        job = past_the_network.remote("quick").enqueue(7)
        assert job.result(timeout=20) == 7

    assert time.monotonic() - began < 6, "a timeout, a pause and a look"


async def test_a_waiting_call_notices_that_nobody_is_there(store: Store, proxy: Proxy) -> None:  # F16
    await store.wait_for_work(["q"], 0.01)
    proxy.blackhole()
    began = time.monotonic()

    with pytest.raises(OutcomeUnknown):
        await store.wait_for_work(["q"], 0.5)

    assert time.monotonic() - began < 4


@pytest.mark.parametrize("seconds", lengths(4, 60))
def test_a_network_that_fails_all_the_time_costs_time_and_nothing_else(
    cluster: Cluster, proxy: Proxy, seconds: int
) -> None:  # F16, I1, I2, I5, I6
    for _ in range(2):
        cluster.worker("-c", "3", lease=10)  # longer than the network fails at a stretch
    with failing(proxy, b"EVALSHA", random.Random(seconds)):
        enqueued = 0
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or enqueued <= 20 * seconds:
            try:
                enqueued += len(cluster.enqueue("quick", 1, number=10))
                enqueued += len(cluster.enqueue("nap", 0.01, number=3))
            except OutcomeUnknown:
                pass  # it is on record
            time.sleep(0.1)  # retention keeps ten thousand finished jobs, and all of these must be there in the end
    cluster.wait_for_answers()

    records = cluster.wait_for_end(timeout=60)

    assert len(records) > 20 * seconds
    assert [each for each in records.values() if each.state != "succeeded" or each.losses] == []
    assert cluster.violations() == []
