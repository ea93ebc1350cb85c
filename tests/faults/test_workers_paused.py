"""Workers that fall silent and come back, and jobs that outlast their leases."""

from __future__ import annotations

import time

import msgspec
import pytest

from tenure.stores.base import Store

from . import clients
from .cluster import Cluster
from .conftest import on_one
from .processes import Processes
from .scale import lengths


def test_a_worker_that_slept_past_its_lease_cannot_finish_the_job(cluster: Cluster) -> None:  # F2, I5, I6, Q, G
    [job] = cluster.enqueue("nap", 2)
    sleeper = cluster.worker("-q", "default,own", lease=3)
    cluster.wait_for_start(job)
    # Its first chores are done, and the first renewal is not due: stopped in the middle of a write to a file, it would hold up
    # everybody.
    time.sleep(0.4)
    sleeper.stop()
    other = cluster.worker("-q", "default", lease=20)

    assert job.result(timeout=30) == str(other.pid)
    sleeper.go_on()
    [after] = cluster.enqueue("nap", 0, queue="own")

    assert after.result(timeout=10) == str(sleeper.pid), "the wake-up has cost it nothing else"
    cluster.wait_for_end()
    assert cluster.violations() == []
    record = cluster.records()[job.id]
    assert (record.attempt, record.losses, record.worker is not None and str(other.pid) in record.worker) == (
        2,
        1,
        True,
    )


async def test_a_token_is_dead_however_often_the_job_was_leased_since(
    url: str, store: Store, processes: Processes
) -> None:  # F3, I5
    job = msgspec.structs.replace(clients.a_job(), max_losses=0)
    await store.enqueue([job])
    stale = processes.start(clients.hold_and_settle_late, url)
    stale.hear("held")
    stale.stop()
    for _ in range(3):
        await store.retire("w")
        [current] = await clients.take(store, solo=True)
    stale.go_on()
    stale.tell("go on")

    renewal, settle, release = stale.hear("answers")

    assert (renewal, settle, release) == ("taken_by_another_worker", "lease_lost", "lease_lost")
    [record] = await store.get([job.id])
    assert record is not None
    assert (record.state, record.fence, record.attempt) == ("running", current.token.fence, 4)
    assert current.token.fence == 4


@on_one
@pytest.mark.parametrize("leases", lengths(2, 10))
def test_jobs_that_outlast_their_lease_on_a_healthy_worker_run_once(
    cluster: Cluster, leases: int
) -> None:  # F4, F5, H9
    lease = 3  # of one second, a busy machine lets some pass
    jobs = [cluster.enqueue(task, leases * lease, queue=task)[0] for task in ("nap", "sleep", "block", "compute")]
    for task in ("nap,sleep", "block", "compute"):
        cluster.worker("-q", task, "-c", "2", lease=lease)
    cluster.worker()  # would take them, if it could

    records = cluster.wait_for_end(timeout=50)

    assert [(records[job.id].state, records[job.id].attempt, records[job.id].losses) for job in jobs] == [
        ("succeeded", 1, 0)
    ] * 4
    assert [len(cluster.starts(job)) for job in jobs] == [1] * 4
    assert cluster.violations() == []
