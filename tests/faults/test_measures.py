"""The history while workers die: detail is lost, totals are not."""

from __future__ import annotations

import signal
from collections import Counter

from tenure.core.job import State

from .cluster import Cluster
from .conftest import on_one
from .processes import eventually


@on_one
def test_totals_are_exact_though_half_of_the_workers_are_killed(cluster: Cluster) -> None:  # F1
    workers = [cluster.worker("-c", "2") for _ in range(4)]
    for name in ("default", "other"):
        cluster.enqueue("quick", 1, queue=name)

    def known() -> bool:
        """Whether the totals of both queues are known at the end of a slot, to be compared with later ones."""
        slots = [cluster.app.history(queue, span="10m").points[:-1] for queue in ("default", "other")]
        return all(any(point.in_line is not None for point in points) for points in slots)

    eventually(known, "the first totals", timeout=40, step=0.2)
    jobs = cluster.enqueue("nap", 0.05, number=200)
    cluster.enqueue("quick", 1, queue="other", number=50)
    cluster.enqueue("fail", "why", "secret", number=20)
    cluster.wait_for_start(jobs[60])
    for victim in workers[::2]:
        victim.kill()
    records = cluster.wait_for_end().values()
    for worker in workers[1::2]:
        worker.send(signal.SIGTERM)
        worker.wait()

    for which in (None, "default", "other"):
        total = cluster.app.history(which).total
        counted = Counter(record.state for record in records if which in (None, record.queue))
        assert total.finished == counted.total()
        assert (total.succeeded, total.failed) == (counted[State.SUCCEEDED], counted[State.FAILED])
    total = cluster.app.history().total
    assert total.lost == sum(record.losses for record in records) > 0
    assert 0 < total.errors["ValueError"] <= 20, "what a worker had counted when it was killed is lost"
    assert cluster.violations() == []
