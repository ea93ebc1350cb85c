"""Several worker processes under one supervisor, killed and replaced under load (F11, F12)."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.cli.service import alive, children

from .cluster import Cluster
from .conftest import on_one
from .processes import Process, eventually
from .scale import lengths


@on_one
@pytest.mark.parametrize("reloads", lengths(3, 50))
def test_reloading_under_load_loses_nothing(cluster: Cluster, reloads: int) -> None:  # F12, I1, I18
    supervisor = cluster.worker("-p", "2", "-c", "3", lease=20)
    workers = at_work(cluster, supervisor, set())
    for number in range(reloads):
        cluster.enqueue("quick", number, number=20)
        cluster.enqueue("nap", 0.02, number=10)
        cluster.enqueue("sleep", 0.02, number=10)
        supervisor.send(signal.SIGHUP)
        workers = at_work(cluster, supervisor, workers)

    records = cluster.wait_for_end()

    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
    assert {(record.state, record.losses, record.attempt) for record in records.values()} == {("succeeded", 0, 1)}
    assert cluster.violations() == []
    assert cluster.app.workers() == []


@on_one
@pytest.mark.parametrize("deaths", lengths(2, 6))
def test_processes_that_die_under_load_lose_nothing(cluster: Cluster, deaths: int) -> None:  # F11, I1, I12
    # The supervisor does not know this app's store: the processes retire each other.
    supervisor = cluster.worker("-p", "2", "-c", "3")
    workers = at_work(cluster, supervisor, set())
    for number in range(deaths):
        cluster.enqueue("quick", number, number=20)
        naps = cluster.enqueue("nap", 0.3, number=6)
        cluster.wait_for_start(naps[-1])
        victim = min(workers)
        os.kill(victim, signal.SIGKILL)
        workers = at_work(cluster, supervisor, {victim}, workers - {victim})

    records = cluster.wait_for_end()

    assert {record.state for record in records.values()} == {"succeeded"}
    assert cluster.violations() == []


@on_one
@pytest.mark.long
def test_a_supervisor_that_dies_takes_its_processes_along(cluster: Cluster) -> None:  # F11, I1
    supervisor = cluster.worker("-p", "2", "-c", "3", lease=20)
    workers = at_work(cluster, supervisor, set())
    naps = cluster.enqueue("nap", 60, number=4)
    short = cluster.enqueue("nap", 0.2, number=20)
    cluster.wait_for_start(naps[-1])

    died = time.monotonic()
    supervisor.kill()
    eventually(lambda: not any(map(alive, workers)), "the end of the orphans")

    assert time.monotonic() - died < 12, "a coroutine need not be waited for"
    for nap in naps:
        nap.cancel()
    cluster.worker("-c", "4", lease=20)
    records = cluster.wait_for_end()
    assert {records[job.id].state for job in short} == {"succeeded"}
    assert {record.losses for record in records.values()} == {0}
    assert cluster.violations() == []


def at_work(cluster: Cluster, supervisor: Process, old: set[int], others: set[int] = frozenset()) -> set[int]:  # type: ignore[assignment]
    """Wait until the supervisor has two processes at work, none of these and, if they are told, all of the others; which."""

    def found() -> set[int]:
        return {worker.pid for worker in cluster.app.workers()} & children(supervisor.pid)

    eventually(
        lambda: len(found() - old) == 2 and others <= found(),
        lambda: f"two others: {supervisor.last_words()}",
        step=0.05,
    )
    return found() - old
