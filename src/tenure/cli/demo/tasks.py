"""The app and the tasks of `tenure demo`, which its worker processes import; TENURE_URL names the store."""

from __future__ import annotations

import asyncio
import time

from tenure import App, Backoff, Context

__all__ = ["app"]

# A short lease, so that another worker soon gets the jobs of a killed one.
app = App(lease=2, retry=Backoff(initial=0.3, maximum=1))


@app.task(queue="quick")
async def quick() -> str:
    """Waits a moment, as most jobs do, such as for a server."""
    await asyncio.sleep(0.03)
    return "done"


@app.task(queue="slow")
def slow() -> str:
    """Blocks; a plain function runs in a thread."""
    time.sleep(0.5)
    return "done"


@app.task(queue="flaky")
async def flaky(ctx: Context) -> str:
    """Fails twice, then succeeds; an attempt that was lost with its worker does not count."""
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
    """Is enqueued with a delay."""
    return "in time"


@app.task(queue="victim")
async def victim(ctx: Context) -> str:
    """Waits for the kill -9 that the demo sends to its worker; the next worker finishes it at once."""
    if ctx.job.losses == 0:
        await asyncio.sleep(60)
    return "survived"
