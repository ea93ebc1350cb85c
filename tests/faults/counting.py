"""Jobs that end in every way there is, and workers that remove their records as soon as they may."""

from __future__ import annotations

import asyncio
import os
import signal

from tenure import App, Backoff, Context, Fail, Retention, Retry

from .processes import say

__all__ = ["make_app", "work"]


def make_app(url: str) -> App:
    """An app that keeps hardly any finished job."""
    app = App(url, retry=Backoff(initial=0), max_attempts=3, keep=Retention(count=2))

    @app.task
    async def succeed(number: int = 0) -> None: ...

    @app.task
    async def stumble(ctx: Context) -> None:
        """Fails once by an error and once by its own word, then succeeds."""
        if ctx.attempt == 1:
            raise ValueError("boom")
        if ctx.attempt == 2:
            raise Retry("not yet", after=0)

    @app.task
    async def give_up() -> None:
        raise Fail("no")

    @app.task(isolation="process", max_attempts=2)
    def crash() -> None:
        """A signal kills its process, every time."""
        os.kill(os.getpid(), signal.SIGKILL)

    @app.task
    async def deadly(ctx: Context) -> None:
        """Takes its worker along, the first time."""
        if ctx.job.losses == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    @app.task
    async def linger() -> None:
        say("lingering")
        await asyncio.sleep(3600)

    return app


def work(url: str, *queues: str) -> None:
    """Work in this process until it is told to stop."""
    make_app(url).worker(queues, concurrency=4, prune_interval=0.1).run()
