"""Forks of isolated jobs: the hooks around them, what jobs fork themselves, and what they leave to be done at their exit."""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Literal

import pytest

import tenure
from tenure import App
from tenure.errors import JobFailed

from .conftest import Start, single_try_app, whatever_the_store

app = single_try_app


# Hooks.


@whatever_the_store
async def test_hooks_run_in_the_template_and_in_the_child(app: App, start: Start) -> None:  # R32, R44
    calls: list[tuple[str, int]] = []
    for moment in ("before_first_fork", "before_fork", "after_fork"):
        for n in (1, 2):
            getattr(app, moment)(lambda moment=moment, n=n: calls.append((f"{moment} {n}", os.getpid())))

    @app.task(isolation="process")
    def look() -> list[tuple[str, int]]:
        return [*calls, (tenure.current().job.task, os.getpid())]

    await start(app)
    await (await look.aenqueue()).aresult(timeout=20)
    seen = await (await look.aenqueue()).aresult(timeout=20)

    names, pids = [name for name, _ in seen], [pid for _, pid in seen]
    assert names == [
        "before_first_fork 1", "before_first_fork 2", "before_fork 1", "before_fork 2", "before_fork 1", "before_fork 2",
        "after_fork 1", "after_fork 2", "look",
    ]  # fmt: skip
    assert len(set(pids[:6])) == len(set(pids[6:])) == 1
    assert len({os.getpid(), pids[0], pids[-1]}) == 3
    assert calls == []


@whatever_the_store
@pytest.mark.parametrize("moment", ["before_fork", "after_fork"])
async def test_a_hook_that_fails_fails_the_attempt(app: App, start: Start, moment: str) -> None:
    failing = [True]

    @app.task(isolation="process", max_attempts=1)
    def fine() -> None: ...

    def hook() -> None:
        if failing:
            raise LookupError("no database for the child")

    getattr(app, moment)(hook)
    await start(app)
    with pytest.raises(JobFailed, match="LookupError: no database for the child"):
        await (await fine.aenqueue()).aresult(timeout=20)
    with pytest.raises(JobFailed, match="LookupError"):
        await (await fine.aenqueue()).aresult(timeout=20)


@whatever_the_store
@pytest.mark.parametrize("isolation", ["process", None])
async def test_a_worker_does_not_begin_if_before_first_fork_fails(
    app: App, isolation: Literal["process"] | None
) -> None:  # R16
    @app.task(isolation=isolation)
    def fine() -> None: ...

    @app.before_first_fork
    def hook() -> None:
        raise LookupError("no cache to share")

    with pytest.raises(RuntimeError, match="before_first_fork failed: LookupError: no cache to share"):
        await asyncio.to_thread(app.worker().run)


# Processes of the job's own.


@whatever_the_store
async def test_a_job_may_fork_and_use_multiprocessing(app: App, start: Start) -> None:  # F22
    @app.task(isolation="process")
    def forks() -> str:
        if os.fork() == 0:
            return "the wrong one"
        os.wait()
        return "the right one"

    @app.task(isolation="process")
    def pools() -> list[int]:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map(abs, [-1, -2, -3])
        pool.join()  # they were told to end by TERM
        return found

    await start(app, concurrency=2)
    jobs = [await forks.aenqueue(), await pools.aenqueue()]
    assert [await job.aresult(timeout=20) for job in jobs] == ["the right one", [1, 2, 3]]


@whatever_the_store
async def test_what_a_job_forks_is_ended_by_a_signal_from_its_first_moment_on(app: App, start: Start) -> None:  # F22
    dawdles = False

    def dawdle() -> None:
        if dawdles:
            time.sleep(0.3)

    os.register_at_fork(after_in_child=dawdle)  # before the template is forked: what Tenure does there comes later

    @app.task(isolation="process")
    def ends_what_it_forks() -> int:
        nonlocal dawdles
        dawdles = True
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
        os.kill(pid, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    await start(app)
    assert await (await ends_what_it_forks.aenqueue()).aresult(timeout=20) == -signal.SIGTERM


@whatever_the_store
async def test_children_run_their_atexit_handlers_only_if_asked(app: App, start: Start, tmp_path: Path) -> None:  # R32
    @app.task(isolation="process")
    def registers(name: str) -> None:
        atexit.register((tmp_path / name).touch)
        # Who does not wait for it has ended long before; who does is given more time than this to end.
        threading.Timer(1.0, (tmp_path / f"{name} thread").touch).start()

    @app.after_fork
    def after_fork() -> None:
        atexit.register((tmp_path / f"hook {tenure.current().job.id}").touch)

    inherited = atexit.register((tmp_path / "inherited").touch)
    worker = await start(app)
    await (await registers.aenqueue("without")).aresult(timeout=20)
    await worker.stop()
    worker = await start(app, run_atexit=True)
    job = await registers.aenqueue("with")
    await job.aresult(timeout=20)
    await worker.stop()
    atexit.unregister(inherited)
    assert {path.name for path in tmp_path.iterdir()} == {"with", "with thread", f"hook {job.id}"}
