"""The tasks of `tenure demo`, as its worker processes import them; TENURE_URL tells them the store."""

from __future__ import annotations

import asyncio
import time

from tenure import App, Backoff, Context

__all__ = ["app"]

# A short lease, so that the jobs of a killed worker are with another one in a moment.
app = App(lease=2, retry=Backoff(initial=0.3, maximum=1))


@app.task(queue="quick")
async def quick() -> str:
    """What most jobs are: a short wait for somebody else."""
    await asyncio.sleep(0.03)
    return "done"


@app.task(queue="slow")
def slow() -> str:
    """A blocking function, which runs in a thread."""
    time.sleep(0.5)
    return "done"


@app.task(queue="flaky")
async def flaky(ctx: Context) -> str:
    """Fails twice before it works; an attempt that a kill cut short is none of the two."""
    failures = ctx.attempt - ctx.job.losses - 1
    if failures < 2:
        raise ConnectionError("no answer")
    return f"answered after {failures} failures"


@app.task(queue="hopeless", max_attempts=2)
async def hopeless() -> None:
    """Fails until its attempts are used up."""
    raise ValueError("this can never work")


@app.task(queue="later")
async def later() -> str:
    """Enqueued now, to run in a while."""
    return "in time"


@app.task(queue="victim")
async def victim(ctx: Context) -> str:
    """Waits for the kill -9 that the demo sends to its worker; whoever gets it next need not wait."""
    if ctx.job.losses == 0:
        await asyncio.sleep(60)
    return "survived"
