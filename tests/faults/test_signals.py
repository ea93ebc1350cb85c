"""`tenure work` told to stop while it works: jobs finished or released within the grace, and an exit (I18, F23)."""

from __future__ import annotations

import signal
import time

import pytest

from .cluster import Cluster
from .conftest import on_one
from .processes import eventually
from .scale import lengths

GRACE = 4.0
"""Seconds that jobs have to stop after they were told to."""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_jobs_in_hand_are_released_to_the_front(cluster: Cluster, signum: signal.Signals) -> None:  # I9, I18, R38, G4
    naps = cluster.enqueue("nap", 3600, number=5)
    worker = cluster.worker("-c", "2")
    cluster.wait_for_start(naps[1])

    told = time.monotonic()
    worker.send(signum)

    assert worker.wait(GRACE + 6) == 0
    assert time.monotonic() - told < GRACE, "coroutines need not be waited for"
    waiting = cluster.app.jobs(state="waiting")
    assert [job.id for job in waiting] == [job.id for job in naps], "at the front, in their order"
    assert {job.record and (job.record.attempt, job.record.losses) for job in waiting} == {(0, 0)}
    assert cluster.app.workers() == []


@on_one
def test_a_job_that_does_not_hear_is_released_after_the_grace(cluster: Cluster) -> None:  # I18
    [deaf] = cluster.enqueue("sleep", 60)
    [short] = cluster.enqueue("sleep", 1)
    worker = cluster.worker("-c", "2", lease=20)
    cluster.wait_for_start(short)

    told = time.monotonic()
    worker.send(signal.SIGTERM)

    assert worker.wait(GRACE + 6) == 0
    assert GRACE - 0.5 < time.monotonic() - told < GRACE + 4
    assert short.refresh().state == "succeeded", "what ends within the grace is finished"
    assert deaf.refresh().state == "waiting"
    assert deaf.record is not None
    assert (deaf.record.attempt, deaf.record.losses) == (0, 0)


@on_one
def test_a_second_interrupt_does_not_wait(cluster: Cluster) -> None:  # F23, I18
    [deaf] = cluster.enqueue("sleep", 60)
    worker = cluster.worker("--term-timeout", "30", "-v")
    cluster.wait_for_start(deaf)

    told = time.monotonic()
    worker.send(signal.SIGINT)
    eventually(lambda: "SIGINT" in worker.log.read_text(), "the first one heard")
    time.sleep(1.1)  # one that comes sooner may be the same keystroke by another way
    worker.send(signal.SIGINT)

    assert worker.wait(20) == 0
    assert time.monotonic() - told < 30 - 5
    assert deaf.refresh().state == "waiting"


@on_one
def test_a_worker_told_twice_and_killed_loses_nothing(cluster: Cluster) -> None:  # F23, I1
    deaf = cluster.enqueue("sleep", 2, number=2)
    cluster.enqueue("nap", 0.05, number=20)
    worker = cluster.worker("-c", "4")
    cluster.wait_for_start(deaf[1])
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGTERM)
    time.sleep(0.1)
    worker.kill()
    cluster.worker("-c", "4")

    records = cluster.wait_for_end()

    assert {record.state for record in records.values()} == {"succeeded"}
    assert cluster.violations() == []


@on_one
def test_a_worker_told_to_stop_while_it_starts_stops(cluster: Cluster) -> None:  # F23, I18
    for delay in (0.15, 0.25, 0.35, 0.5):
        worker = cluster.worker()
        time.sleep(delay)  # somewhere between the first import and the first lease
        worker.send(signal.SIGTERM)
        assert worker.wait(GRACE + 6) in {0, -signal.SIGTERM}


@on_one
@pytest.mark.parametrize("restarts", lengths(4, 50))
def test_a_rolling_restart_under_load_loses_nothing(cluster: Cluster, restarts: int) -> None:  # F12, I1, I18
    workers = [cluster.worker("-c", "3", lease=20) for _ in range(2)]
    for number in range(restarts):
        cluster.enqueue("quick", number, number=20)
        cluster.enqueue("nap", 0.02, number=10)
        cluster.enqueue("sleep", 0.02, number=10)
        old = workers[number % 2]
        cluster.give_work_to(old)
        workers[number % 2] = cluster.worker("-c", "3", lease=20)
        old.send(signal.SIGTERM)
        assert old.wait() == 0

    records = cluster.wait_for_end()

    assert {(record.state, record.losses) for record in records.values()} == {("succeeded", 0)}
    assert cluster.violations() == []
