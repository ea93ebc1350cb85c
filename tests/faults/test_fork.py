"""Forks of a process that has used an app: both sides go on, and nothing that either was told is lost (F22)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tenure.stores import open_store
from tests.inspection import sound

from . import forks
from .cluster import Cluster
from .processes import Process, Processes
from .recording import records_of
from .scale import lengths


def enqueued(process: Process, until: str = "done") -> set[str]:
    """The ids that a process was told are stored, up to a word."""
    ids: set[str] = set()
    while (said := process.hear_any())[0] != until:
        ids.update(said[1:])
    return ids


async def stored(url: str) -> set[str]:
    store = open_store(url)
    ids = {job.id for job in await records_of(store)}
    await store.close()
    if url.startswith("sqlite"):
        assert sound(Path(url.removeprefix("sqlite:///")))
    return ids


async def test_a_server_that_forks_after_use_loses_nothing(url: str, processes: Processes) -> None:  # F22
    server = processes.start(forks.prefork, url)

    told = enqueued(server)

    assert server.wait() == 0
    assert len(told) == 1 + 4 * 5 + 5 + 1
    assert await stored(url) == told


async def test_a_child_that_outlives_its_parent_loses_nothing(url: str, processes: Processes) -> None:  # F22, I19
    process = processes.start(forks.fork_and_outlive_the_parent, url)
    first = process.hear("enqueued") + process.hear("enqueued")
    process.send(signal.SIGUSR1)
    process.hear("parent done")
    assert await stored(url) >= set(first)

    process.tell("go on, child")
    last = process.hear("enqueued")
    process.hear("done")

    assert await stored(url) == {*first, *last}


@pytest.mark.parametrize("times", lengths(15, 300))
async def test_forks_in_the_middle_of_writes_harm_neither_side(
    url: str, processes: Processes, times: int
) -> None:  # F22
    process = processes.start(forks.fork_while_enqueueing, url, times)

    told = enqueued(process)

    assert process.wait() == 0
    assert await stored(url) == told


async def test_children_of_multiprocessing_use_the_app_of_their_parent(url: str, processes: Processes) -> None:  # F22
    process = processes.start(forks.fork_with_multiprocessing, url)

    told = enqueued(process)

    assert process.wait() == 0
    assert await stored(url) == told


@pytest.mark.parametrize("task", ["fork", "fork_in_thread"])
def test_a_job_may_fork(cluster: Cluster, task: str) -> None:  # F22
    jobs = cluster.enqueue(task, number=3)
    cluster.worker("-c", "2")

    for job in jobs:
        assert job.result(timeout=30) == 0

    after = cluster.enqueue("quick", 7)
    assert after[0].result(timeout=10) == 7
    cluster.wait_for_end()
    assert cluster.violations() == []
