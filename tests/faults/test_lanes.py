"""What holds in the worker's own process holds for isolated jobs too: how they end, and that they fork."""

from __future__ import annotations

import signal

from tenure import App

from .cluster import Cluster
from .conftest import on_one
from .processes import Process, eventually
from .test_bad_jobs import ENDS

ISOLATED = ("--isolation", "process")


@on_one
def test_whatever_an_isolated_job_raises_or_returns_is_its_own_failure(cluster: Cluster) -> None:  # F19, F20
    expected = {f"{kind}.{name}": error for kind in ("async", "thread") for name, error in ENDS.items()}
    bad = {name: cluster.enqueue(name)[0] for name in expected}
    [after] = cluster.enqueue("quick", 7)
    worker = cluster.worker("-c", "3", *ISOLATED)

    assert after.result(timeout=30) == 7
    records = cluster.wait_for_end()

    assert {name: records[job.id].state for name, job in bad.items()} == dict.fromkeys(expected, "failed")
    errors = {name: error for name, job in bad.items() if (error := records[job.id].error)}
    assert {name: error.type for name, error in errors.items()} == expected
    assert all(len(error.message) < 5_000 and len(error.traceback or "") < 20_000 for error in errors.values())
    assert all("cut" in errors[name].message for name in ("async.long_message", "thread.long_message"))
    assert {(records[job.id].attempt, records[job.id].losses) for job in bad.values()} == {(1, 0)}
    assert not worker.ended
    assert cluster.violations() == []


def test_jobs_may_fork_and_their_children_use_the_app(cluster: Cluster) -> None:  # F22
    app = App(cluster.url)
    workers = forking_workers(cluster)
    jobs = {
        (lane, kind): app.remote(f"fork.{kind}", queue=lane).enqueue()
        for lane in workers
        for kind in ("async", "thread")
    }

    ids = {where: job.result(timeout=30) for where, job in jobs.items()}

    assert {where: len({*found}) for where, found in ids.items()} == dict.fromkeys(jobs, 6)
    for found in ids.values():
        assert [app.job(id_).result(timeout=20) for id_ in found] == [1] * 6
    for worker in workers.values():
        worker.send(signal.SIGTERM)
        assert worker.wait(10) == 0
    assert app.workers() == [], "no child was taken for a worker"
    app.close()


@on_one
def test_a_fork_that_comes_back_from_its_job_does_nothing_more(cluster: Cluster) -> None:  # F22, I4
    app = App(cluster.url)
    numbers = {lane: range(40 * n, 40 * n + 40) for n, lane in enumerate(("own", "process"))}
    twice = []
    for lane, marked in numbers.items():
        mark = app.remote("mark", queue=lane)
        mark.enqueue_many([(number,) for number in marked[:20]])
        twice += [app.remote(f"twice.{kind}", queue=lane).enqueue() for kind in ("async", "thread")]
        mark.enqueue_many([(number,) for number in marked[20:]])
    workers = forking_workers(cluster)

    pids = [job.result(timeout=30) for job in twice]

    cluster.wait_for_end()
    assert pids[:2] == [workers["own"].pid] * 2
    assert sorted(map(int, (cluster.folder / "marks").read_text().split())) == [*range(80)], (
        "each of the others ran once"
    )
    eventually(lambda: told(workers["own"]) == 2, "the end of both")
    app.close()


def forking_workers(cluster: Cluster) -> dict[str, Process]:
    """One that runs jobs in its own process, and one that isolates them."""
    program = "tests.faults.forking:app"
    return {
        "own": cluster.worker("-c", "4", "-q", "own,default", target=program),
        "process": cluster.worker("-c", "4", "-q", "process,default", *ISOLATED, target=program),
    }


def told(worker: Process) -> int:
    return worker.log.read_text().count("returned from its function and was ended")
