"""Jobs that end their process, eat its memory or never end, among many that do nothing of the kind."""

from __future__ import annotations

from collections import Counter

import pytest

from tenure.worker.supervision.process import describe_exit
from tests.cli.service import children

from .cluster import Cluster
from .conftest import on_one
from .poison import DEADLY, POISONS, register
from .processes import eventually
from .scale import lengths

PROGRAM = "tests.faults.lane_program:app"


@on_one
@pytest.mark.parametrize("number", lengths(100, 10_000))
def test_isolated_poison_fails_by_its_policy_and_harms_nobody(
    cluster: Cluster, number: int
) -> None:  # F6, F21, I17, R33
    register(cluster.app)
    good, poison = [], {}
    for name in POISONS:
        poison[name] = cluster.enqueue(f"isolated.{name}")[0]
        for task in ("own.quick", "isolated.quick"):
            good += cluster.enqueue(task, 1, number=number // len(POISONS) // 2)
    worker = cluster.worker("-c", "8", target=PROGRAM)

    records = cluster.wait_for_end(timeout=30 + number / 10)

    for name, job in poison.items():
        record = records[job.id]
        assert (record.state, record.attempt, record.losses) == ("failed", 2, 0), name
        assert record.error is not None
        assert f"{record.error.type}: {record.error.message}".startswith(POISONS[name][1])
    assert Counter((records[job.id].state, records[job.id].attempt, records[job.id].losses) for job in good) == {
        ("succeeded", 1, 0): number
    }, [job.attempts() for job in good if records[job.id].attempt > 1]
    assert cluster.enqueue("nap", 0)[0].result(timeout=20) == str(worker.pid)
    cluster.wait_for_end()
    assert cluster.violations() == []


@on_one
@pytest.mark.parametrize("neighbours", lengths(99, 10_000))
@pytest.mark.parametrize("kind", lengths("segfault", "exit", "kill"))
def test_poison_in_the_worker_ends_as_lost_and_its_neighbours_do_not(
    cluster: Cluster, kind: str, neighbours: int
) -> None:  # F6, F11, I7, I17, T1
    register(cluster.app)
    good = cluster.enqueue("nap", 0.05, number=neighbours // 2)
    [poison] = cluster.enqueue(f"deadly.{kind}")
    good += cluster.enqueue("nap", 0.05, number=neighbours - neighbours // 2)
    supervisor = cluster.worker("-p", "2", "-c", "100", target=PROGRAM)

    records = cluster.wait_for_end(timeout=60 + neighbours / 20)

    lost = records[poison.id]
    assert (lost.state, lost.losses, lost.error and lost.error.type) == ("failed", 3, "Lost")
    assert lost.error is not None
    assert describe_exit(DEADLY[kind]) in lost.error.message
    assert len(cluster.starts(poison)) == 3

    def said() -> int:
        lines = [line for line in supervisor.log.read_text().splitlines() if "tenure.jobs" not in line]
        return sum(f"({describe_exit(DEADLY[kind])})" in line for line in lines)

    # The supervisor has the jobs of a dead process taken from it first, and tells of its death then.
    eventually(lambda: said() >= 3, "a line for each death")
    assert said() == 3
    assert {(records[job.id].state, records[job.id].attempt - records[job.id].losses) for job in good} == {
        ("succeeded", 1)
    }
    assert cluster.violations() == []
    eventually(lambda: len(children(supervisor.pid)) == 2, "both processes")
    assert not supervisor.ended
