"""NoStore: a store that leases made-up jobs and accepts every settlement, to measure a worker without a store.

The figure is the time of decode, call, encode and settle, in microseconds per job.
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
    """Leases out `left` jobs."""

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
        # The worker releases jobs that it leased ahead and did not start in time, from another thread.
        if given_back := sum(isinstance(transition, Requeue) for _, transition in settlements):
            with LOCK:
                NoStore.left += given_back
        return [OK] * len(settlements)

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        await asyncio.sleep(0)
        return await self.settle(settlements), await self.lease(request)

    async def queues(self, after: str = "", limit: int | None = None) -> list[QueueInfo]:  # noqa: ARG002
        return [QueueInfo(name="default", waiting=1)]


async def overhead(number: int, concurrency: int, *, bare: bool = False) -> float:
    """Seconds of a worker for one awaited no-op job; `bare`: without the wrapper that sends events."""
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
