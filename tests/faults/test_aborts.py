"""Each reason to stop, provoked in each lane: the job sees it, what it gives afterwards changes nothing, the worker goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tenure import Job
from tenure.core.job import JobRecord
from tenure.core.lease import AbortReason
from tests.conftest import a_url
from tests.servers.proxy import proxied

from .cluster import Cluster
from .lanes import LANES, Notes, register
from .processes import Process, eventually
from .scale import lengths

Jobs = dict[str, Job[Any]]
"""By their names, which say reason, lane and what they give in the end."""

Outage = tuple[Callable[[], object], Callable[[], object]]

ENDS: dict[AbortReason, tuple[object, ...] | None] = {
    AbortReason.TAKEN: ("succeeded", '"fresh"', 2, 1, None),
    AbortReason.COMPLETED: ("succeeded", '"by hand"', 1, 0, None),
    AbortReason.NOT_FOUND: None,
    AbortReason.ERROR: ("succeeded", '"fresh"', 2, 1, None),
    AbortReason.CANCELLED: ("cancelled", None, 1, 0, None),
    AbortReason.TIMEOUT: ("failed", None, 1, 0, "TimeoutError"),
    AbortReason.SHUTDOWN: ("succeeded", '"fresh"', 1, 0, None),
}
"""State, result, attempts, losses and error of a job that was told to stop for this reason, and that gave something stale."""


@pytest.fixture(params=lengths("postgres", "sqlite", "redis"))
def behind(request: pytest.FixtureRequest) -> Iterator[tuple[str, Outage]]:
    """A URL, and how that store goes away and comes back."""
    url = a_url(request)
    if request.param == "sqlite":
        path = Path(url.removeprefix("sqlite:///"))
        away = path.with_name("away.db")
        yield url, (lambda: path.rename(away), lambda: away.rename(path))
        return
    port = urlsplit(url).port
    assert port is not None
    with proxied(port) as proxy:
        yield f"{url.replace(str(port), str(proxy.port))}&timeout=1&connect_timeout=1", (proxy.blackhole, proxy.heal)


@pytest.fixture
def url(behind: tuple[str, Outage]) -> str:
    return behind[0]


def test_a_job_that_is_told_to_stop_sees_why_and_changes_nothing_more(
    cluster: Cluster, behind: tuple[str, Outage]
) -> None:  # F7, I5, I6, I18, R40
    go, come_back = behind[1]
    register(cluster.app, cluster.folder)
    notes = Notes(cluster.folder)
    worker = a_worker(cluster)

    singly = {
        reason: enqueued(cluster, reason)
        for reason in (AbortReason.COMPLETED, AbortReason.NOT_FOUND, AbortReason.CANCELLED, AbortReason.TIMEOUT)
    }
    taken = enqueued(cluster, AbortReason.TAKEN)
    wait_for(notes, "started", taken, *singly.values())
    for job in singly[AbortReason.COMPLETED].values():
        job.complete("by hand")
    for job in singly[AbortReason.NOT_FOUND].values():
        job.delete()
    for job in singly[AbortReason.CANCELLED].values():
        job.cancel()
    for reason, jobs in singly.items():
        wait_for(notes, reason, jobs)
    assert_works(cluster, worker)

    [entry] = cluster.app.workers()
    cluster.app.retire(entry.id)
    wait_for(notes, AbortReason.TAKEN, taken)
    eventually(lambda: entry.id not in [each.id for each in cluster.app.workers()], "another name")
    assert_works(cluster, worker)
    wait_for_state("succeeded", taken)

    lost = enqueued(cluster, AbortReason.ERROR)
    wait_for(notes, "started", lost)
    go()
    wait_for(notes, AbortReason.ERROR, lost)
    come_back()
    assert_works(cluster, worker)
    wait_for_state("succeeded", lost)

    released = enqueued(cluster, AbortReason.SHUTDOWN)
    wait_for(notes, "started", released)
    worker.send(signal.SIGTERM)
    assert worker.wait(10) == 0
    wait_for(notes, AbortReason.SHUTDOWN, released)
    raised = {name: job.refresh().record for name, job in released.items() if name.endswith("raises")}
    assert {name: (record and record.state, record and record.attempt) for name, record in raised.items()} == (
        dict.fromkeys(raised, ("waiting", 0))
    )

    a_worker(cluster)
    records = cluster.wait_for_end()
    everything = Jobs()
    for some in (*singly.values(), taken, lost, released):
        everything |= some
    wrong = {name: job for name, job in everything.items() if ended(records.get(job.id)) != in_the_end(name)}
    assert wrong == {}, {name: (records.get(job.id), job.attempts()) for name, job in wrong.items()}
    told = notes.read()
    assert {name: {*told[name]} for name in everything} == {
        name: {"started", name.partition(".")[0]} for name in everything
    }
    for name, job in lost.items():
        assert told[name][AbortReason.ERROR] < cluster.starts(job)[1].at, "it let go before the store gave the job away"
    assert cluster.violations() == []


def enqueued(cluster: Cluster, reason: AbortReason) -> Jobs:
    """A job in each lane that returns in the end, and one that raises."""
    task = "brief" if reason is AbortReason.TIMEOUT else "hold"
    names = {f"{reason}.{lane}.{gives}": (lane, gives) for lane in LANES for gives in ("returns", "raises")}
    return {name: cluster.enqueue(f"{task}.{lane}", name, gives)[0] for name, (lane, gives) in names.items()}


def in_the_end(name: str) -> tuple[object, ...] | None:
    reason, _, gives = name.split(".")
    if (reason, gives) == (AbortReason.SHUTDOWN, "returns"):
        return "succeeded", '"stale"', 1, 0, None  # it was its own all along, and what it returned in time counts
    return ENDS[AbortReason(reason)]


def ended(record: JobRecord | None) -> tuple[object, ...] | None:
    if record is None:
        return None
    return record.state, record.result, record.attempt, record.losses, record.error and record.error.type


def a_worker(cluster: Cluster) -> Process:
    return cluster.worker("-c", "64", target="tests.faults.lane_program:app")


def assert_works(cluster: Cluster, worker: Process) -> None:
    """The same process takes jobs."""
    assert cluster.enqueue("nap", 0)[0].result(timeout=20) == str(worker.pid)


def wait_for(notes: Notes, word: str, *jobs: Jobs) -> None:
    """Wait until all of these have told this."""

    def missing() -> list[str]:
        told = notes.read()
        return [name for some in jobs for name in some if word not in told.get(name, ())]

    eventually(lambda: not missing(), lambda: f"{word!r} of {missing()}", step=0.05)


def wait_for_state(state: str, jobs: Jobs) -> None:
    def others() -> Sequence[str]:
        return [f"{name} {job.state}" for name, job in jobs.items() if job.refresh().state != state]

    eventually(lambda: not others(), lambda: f"{state!r} of {others()}", step=0.05)
