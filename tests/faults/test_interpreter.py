"""A C call that does not let go of the interpreter: nothing else in its process moves, and no lease is renewed there."""

from __future__ import annotations

from .cluster import Cluster
from .conftest import on_one
from .lanes import register
from .processes import eventually

PROGRAM = "tests.faults.lane_program:app"

LONG = 10.0
"""Seconds that the interpreter is held: enough for another worker to start and take the job before its own wakes up."""

LEASES = {"async": 1, "thread": 1, "process": 4}
"""Seconds, all of them less. Where none must be lost there is room for a busy machine."""


@on_one
def test_a_job_that_holds_the_interpreter_past_its_lease_loses_it_but_not_in_a_process_of_its_own(
    cluster: Cluster,
) -> None:  # F5, I5, I12, I17
    register(cluster.app, cluster.folder)
    lanes = ("async", "thread", "process")
    jobs = {lane: cluster.enqueue(f"deaf.{lane}", LONG, queue=lane)[0] for lane in lanes}
    workers = {lane: cluster.worker("-q", f"{lane},only-{lane}", target=PROGRAM, lease=LEASES[lane]) for lane in lanes}
    for job in jobs.values():
        cluster.wait_for_start(job)
    other = cluster.worker("-c", "3", "-q", ",".join(lanes), target=PROGRAM, lease=20)

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
        # Another thread looks, and tells; the worker may take jobs before it does.
        eventually(lambda log=workers[lane].log: "stood still" in log.read_text(), lane)  # type: ignore[misc]
        [warning] = [line for line in workers[lane].log.read_text().splitlines() if "stood still" in line]
        assert f"job {jobs[lane].id} of task deaf.{lane}" in warning
        assert 'isolation="process"' in warning
    assert cluster.violations() == []
