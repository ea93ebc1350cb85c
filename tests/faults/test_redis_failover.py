"""A master that dies under workers, and its replica that takes over (F13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from redis.crc import key_slot

from tests.servers import topologies
from tests.servers.server import Server

from .cluster import Cluster
from .processes import eventually


class Pair(NamedTuple):
    """A master and its replica, as a URL leads to them."""

    url: str
    master: Server
    replica: Server
    close: Callable[[], None]


@pytest.fixture(params=["sentinel", "cluster"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    if request.param == "sentinel":
        watched = topologies.Watched(tmp_path / "redis")
        found = Pair(watched.url, watched.master, watched.replica, watched.close)
    else:
        nodes = topologies.Cluster(tmp_path / "redis", masters=3, replicas=3)
        number = nodes.masters.index(nodes.holder_of(key_slot(b"{tenure}")))
        found = Pair(nodes.url, nodes.masters[number], nodes.replicas[number], nodes.close)
    yield found
    found.close()


@pytest.fixture
def url(pair: Pair) -> str:
    return f"{pair.url}?timeout=2"


def test_jobs_survive_the_death_of_their_master(cluster: Cluster, pair: Pair) -> None:  # F13, I1, I6
    before = cluster.enqueue("quick", 7, number=20)
    naps = cluster.enqueue("nap", 0.5, number=6)
    workers = [cluster.worker("-c", "2") for _ in range(2)]
    assert before[-1].result(timeout=20) == 7
    cluster.wait_for_start(naps[0])
    held = cluster.enqueue("nap", 0.5, queue="other", number=2)
    eventually(lambda: caught_up(pair), "a replica that has everything")

    pair.master.kill()
    cluster.wait_for_answers()

    records = cluster.wait_for_end(timeout=50)
    assert {records[job.id].state for job in (*before, *naps, *held)} == {"succeeded"}
    after = cluster.enqueue("quick", 8, number=20)
    assert after[-1].result(timeout=20) == 8
    cluster.wait_for_end()
    assert not any(worker.ended for worker in workers)
    assert cluster.violations() == []


def caught_up(pair: Pair) -> bool:
    """Whether the replica has got as far as its master, for the moment."""
    there = pair.replica.do("ROLE")[4]
    return bool(there >= pair.master.do("ROLE")[1])
