"""Runs the demo: enqueues jobs, starts two workers, kills one and starts another; `show` goes on in a browser."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from tenure.app import App
from tenure.cli.audit import operator_name
from tenure.cli.demo.kinds import JOBS, KINDS, JobKind, Summary, finished, summarize
from tenure.cli.demo.processes import WorkerProcesses
from tenure.cli.demo.view import View
from tenure.core.job import JobRecord, State
from tenure.stores.base import Store

__all__ = ["run", "show"]

TIME_LIMIT = 25.0
"""Seconds after which the demo gives up and shows what is missing. It needs less than ten."""

LOOK_EVERY = 0.1
LET_IT_RUN = 1.0
"""Seconds that the victim's worker runs before it is killed, so that there is something to see and to lose."""


COME_EVERY = 1.0
"""Seconds between two groups of jobs of a demo that is shown in a browser."""


async def run() -> list[Summary]:
    """Run the demo in a temporary folder. SIGTERM cancels it."""
    _cancel_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="tenure-demo-") as folder:
        return await _run_in(Path(folder))


async def show(serve: Callable[..., Coroutine[None, None, None]]) -> None:
    """Keep jobs coming in a temporary folder, and serve its dashboard with `serve`, until a signal stops it."""
    _cancel_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="tenure-demo-") as folder:
        app = App(f"sqlite:///{Path(folder) / 'demo.db'}")
        try:
            with WorkerProcesses(app.url, Path(folder)) as workers:
                workers.start()
                workers.start()
                async with asyncio.TaskGroup() as group:
                    coming = group.create_task(_keep_coming(app))
                    await serve(
                        app,
                        host="127.0.0.1",
                        port=0,
                        root_path="",
                        allowed_hosts=(),
                        proxies=(),
                        tokens={},
                        operate=True,
                        who=operator_name(),
                    )
                    coming.cancel()
        finally:
            await app.aclose()


def _cancel_on_sigterm() -> None:
    """On SIGTERM, remove the folder and stop the workers: an orphan would wait for jobs for ever."""
    story = asyncio.current_task()
    assert story is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, story.cancel)


async def _keep_coming(app: App) -> None:
    """Enqueue a few jobs of each kind again and again, but for the one whose worker would have to be killed."""
    while True:
        for kind in KINDS:
            if not kind.losses:
                task = app.remote(kind.task, queue=kind.task).using(delay=kind.delay)
                await task.aenqueue_many([()] * max(kind.jobs // 24, 1))
        await asyncio.sleep(COME_EVERY)


async def _run_in(folder: Path) -> list[Summary]:
    """Enqueue the jobs, start two workers, kill one, and summarize how each job ended."""
    app = App(f"sqlite:///{folder / 'demo.db'}")
    store = app.internals.session.store
    try:
        ids = {kind.task: await _enqueue(app, kind) for kind in KINDS}
        with View() as view, WorkerProcesses(app.url, folder) as workers:
            view.event(
                f"{sum(map(len, ids.values()))} jobs enqueued, workers {workers.start()} and {workers.start()} started"
            )
            try:
                async with asyncio.timeout(TIME_LIMIT), asyncio.TaskGroup() as group:
                    group.create_task(_watch(store, workers, view))
                    group.create_task(_kill(store, ids["victim"][0], workers, view))
            except TimeoutError:
                view.event(f"not finished after {TIME_LIMIT:g} s", "bold red")
        summaries = [summarize(kind, await store.get(ids[kind.task])) for kind in KINDS]
        view.summary(summaries)
        return summaries
    finally:
        await app.aclose()


async def _enqueue(app: App, kind: JobKind) -> list[str]:
    """Enqueue the jobs of a kind, as a program without the code of the task does."""
    task = app.remote(kind.task, queue=kind.task).using(delay=kind.delay)
    return [job.id for job in await task.aenqueue_many([()] * kind.jobs)]


async def _watch(store: Store, workers: WorkerProcesses, view: View) -> None:
    """Show progress until all jobs are finished."""
    while sum(map(finished, queues := await store.queues())) < JOBS:
        view.progress(queues)
        for name, last_words in workers.ended():
            view.event(f"worker {name} ended by itself: {last_words}", "bold red")
        await asyncio.sleep(LOOK_EVERY)


async def _kill(store: Store, victim: str, workers: WorkerProcesses, view: View) -> None:
    """Kill the worker that runs the victim, start a new one, and show when the victim has ended."""
    worker = (await _wait_for(store, victim, lambda job: job.state is State.RUNNING)).worker
    assert worker is not None
    await asyncio.sleep(LET_IT_RUN)
    pid, killed_at = workers.kill(worker), time.monotonic()
    view.event(f"worker {worker} killed in the middle of its jobs: kill -9 {pid}", "bold yellow")
    view.event(f"worker {workers.start()} started in its place")
    job = await _wait_for(store, victim, lambda job: job.state.final)
    later = time.monotonic() - killed_at
    view.event(f"the job that it ran has {job.state} on worker {job.worker}, {later:.1f} s later", "green")


async def _wait_for(store: Store, job_id: str, wanted: Callable[[JobRecord], bool]) -> JobRecord:
    """Poll a job until it is as `wanted`."""
    while True:
        [job] = await store.get([job_id])
        if job is not None and wanted(job):
            return job
        await asyncio.sleep(LOOK_EVERY)
