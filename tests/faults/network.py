"""A network that fails all the time."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

from tenure import App
from tenure.core.job import JobRecord
from tests.servers.proxy import Proxy

__all__ = ["LEASE", "after_a_lost_lease", "failing"]

LEASE = 31.25
"""Seconds that a worker asks for which nobody else does: a request that says so is for leases."""


async def after_a_lost_lease(app: App, proxy: Proxy, saying: bytes) -> JobRecord:
    """What becomes of a job if the first request for leases, which is the one `saying` this, is granted and its answer is lost."""

    @app.task
    async def work() -> int:
        return 7

    job = await work.aenqueue()
    proxy.lose_reply(to=saying)
    async with app.worker(lease=LEASE):
        assert await job.aresult(timeout=20) == 7, "before the lease has expired"
    assert proxy.lost.is_set()
    assert job.record is not None
    return job.record


@contextlib.contextmanager
def failing(proxy: Proxy, request: bytes, chance: random.Random) -> Iterator[None]:
    """While the block runs: answers to such requests are lost, connections are cut, silent or slow, at any instant."""
    over = threading.Event()

    def fail() -> None:
        while not over.wait(chance.uniform(0, 0.1)):
            match chance.choice(["lose", "lose", "lose", "cut", "deafen", "drip"]):
                case "lose":
                    proxy.lose_reply(to=request)
                case "cut":
                    proxy.cut()
                case "deafen" if chance.random() < 0.3:
                    proxy.deafen()
                case _:
                    proxy.drip = 0.001
                    over.wait(0.05)
                    proxy.drip = None

    thread = threading.Thread(target=fail)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        proxy.heal()
