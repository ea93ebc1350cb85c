"""A master that moves: clusters and sentinels, real ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.stores.redis import link as link_module
from tenure.stores.redis.address import Address
from tenure.stores.redis.link import Link
from tenure.stores.redis.store import RedisStore
from tests.servers.server import Server
from tests.servers.topologies import Cluster, Watched, eventually

from .scripts import a_script

SLOT = key_slot(b"{tenure}")
KEYS = [f"tenure:{{tenure}}:{name}" for name in ("counter", "other")]

COUNT = a_script("redis.call('SET', KEYS[2], 'here') return redis.call('INCR', KEYS[1])")

Run = Callable[[], Awaitable[Any]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, masters=3)
    yield cluster
    cluster.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    watched.close()


@pytest.fixture
async def links() -> AsyncIterator[list[Link]]:
    links: list[Link] = []
    yield links
    for link in links:
        await link.close()


def both_ways(url: str, links: list[Link]) -> tuple[Run, Run]:
    """The same link from its loop, and another from a thread without one."""
    links += [Link(Address.from_url(url), KEYS) for _ in range(2)]
    on_loop, in_thread = links[-2:]
    return lambda: on_loop.run_script(COUNT, []), lambda: asyncio.to_thread(in_thread.run_script_now, COUNT, [])


async def soon(run: Run, within: float = 20.0) -> Any:
    """Do it again until it is done, as workers do."""
    async with asyncio.timeout(within):
        while True:
            try:
                return await run()
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(0.05)


async def test_any_node_of_a_cluster_leads_to_the_master_of_the_slot(cluster: Cluster, links: list[Link]) -> None:
    for node in cluster.nodes:
        run, run_now = both_ways(f"redis+cluster://127.0.0.1:{node.port}", links)
        await run()
        await run_now()

    assert cluster.holder_of(SLOT).do("GET", KEYS[0]) == b"6"


async def test_a_node_that_is_down_is_passed_over(cluster: Cluster, links: list[Link]) -> None:
    holder = cluster.holder_of(SLOT)
    down, up = (node for node in cluster.nodes if node is not holder)
    down.kill()

    for run in both_ways(f"redis+cluster://127.0.0.1:{down.port},127.0.0.1:{up.port}", links):
        await run()

    assert holder.do("GET", KEYS[0]) == b"2"


async def test_a_slot_that_moves_is_followed_and_no_script_runs_while_it_does(
    cluster: Cluster, links: list[Link]
) -> None:
    runs = both_ways(cluster.url, links)
    for run in runs:
        await run()
    source = cluster.holder_of(SLOT)
    target = next(node for node in cluster.nodes if node is not source)

    cluster.begin_to_move(SLOT, source, target)
    for _ in range(2):  # before the first key has left, and after the last
        for run in runs:
            with pytest.raises(StoreUnavailable):
                await run()
        cluster.move_keys(SLOT, source, target)
    cluster.end_move(SLOT, target)

    assert [await run() for run in runs] == [3, 4]
    assert target.do("GET", KEYS[0]) == b"4"


async def test_who_watches_follows_a_slot_that_moves(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "PING_AFTER", 1.0)  # less, and a busy machine is taken for a dead one
    source = cluster.holder_of(SLOT)
    target = next(master for master in cluster.masters if master is not source)
    stores = watching, telling = [RedisStore.from_url(cluster.url) for _ in range(2)]
    async with watching.watch() as notes, asyncio.timeout(30):
        assert await telling.watched()
        await telling.publish(["before"])
        assert await anext(notes) == "before"

        cluster.begin_to_move(SLOT, source, target)
        cluster.move_keys(SLOT, source, target)
        cluster.end_move(SLOT, target)

        await telling.queues()  # where it is told that the slot has moved
        while not await telling.watched():
            await asyncio.sleep(0.01)
        await telling.publish(["behind"])
        assert await anext(notes) == "behind"
    for store in stores:
        await store.close()


async def test_the_replica_of_a_master_that_dies_is_found(tmp_path: Path, links: list[Link]) -> None:  # F13
    cluster = Cluster(tmp_path, masters=3, replicas=3)
    runs = both_ways(cluster.url, links)
    subscription = asyncio.create_task(_first_two(links[0]))
    counts = [await run() for run in runs]
    holder = cluster.holder_of(SLOT)
    replica = cluster.replicas[cluster.masters.index(holder)]
    await asyncio.to_thread(eventually, lambda: _copy(replica) == b"2", "the replica's copy")

    holder.kill()

    counts += [await soon(run) for run in runs]
    assert counts == [1, 2, 3, 4]
    async with asyncio.timeout(20):
        assert await subscription == [None, None]  # it listens again
    cluster.close()


async def test_sentinels_lead_to_the_master_and_to_the_next_one(watched: Watched, links: list[Link]) -> None:  # F13
    runs = both_ways(watched.url, links)
    subscription = asyncio.create_task(_first_two(links[0]))
    counts = [await run() for run in runs]
    await asyncio.to_thread(eventually, lambda: watched.replica.do("GET", KEYS[0]) == b"2", "the replica's copy")
    watched.sentinels[0].kill()

    watched.master.kill()

    counts += [await soon(run) for run in runs]
    assert counts == [1, 2, 3, 4]
    assert watched.replica.do("GET", KEYS[0]) == b"4"
    async with asyncio.timeout(20):
        assert await subscription == [None, None]


async def test_a_master_that_became_a_replica_is_left(watched: Watched, links: list[Link]) -> None:  # F13
    runs = both_ways(watched.url, links)
    for run in runs:
        await run()
    await asyncio.to_thread(eventually, lambda: watched.replica.do("GET", KEYS[0]) == b"2", "the replica's copy")

    watched.sentinels[0].do("SENTINEL", "FAILOVER", watched.name)

    await asyncio.to_thread(eventually, lambda: watched.replica.do("ROLE")[0] == b"master", "another master")
    watched.master.do("REPLICAOF", "127.0.0.1", watched.replica.port)  # as the sentinels do, ten seconds later
    assert [await soon(run) for run in runs] == [3, 4]
    assert watched.replica.do("GET", KEYS[0]) == b"4"


async def test_nobody_who_knows_the_master_is_an_outage(watched: Watched, links: list[Link]) -> None:
    links.append(Link(Address.from_url(watched.url.replace("/main", "/another")), KEYS))

    with pytest.raises(StoreUnavailable, match=r"no node knows where the master 'another' is: .* does not know it"):
        await links[0].run_script(COUNT, [])


def _copy(replica: Server) -> Any:
    """What a replica in a cluster has of the counter: it has both keys as soon as it has been told of the first call."""
    with replica.client() as client:
        client.execute_command("READONLY")
        return client.get(KEYS[0])


async def _first_two(link: Link) -> list[bytes | None]:
    heard = []
    async for message in link.listen("tenure:{tenure}:channel"):
        heard.append(message)
        if len(heard) == 2:
            break
    return heard
