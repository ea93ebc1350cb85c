"""Workers whose clocks are wrong by an hour."""

from __future__ import annotations

import pytest

from .cluster import Cluster

HOUR = 3600.0

on_servers = pytest.mark.parametrize("url", ["redis", "postgres"], indirect=True)
"""Stores that have a clock of their own."""


@on_servers
def test_a_job_is_due_by_the_clock_of_the_store_whatever_that_of_the_worker_says(cluster: Cluster) -> None:  # F10, I10
    nap = cluster.app.tasks["nap"]
    later = nap.using(delay=HOUR / 2, queue="ahead").enqueue(0)
    soon = [nap.using(delay=0.2, queue=queue).enqueue(0) for queue in ("ahead", "behind")]
    cluster.worker("-q", "ahead", skew=HOUR)
    cluster.worker("-q", "behind", skew=-HOUR)

    for job in soon:
        job.result(
            timeout=30
        )  # I10: by the worker that believes it to be long over, and by the one for which it is not yet due

    assert later.refresh().state == "waiting"
    assert later.record is not None
    assert later.record.run_at is not None
    later.cancel()
    cluster.wait_for_end()
    assert cluster.violations() == []


def test_no_lease_is_taken_or_kept_because_a_clock_is_wrong(cluster: Cluster) -> None:  # F10, I4, I12
    [running] = cluster.enqueue("nap", 2.5)
    [left] = cluster.enqueue("nap", HOUR, queue="left")
    cluster.worker("-q", "default", skew=-HOUR, lease=5)  # which it renews once, and a busy machine lets it
    victim = cluster.worker("-q", "left", skew=-HOUR)
    cluster.wait_for_start(running)
    cluster.wait_for_start(left)
    cluster.worker("-q", "default,left", skew=HOUR, lease=20)  # takes what has expired, and nothing else
    victim.kill()

    cluster.wait_for_start(left, times=2)
    left.cancel()
    running.result(timeout=30)

    cluster.wait_for_end()
    assert cluster.violations() == []
    assert len(cluster.starts(running)) == 1
    assert cluster.records()[running.id].losses == 0
    assert cluster.records()[left.id].losses == 1
