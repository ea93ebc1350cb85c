"""Many jobs, many workers, many leases that expire together."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from . import clients
from .cluster import Cluster
from .conftest import on_one
from .processes import Processes, eventually
from .scale import lengths


@pytest.mark.parametrize("number", lengths(2_000, 50_000))
def test_eight_workers_drain_a_queue_and_every_job_runs(
    cluster: Cluster, number: int
) -> None:  # W5, I1, I4, I8, I20, T20
    for _ in range(0, number, 1_000):
        cluster.enqueue("quick", 1, number=1_000)
    workers = [cluster.worker("-c", "5") for _ in range(8)]

    records = cluster.wait_for_end(timeout=max(30, number / 100))

    assert len(records) == number
    # A machine that starts eight processes at once may let a lease of one second pass.
    lost = sum(record.losses for record in records.values())
    tries = Counter((record.state, record.attempt - record.losses) for record in records.values())
    assert tries == {("succeeded", 1): number}
    assert cluster.violations() == []
    totals = cluster.app.stats().totals
    assert (totals.processed, totals.succeeded, totals.failed, totals.retried) == (number, number, 0, 0)
    assert totals.lost == lost
    assert sum(each.processed for each in cluster.app.stats().workers.values()) == number
    assert not any(worker.ended for worker in workers)


@pytest.mark.parametrize("number", lengths(2_000, 10_000))
def test_many_leases_that_expire_together_hold_up_no_other_queue(
    cluster: Cluster, processes: Processes, tmp_path: Path, number: int
) -> None:  # F24, I12, I17
    for _ in range(0, number, 1_000):
        cluster.enqueue("quick", 1, queue="many", number=1_000)
    holder = processes.start(clients.hold_all, cluster.url, tmp_path, "many")
    assert holder.hear("held") == [number]
    holder.kill()
    cluster.worker("-q", "other")
    cluster.app.tasks["quick"].using(queue="other").enqueue(0).result(timeout=20)
    cluster.worker("-q", "many,other", "-c", "5", lease=20)  # who must not lose what others have lost

    waits = []
    while sum(queue.running + queue.waiting for queue in cluster.app.queues() if queue.name == "many"):
        began = time.monotonic()
        cluster.app.tasks["quick"].using(queue="other").enqueue(0).result(timeout=20)
        waits.append(time.monotonic() - began)

    records = cluster.wait_for_end()
    many = [record for record in records.values() if record.queue == "many"]
    assert {(record.state, record.losses) for record in many} == {("succeeded", 1)}
    assert median(waits) < 0.3
    assert max(waits) < 3
    assert cluster.violations() == []


@on_one
def test_two_workers_of_the_same_name_leave_each_others_jobs_alone(cluster: Cluster) -> None:  # F9, I12
    naps = cluster.enqueue("nap", 2.5, number=2)
    # Which they renew once, and a busy machine lets them.
    first = cluster.worker("--id", "twin", lease=5)
    second = cluster.worker("--id", "twin", lease=5)
    for nap in naps:
        cluster.wait_for_start(nap)

    records = cluster.wait_for_end()
    first.send(signal.SIGTERM)
    assert first.wait() == 0
    [after] = cluster.enqueue("nap", 0)
    assert after.result(timeout=10) == str(second.pid)
    eventually(lambda: [worker.pid for worker in cluster.app.workers()] == [second.pid], "the one that is left")

    assert [(records[nap.id].attempt, records[nap.id].losses) for nap in naps] == [(1, 0)] * 2
    assert {nap.result(timeout=1) for nap in naps} == {str(first.pid), str(second.pid)}
    assert cluster.violations() == []
