"""A network that fails between Tenure and a PostgreSQL: answers that are lost, connections that are silent, cut or slow (F16)."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tenure import App
from tenure.errors import OutcomeUnknown
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.stores.postgres import subscription
from tenure.stores.postgres.store import PostgresStore
from tenure.testing.conformance.run_scene import a_start, hand_over
from tenure.testing.conformance.scene import a_job, assert_counters_equal_a_recount, enqueue, lease_one, record
from tests.servers.postgres import SHARED, Postgres
from tests.servers.proxy import Proxy, proxied
from tests.servers.schema import Schema

from .calls import CALLS, Scene, a_request, a_scene, after, states
from .cluster import Cluster
from .network import LEASE, after_a_lost_lease, failing
from .scale import lengths

EXECUTE = b"E\x00\x00\x00\x09\x00\x00\x00\x00\x00S\x00\x00\x00\x04"
"""How the driver ends the request that has a statement done, and not only prepared."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    server = Postgres(*SHARED).start()
    yield server
    server.remove()


@pytest.fixture
def proxy(server: Postgres) -> Iterator[Proxy]:
    with proxied(server.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def schema(server: Postgres) -> Schema:
    return Schema(server.url)


@pytest.fixture
def near(schema: Schema) -> Iterator[str]:
    """The store, past the network."""
    yield schema.url
    schema.empty()


@pytest.fixture
def url(near: str, server: Postgres, proxy: Proxy) -> str:
    """The store behind the network, which is not waited for long."""
    return f"{near.replace(str(server.port), str(proxy.port))}&timeout=1&connect_timeout=1"


@pytest.fixture(params=[False, True], ids=["direct", "pooled"])
async def scene(url: str, schema: Schema, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    store = open_store(f"{url}&pooled=true" if request.param else url)

    async def put_in(queue: str, entry: bytes) -> None:
        schema.do(f"INSERT INTO {schema.name}.inbox (queue, entry) VALUES (%s, %s)", queue, entry.decode())

    yield await a_scene(store, put_in)
    await store.close()


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_whose_answer_is_lost_may_be_made_again(
    scene: Scene, proxy: Proxy, name: str, request: pytest.FixtureRequest
) -> None:  # F16, I19
    call, before = CALLS[name], await states(scene)
    pooled = request.node.callspec.params["scene"]
    proxy.lose_reply(
        to=b"COMMIT;" if pooled else EXECUTE, after=name in ("take_in", "prune")
    )  # they look, or count, first

    with pytest.raises(OutcomeUnknown):
        await call.ask(scene)
    answer = await call.ask(scene)

    assert proxy.lost.is_set()
    assert call.again(answer)
    assert await states(scene) == after(call, before)
    await assert_counters_equal_a_recount(scene.store)


@pytest.mark.parametrize("scene", [False], indirect=True)
async def test_a_job_whose_lease_was_lost_on_the_way_comes_back(scene: Scene, proxy: Proxy) -> None:  # F16, I4, I7
    proxy.lose_reply(to=EXECUTE)
    with pytest.raises(OutcomeUnknown):
        await scene.store.lease(a_request(ttl=0.1))

    async with asyncio.timeout(5):
        while not await scene.store.reap(["q"]):
            await asyncio.sleep(0.02)

    again = await lease_one(scene.store)
    assert (again.job.id, again.token.fence) == ("waiting", 2)
    assert (await record(scene.store, "waiting")).losses == 1


async def test_a_worker_gives_back_what_it_was_given_in_an_answer_that_was_lost(url: str, proxy: Proxy) -> None:
    # F16, I1: lost three times so, it would have failed without ever having started
    async with App(url) as app:
        job = await after_a_lost_lease(app, proxy, struct.pack("!d", LEASE))

    assert (job.attempt, job.losses, job.fence) == (1, 0, 2)


@pytest.mark.parametrize("scene", [True], indirect=True)
async def test_a_transaction_that_was_cut_off_before_its_commit_is_done_again(
    scene: Scene, proxy: Proxy
) -> None:  # F16
    proxy.lose_reply(to=EXECUTE)

    leased = (await scene.store.lease(a_request())).leases
    assert proxy.lost.is_set()
    async with asyncio.timeout(20):
        while not leased:  # until the server has undone it the job is locked, and is passed over
            leased = (await scene.store.lease(a_request())).leases
    assert [(each.job.id, each.token.fence) for each in leased] == [("waiting", 1)]


async def test_no_answer_is_waited_for_longer_than_the_timeout(store: Store, proxy: Proxy) -> None:  # F16
    await store.open()
    for fail in (proxy.blackhole, lambda: setattr(proxy, "drip", 0.5)):
        await store.queues()
        fail()
        began = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await store.wait_for_work(["q"], 30)
        assert time.monotonic() - began < 4
        proxy.heal()
    # What still drips on the old connections has met no other call.
    assert [queue.name for queue in await store.queues()] == []


def test_work_that_comes_while_all_connections_are_silent_is_found(
    cluster: Cluster, near: str, proxy: Proxy
) -> None:  # F16, I11
    cluster.enqueue("quick", 1)
    cluster.worker()
    cluster.wait_for_end()

    proxy.deafen()
    began = time.monotonic()
    with App(near) as past_the_network:
        job = past_the_network.remote("quick").enqueue(7)
        assert job.result(timeout=20) == 7

    assert time.monotonic() - began < 6, "a timeout, a pause and a look"


async def test_an_ear_that_has_gone_deaf_costs_some_seconds_and_is_noticed(
    url: str, near: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:  # F14, I11
    monkeypatch.setattr(subscription, "SILENCE", 2.0)
    async with asyncio.timeout(30):
        store, other = PostgresStore.from_url(url), PostgresStore.from_url(near)
        await store.wait_for_work(["q"], 0.01)
        waiting = asyncio.create_task(store.wait_for_work(["q"], 20))
        await asyncio.sleep(0.3)  # until it has looked twice, and leaves work that comes to whoever is woken

        heard = store.announcement_epoch
        proxy.deafen(who_said=b"LISTEN")
        began = time.monotonic()
        await enqueue(other, a_job())
        await waiting
        assert 0.2 < time.monotonic() - began < 4, (
            "by the look that it takes every three seconds; workers poll beside it"
        )
        await lease_one(other)

        while store.announcement_epoch in (0, heard):
            await asyncio.sleep(0.02)
        assert time.monotonic() - began < 2.0 + 1.0 + 2.0, "the silence, the timeout of the question, and some"
        waiting = asyncio.create_task(store.wait_for_work(["q"], 20))
        await asyncio.sleep(0.3)
        began = time.monotonic()
        await enqueue(other, a_job())
        await waiting
        assert time.monotonic() - began < 2, "by a notification again: the next look comes later"
        await store.close()
        await other.close()


@pytest.mark.parametrize("seconds", lengths(4, 60))
def test_a_network_that_fails_all_the_time_costs_time_and_nothing_else(
    cluster: Cluster, proxy: Proxy, seconds: int
) -> None:  # F16, I1, I2, I5, I6
    cluster.enqueue("quick", 1)
    for _ in range(2):
        cluster.worker("-c", "3", lease=10)  # most often longer than it takes to be connected again
    cluster.wait_for_end()
    with failing(proxy, EXECUTE, random.Random(seconds)):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                cluster.enqueue("quick", 1, number=10)
                cluster.enqueue("nap", 0.01, number=3)
            except OutcomeUnknown:
                pass  # it is on record
            time.sleep(0.1)  # retention keeps ten thousand finished jobs, and all of these must be there in the end
    cluster.wait_for_answers()

    records = cluster.wait_for_end(timeout=60)

    assert len(records) > 2 * seconds
    assert [each for each in records.values() if each.state != "succeeded"] == []
    assert cluster.violations(ordered=False) == []


async def test_large_attributes_do_not_travel_to_steps_that_do_not_read_them(url: str, proxy: Proxy) -> None:  # G18
    big = '"' + "x" * 100_000 + '"'
    store = open_store(url)
    [run_id] = await enqueue(store, a_start({"big": big, "small": "1"}, reads=("small",)))
    await hand_over(
        store, await lease_one(store), reads=("small",)
    )  # what is asked for the first time is prepared first
    before = proxy.passed

    for _ in range(5):
        await hand_over(store, await lease_one(store), reads=("small",))

    assert proxy.passed - before < 50_000
    assert await store.attributes(run_id, ["big"]) == {"big": big}
    assert proxy.passed - before > 100_000  # it counts what passes
    await store.close()
