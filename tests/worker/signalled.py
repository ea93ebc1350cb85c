"""A worker process for tests that send it signals, and jobs of every lane that hear them or do not."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import time
from typing import Any

from tenure import App, Backoff, Context
from tenure.jobs.handle import Job
from tests.faults.processes import say, told

__all__ = ["ended", "make_app", "work"]


hoard: list[bytearray] = []


def make_app(url: str) -> App:
    """The app of such a process, and of the test that looks at what became of its jobs."""
    app = App(url, lease=5, retry=Backoff(initial=0.01, jitter=0))

    @app.task
    async def coroutine(ctx: Context) -> None:
        try:
            say("started", "coroutine", os.getpid())
            await asyncio.sleep(3600)
        finally:
            say("told", ctx.signal.reason)

    @app.task
    async def blocking() -> None:
        """Keeps the event loop from moving."""
        say("started", "blocking", os.getpid())
        time.sleep(3600)

    @app.task
    async def computing() -> None:
        """Keeps it so in C, where nobody looks for signals."""
        say("started", "computing", os.getpid())
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)

    @app.task
    async def executor() -> None:
        """Leaves a thread behind that nobody can end."""

        def sleep() -> None:
            say("started", "executor", os.getpid())  # here: a thread that has not begun is cancelled with the job
            time.sleep(3600)

        await asyncio.to_thread(sleep)

    @app.task
    def thread(ctx: Context) -> str:
        """Hears nothing, and ends when the test says so."""
        say("started", "thread", os.getpid())
        told()
        return "done"

    @app.task(isolation="process")
    def child(ctx: Context) -> None:
        try:
            say("started", "child", os.getpid())
            time.sleep(3600)
        finally:
            say("told", ctx.signal.reason)

    @app.task(isolation="process")
    def deaf_child() -> None:
        first = True
        while True:
            try:
                if first:
                    first = False
                    say("started", "deaf_child", os.getpid())
                time.sleep(3600)
            except BaseException:
                say("told", "and does not heed it")

    @app.task
    async def quick() -> str:
        say("ran", os.getpid())
        return "done"

    @app.task
    async def hoards() -> None:
        """Takes 300 MiB, and keeps them."""
        hoard.append(bytearray(b"x") * (300 << 20))

    @app.task
    async def forks() -> None:
        """Waits for the end of a child that TERM must be able to end."""
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(1)
        say("forked", child)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM

    @app.task
    async def deafening(disposition: str = "SIG_IGN") -> None:
        """Takes signals from the worker, for good."""
        for signum in (signal.SIGTERM, signal.SIGQUIT):
            signal.signal(signum, getattr(signal, disposition))
        say("started", "deafening", os.getpid())
        await asyncio.sleep(3600)

    @app.task
    async def listening() -> None:
        """Has a handler of its own beside the worker's."""
        signal.signal(signal.SIGTERM, lambda *_: say("heard"))
        say("started", "listening", os.getpid())
        await asyncio.sleep(3600)

    @app.before_first_fork
    def before_first_fork() -> None:
        say("moment", "before_first_fork")

    @app.worker_exit
    def worker_exit() -> None:
        say("moment", "worker_exit")

    return app


def work(url: str, tasks: list[str], options: dict[str, Any]) -> None:
    """Enqueue a job of each of these tasks, work until stopped, and say with which status and what became of the jobs."""
    logging.basicConfig(level=logging.INFO)  # by which tests see that a signal was heard
    signal.signal(signal.SIGALRM, lambda *_: say("alarm"))
    with make_app(url) as app:
        jobs = [app.tasks[task].enqueue() for task in tasks]
        status = app.worker(**options).run()
        say("ended", status, [ended(job) for job in jobs])


def ended(job: Job[Any]) -> list[Any]:
    """What became of a job: its state, its attempts, its losses and the kind of its last error."""
    record = job.refresh().record
    assert record is not None
    return [record.state, record.attempt, record.losses, record.error and record.error.type]
