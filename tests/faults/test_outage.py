"""A store that goes away under workers, and comes back."""

from __future__ import annotations

from .cluster import Cluster
from .processes import eventually


def test_workers_ride_out_the_absence_of_the_store(cluster: Cluster) -> None:  # F7, F17, G7, H23
    cluster.enqueue("quick", 1)
    [held] = cluster.enqueue("hold")
    workers = [cluster.worker("-c", "2") for _ in range(2)]
    cluster.wait_for_start(held)
    effects = cluster.folder / "effects"
    away = cluster.path.with_name("away.db")

    cluster.path.rename(away)
    eventually(effects.exists, "the end of the job that could not be held")
    away.rename(cluster.path)
    again = cluster.wait_for_start(held, times=2)
    [after] = cluster.enqueue("quick", 7)

    assert after.result(timeout=20) == 7
    reason, aborted = effects.read_text().split()
    assert reason == "error"
    assert float(aborted) < again.at, "it let go before the store gave the job to another"
    held.cancel()
    cluster.wait_for_end()
    assert cluster.violations() == []
    for worker in workers:
        log = worker.log.read_text()
        assert (log.count("the store is gone"), log.count("the store is back")) == (1, 1)
