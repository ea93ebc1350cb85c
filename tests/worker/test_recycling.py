"""Workers that stop by themselves, for another to take their place."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.app import App
from tenure.core.job import State
from tenure.core.options import WorkerOptions
from tenure.errors import InvalidOption
from tenure.stores.base import Store
from tenure.worker.recycling import Recycling
from tenure.worker.stopping import ExitStatus
from tenure.worker.worker import Status
from tests.faults.processes import eventually as wait_until

from . import signalled
from .conftest import eventually, record_of
from .hosting import CallerConnection, Host, host

__all__ = ["host"]


@pytest.mark.usefixtures("keeps_what_is_ahead")
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_worker_stops_after_so_many_jobs_and_runs_no_more(app: App, store: Store, concurrency: int) -> None:
    ran: list[int] = []

    @app.task
    async def task(number: int) -> None:
        ran.append(number)

    jobs = await task.aenqueue_many([(number,) for number in range(40)])
    worker = app.worker(max_jobs=30, concurrency=concurrency)
    await worker.start()
    await eventually(lambda: worker.status is Status.STOPPED)
    assert ran == list(range(30))
    ends = [await record_of(store, job.id) for job in jobs]
    assert [(end.state, end.attempt) for end in ends] == [(State.SUCCEEDED, 1)] * 30 + [(State.WAITING, 0)] * 10
    assert await app.aworkers() == []


async def test_jobs_in_hand_are_finished_first(app: App) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> str:
        started.set()
        await finish.wait()
        return "done"

    @app.task
    async def quick() -> None: ...

    worker = app.worker(max_jobs=2, concurrency=2)
    await worker.start()
    job = await slow.aenqueue()
    await started.wait()
    await quick.aenqueue()
    third = await quick.aenqueue()
    await asyncio.sleep(0.1)
    assert worker.status is Status.RUNNING
    finish.set()
    await eventually(lambda: worker.status is Status.STOPPED)
    assert await job.aresult(timeout=0) == "done"
    assert (await third.arefresh()).state is State.WAITING


async def test_a_worker_stops_when_it_is_old(app: App) -> None:
    worker = app.worker(max_age=0.2)
    await worker.start()
    await eventually(lambda: worker.status is Status.STOPPED)


@pytest.fixture
def work(host: Host) -> Iterator[Any]:
    guests: list[CallerConnection] = []

    def begin(url: str, *tasks: str, **options: Any) -> CallerConnection:
        guests.append(host.start(signalled.work, url, tasks, options))
        return guests[-1]

    yield begin
    for guest in guests:
        guest.end()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_the_status_asks_for_another(url: str, work: Any) -> None:
    worker = work(url, "quick", "quick", max_jobs=1)
    [status, jobs] = worker.hear("ended")
    assert status == 75
    assert [state for state, *_ in jobs] == ["succeeded", "waiting"]
    assert "it has run 1 jobs" in worker.log


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_worker_stops_when_it_occupies_too_much(url: str, work: Any) -> None:
    worker = work(url, "hoards", max_memory=200 << 20)
    [status, jobs] = worker.hear("ended")
    assert status == ExitStatus.RECYCLED
    assert {state for state, *_ in jobs} == {"succeeded"}
    assert "bytes of memory" in worker.log


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_signal_still_stops_a_worker_that_waits_for_its_last_jobs(url: str, work: Any) -> None:
    worker = work(url, "coroutine", "hoards", max_memory=200 << 20, concurrency=2)
    wait_until(lambda: "to be replaced" in worker.log, "the limit")
    worker.send(signal.SIGTERM)
    [status, [job, _]] = worker.hear("ended")
    assert job == ["waiting", 0, 0, None]
    assert status == ExitStatus.STOPPED, "somebody wants it to stop, and no other in its place"


def test_limits() -> None:
    none = Recycling(WorkerOptions(), 0.0, lambda: 10**12)
    assert (none.limit_reached(10**9, 10.0**9), none.needs_polling) == (None, False)
    jobs = Recycling(WorkerOptions(max_jobs=3), 0.0, lambda: 0)
    assert [jobs.jobs_left(ran) for ran in (0, 2, 3, 4)] == [3, 1, 0, 0]
    assert [jobs.limit_reached(ran, 0.0) for ran in (2, 3)] == [None, "it has run 3 jobs"]
    memory = Recycling(WorkerOptions(max_memory=1000), 0.0, iter([999, 1000]).__next__)
    assert memory.needs_polling
    assert [memory.limit_reached(0, 0.0) for _ in range(2)] == [None, "it occupies 1,000 bytes of memory"]


def test_workers_of_one_age_do_not_end_together() -> None:
    ages = [Recycling(WorkerOptions(max_age=100), 0.0, lambda: 0) for _ in range(50)]
    ends = {next(now for now in range(200) if age.limit_reached(0, float(now))) for age in ages}
    assert min(ends) >= 90
    assert max(ends) <= 110
    assert len(ends) > 5


@pytest.mark.parametrize(
    "option", [{"max_jobs": 0}, {"max_memory": 0}, {"max_age": 0}, {"max_age": -1}, {"term_timeout": -1}]
)
def test_limits_that_make_no_sense_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(option))):
        WorkerOptions(**option)
