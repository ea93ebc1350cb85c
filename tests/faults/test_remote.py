"""A producer that does not have the code of its tasks."""

from __future__ import annotations

from . import clients
from .cluster import Cluster
from .processes import Processes


def test_a_process_without_the_task_enqueues_jobs_and_gets_their_results(
    cluster: Cluster, processes: Processes
) -> None:
    cluster.worker("-c", "2")
    producer = processes.start(clients.enqueue_remotely, cluster.url)

    assert producer.hear("results") == [7, [7, 8], "JobBroken"]
    assert producer.wait() == 0
