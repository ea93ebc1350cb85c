"""A C call that does not let go of the interpreter: nothing else in its process moves, and no lease is renewed there."""

from __future__ import annotations

from .cluster import Cluster
from .conftest import on_one
from .lanes import register

PROGRAM = "tests.faults.lane_program:app"

LONG = 2.5
"""Seconds, of leases of one."""


@on_one
def test_a_job_that_holds_the_interpreter_past_its_lease_loses_it_but_not_in_a_process_of_its_own(
    cluster: Cluster,
) -> None:  # F5, I5, I12, I17
    register(cluster.app, cluster.folder)
    lanes = ("async", "thread", "process")
    jobs = {lane: cluster.enqueue(f"deaf.{lane}", LONG, queue=lane)[0] for lane in lanes}
    workers = {lane: cluster.worker("-q", f"{lane},only-{lane}", target=PROGRAM) for lane in lanes}
    for job in jobs.values():
        cluster.wait_for_start(job)
    other = cluster.worker("-c", "3", "-q", ",".join(lanes), target=PROGRAM)

    for lane in ("async", "thread"):
        assert jobs[lane].result(timeout=20) == str(other.pid), lane
    after = {lane: cluster.enqueue("nap", 0, queue=f"only-{lane}")[0] for lane in lanes}
    for lane, job in after.items():
        assert job.result(timeout=20) == str(workers[lane].pid), "it goes on"
    records = cluster.wait_for_end()

    assert {lane: (records[job.id].attempt, records[job.id].losses) for lane, job in jobs.items()} == {
        "async": (2, 1),
        "thread": (2, 1),
        "process": (1, 0),
    }
    for lane in ("async", "thread"):
        [warning] = [line for line in workers[lane].log.read_text().splitlines() if "has stood still" in line]
        assert f"job {jobs[lane].id} of task deaf.{lane}" in warning
        assert 'isolation="process"' in warning
    assert cluster.violations() == []
