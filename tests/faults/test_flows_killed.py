"""Runs of flows whose workers are killed between "step done" and "next step queued", and everywhere else."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure import App, Flow, FlowRun
from tenure.core.job import JobRecord
from tenure.stores import open_store

from .checker import check
from .conftest import on_one
from .flowing import INSTANTS, SHARES, TASKS, die_between_steps, make_flow, queue_of, work_and_be_killed
from .processes import Processes
from .recording import history_of
from .scale import lengths

STEPS = ["reserve", "share", "gather", "ship"]


@pytest.fixture
async def order(url: str, tmp_path: Path) -> AsyncIterator[Flow]:
    flow = make_flow(url, str(tmp_path))
    yield flow
    await flow.app.aclose()


async def work_off(app: App, number: int) -> None:
    """Let a worker that nobody kills do what is left of so many runs."""
    async with app.worker(["*"], concurrency=4), asyncio.timeout(40 + number / 5):
        while any(q.waiting + q.scheduled + q.blocked + q.running for q in await app.aqueues()):
            await asyncio.sleep(0.05)


async def every_run_is_whole(app: App, url: str, folder: Path, runs: list[FlowRun]) -> None:
    store = open_store(url)
    history = await history_of(store, folder)
    await store.close()
    assert check(history) == []
    tasks = Counter({task: len(runs) for task in TASKS}) + Counter({"count": len(runs) * (SHARES - 1)})
    assert Counter([job.task for job in await all_jobs(app)]) == tasks, "each step and each child came to exist once"
    for run in runs:
        assert await run.aresult(0) == sum(range(SHARES))
        assert [step.name for step in await run.asteps()] == STEPS


async def all_jobs(app: App) -> list[JobRecord]:
    found: list[JobRecord] = []
    cursor = None
    while True:
        page = await app.ajobs(limit=1000, cursor=cursor)
        found += [job.record for job in page if job.record]
        if (cursor := page.cursor) is None:
            return found


@pytest.mark.parametrize("times", lengths(1, 10))
async def test_a_step_is_done_and_the_next_exists_or_neither_whenever_the_worker_dies(
    order: Flow, url: str, tmp_path: Path, processes: Processes, times: int
) -> None:  # F25, F26, I13, I14
    doomed = TASKS if times > 1 else ("order.share", "count")  # what fans out, and what is joined
    queues = [queue_of(task, instant) for task in doomed for instant in INSTANTS]
    runs = [
        await order.using(queue=queue, unique=f"{queue} {n}").astart(where=queue)
        for queue in queues
        for n in range(times)
    ]
    loop = asyncio.get_running_loop()

    dying = processes.start(die_between_steps, url, str(tmp_path), doomed, times)
    [died] = await loop.run_in_executor(None, dying.hear, "died", 30.0 * (1 + times))
    again = [await order.using(unique=f"{queues[0]} {n}").astart(where=queues[0]) for n in range(times)]
    await work_off(order.app, len(runs))

    assert died == [-signal.SIGKILL] * len(runs), processes.last_words()
    assert [run.id for run in again] == [run.id for run in runs[:times]], "a run whose worker has died holds its key"
    await every_run_is_whole(order.app, url, tmp_path, runs)
    lost = {(job.task, job.queue) for job in await all_jobs(order.app) if job.losses}
    assert lost >= {(task, queue_of(task, "returned")) for task in doomed}
    if times == 1:  # else the same step of another run was leased with the settle
        assert ("order.share", queue_of("order.share", "settled")) not in lost, "what is settled is not run again"
    freed = await order.using(unique=f"{queues[0]} 0").astart(where=queues[0])
    assert not freed.duplicate


@on_one
@pytest.mark.parametrize("kills", lengths(4, 60))
async def test_runs_survive_the_death_of_their_workers_again_and_again(
    order: Flow, url: str, tmp_path: Path, processes: Processes, kills: int
) -> None:  # F1, F12, F25, I13
    runs = await order.astart_many({"where": "default"} for _ in range(kills * 10))
    loop = asyncio.get_running_loop()

    killed = processes.start(work_and_be_killed, url, str(tmp_path), kills)
    await loop.run_in_executor(None, killed.hear, "killed", 30.0 + kills)
    await work_off(order.app, len(runs))

    await every_run_is_whole(order.app, url, tmp_path, runs)
