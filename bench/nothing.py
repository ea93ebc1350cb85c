"""A store that stores nothing: hands out made-up jobs and agrees to whatever is settled.

What a worker costs without a store: decode, call, encode, settle, in microseconds a job.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

from tenure import App
from tenure.core.job import JobRecord, State
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Requeue
from tenure.stores.memory import MemoryStore
from tenure.stores.values import OK, Leased, LeaseRequest, QueueInfo, Settlement, Verdict

LOCK = threading.Lock()


class NoStore(MemoryStore):
    """Has `left` jobs to give."""

    left = 0

    async def lease(self, request: LeaseRequest) -> Leased:
        with LOCK:
            number = min(request.limit, NoStore.left)
            NoStore.left -= number
        token = Token(1, request.nonce)
        return Leased(
            [
                Lease(
                    JobRecord(str(index), "noop", "default", State.RUNNING, b"{}", attempt=1, fence=1),
                    token,
                    request.ttl,
                )
                for index in range(number)
            ]
        )

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        # Those that were leased ahead and not started in time: the keeper gives them back, from its thread.
        if given_back := sum(isinstance(transition, Requeue) for _, transition in settlements):
            with LOCK:
                NoStore.left += given_back
        return [OK] * len(settlements)

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        await asyncio.sleep(0)
        return await self.settle(settlements), await self.lease(request)

    async def queues(self) -> list[QueueInfo]:
        return [QueueInfo(name="default", waiting=1)]


async def overhead(number: int, concurrency: int, *, bare: bool = False) -> float:
    """Seconds that a worker spends on one awaited no-op job; `bare`: without a look at who wants to be told of it."""
    app = App(NoStore, log=False)
    if bare:
        app.internals.new_store = NoStore  # type: ignore[method-assign]
    ran = 0

    @app.task
    async def noop() -> None:
        nonlocal ran
        ran += 1

    NoStore.left = number
    async with app.worker(concurrency=concurrency):
        begun = time.process_time()
        while ran < number:
            await asyncio.sleep(0.001)
        return (time.process_time() - begun) / number
