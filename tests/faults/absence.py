"""Fifty workers in one process while their server is away: what both kinds of server must show."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from tenure import App
from tests.servers.proxy import Proxy

__all__ = ["ridden_out"]


async def ridden_out(
    url: str,
    proxy: Proxy,
    stop: Callable[[], object],
    start: Callable[[], object],
    caplog: pytest.LogCaptureFixture,
    seconds: int,
) -> None:
    """Show that all of them find back after so many seconds, say so once each, and do not storm the server meanwhile."""
    caplog.set_level(logging.WARNING, logger="tenure.worker")
    app = App(url)

    @app.task
    async def quick() -> int:
        return 7

    workers = [app.worker() for _ in range(50)]
    await asyncio.gather(*(worker.start() for worker in workers))
    await (await quick.aenqueue()).aresult(timeout=10)
    await _all_back(caplog)  # a busy machine may have kept some waiting while fifty began
    caplog.clear()

    await asyncio.to_thread(stop)
    async with asyncio.timeout(30):
        # Their first tries come soon, and are not what is counted.
        while _said(caplog, "is down") < 50:
            await asyncio.sleep(0.1)
    await asyncio.sleep(seconds / 2)
    tries = proxy.tries
    await asyncio.sleep(seconds / 2)
    rate = (proxy.tries - tries) / (seconds / 2)
    await asyncio.to_thread(start)
    job = await quick.aenqueue()

    assert await job.aresult(timeout=30) == 7
    await _all_back(caplog)
    assert 50 <= _said(caplog, "is down") <= 75, "one line each, and a few whose call was under way when it came back"
    assert rate < 50 * 8, "tries to connect in a second; a worker is several who need the store"
    await asyncio.gather(*(worker.stop() for worker in workers))
    await app.aclose()


async def _all_back(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until everybody for whom the store was gone has said that it is back."""
    async with asyncio.timeout(30):
        while _said(caplog, "is back") < _said(caplog, "is down"):
            await asyncio.sleep(0.1)


def _said(caplog: pytest.LogCaptureFixture, what: str) -> int:
    return sum(f"the store {what}" in message for message in caplog.messages)
