"""Workers that die: killed from outside at any instant, or by the job that they run."""

from __future__ import annotations

import random
import signal
import time

import pytest

from .cluster import Cluster
from .conftest import on_one
from .scale import lengths

INSTANTS = ("leased", "settling", "settled")


def test_jobs_survive_a_kill_of_their_worker_at_any_instant(
    cluster: Cluster,
) -> None:  # F1, I1, I4, I6, I7, I12, W3, H5, H7
    jobs = {instant: cluster.enqueue("quick", 1, queue=instant, number=3) for instant in INSTANTS}
    [effect] = cluster.enqueue("once", "effect", True, queue="effect")
    [asleep] = cluster.enqueue("nap", 3600, queue="asleep")
    dying = [cluster.worker("-q", instant, die=instant) for instant in INSTANTS]
    dying.append(cluster.worker("-q", "effect"))
    sleeper = cluster.worker("-q", "asleep")
    cluster.wait_for_start(asleep)
    sleeper.kill()

    assert [worker.wait() for worker in dying] == [-signal.SIGKILL] * 4
    asleep.refresh()
    assert (asleep.state, asleep.record and asleep.record.losses) == ("running", 0), "nobody has noticed yet"
    cluster.worker("-c", "4", lease=20)  # who loses nothing more
    cluster.wait_for_start(asleep, times=2)
    asleep.cancel()
    records = cluster.wait_for_end()

    assert cluster.violations() == []
    assert records[asleep.id].losses == 1
    assert (records[effect.id].state, records[effect.id].losses) == ("succeeded", 1)
    assert (cluster.folder / "effects").read_text() == "effect\neffect\n", "at least once, not exactly once"
    losses = {instant: sum(records[job.id].losses for job in some) for instant, some in jobs.items()}
    assert losses["leased"] >= 1
    assert losses["settling"] >= 1
    assert {records[job.id].state for some in jobs.values() for job in some} == {"succeeded"}
    assert any(len(cluster.starts(job)) == 1 for job in jobs["settled"]), "what was settled is not run again"


@pytest.mark.parametrize("kills", lengths(3, 30))
def test_nothing_is_lost_when_workers_are_killed_again_and_again(cluster: Cluster, kills: int) -> None:  # F1, F12, F23
    chance = random.Random(kills)
    for _ in range(10 * kills // 3):
        cluster.enqueue("quick", 1, number=20)
        cluster.enqueue("nap", 0.1, number=15)
        cluster.enqueue("sleep", 0.1, queue="other", number=5)
    workers = [cluster.worker("-c", "3") for _ in range(2)]
    for _ in range(kills):
        victim = chance.randrange(len(workers))
        cluster.give_work_to(workers[victim])
        time.sleep(chance.uniform(0, 0.2))  # the instant of the kill is what the test is about
        workers[victim].kill()
        workers[victim] = cluster.worker("-c", "3")
    cluster.wait_for_end(timeout=30 + 5 * kills)

    assert cluster.violations() == []
    records = cluster.records().values()
    # One that is alone with its worker when it is lost for the third time is to blame, as far as anybody can tell.
    assert [record for record in records if record.state != "succeeded" and record.losses < 3] == []
    totals = cluster.app.stats().totals  # T20
    assert totals.lost == sum(record.losses for record in records) > 0
    assert totals.succeeded == totals.processed == sum(record.state == "succeeded" for record in records)


@on_one
def test_a_job_that_kills_its_worker_fails_as_lost_and_its_neighbours_do_not(cluster: Cluster) -> None:  # F6, I17, T1
    neighbours = cluster.enqueue("nap", 0.05, number=15)
    [poison] = cluster.enqueue("poison")
    neighbours += cluster.enqueue("nap", 0.05, number=15)
    deaths = 0
    worker = cluster.worker("-c", "10")
    while not poison.refresh().done:
        if worker.ended:
            deaths += 1
            assert worker.wait() == 13
            worker = cluster.worker("-c", "10")
        time.sleep(0.05)
    records = cluster.wait_for_end()

    assert deaths == 3
    assert cluster.violations() == []
    lost = records[poison.id]
    assert (lost.state, lost.losses, lost.error and lost.error.type) == ("failed", 3, "Lost")
    assert {records[job.id].state for job in neighbours} == {"succeeded"}
    assert max(records[job.id].losses for job in neighbours) <= 2
    assert len(cluster.starts(poison)) == 3


@on_one
def test_a_job_that_must_not_be_lost_twice_fails_at_the_first_loss(cluster: Cluster) -> None:  # T1, G17
    [fragile] = cluster.enqueue("fragile")
    assert cluster.worker().wait() == 13
    cluster.worker()

    records = cluster.wait_for_end()

    assert (records[fragile.id].state, records[fragile.id].losses) == ("failed", 1)
    assert len(cluster.starts(fragile)) == 1
    assert cluster.violations() == []
