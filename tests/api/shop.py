"""A shop: tasks and a flow whose hooks note what they have seen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure import App, FlowRun, Job
from tenure.jobs.enqueue_hooks import Enqueueing

__all__ = ["Shop", "names", "shop"]


class Shop:
    """Tasks and a flow of an app, and what its hooks have seen."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.seen: list[Any] = []

        @app.task(queue="sums")
        def add(a: int, b: int = 2) -> int:
            return a + b

        @app.task(queue="mail")
        async def send(to: str) -> None: ...

        self.add, self.send = add, send
        self.order = order = app.flow("order")

        @order.step(then="charge")
        def reserve(sku: str) -> None: ...

        @order.step
        def charge(sku: str) -> None: ...

        self.reserve = reserve

    def watch(self) -> None:
        """Note every call of the hooks, by task, or by flow with attributes."""

        @self.app.before_enqueue
        def asked(call: Enqueueing) -> None:
            self.seen.append(("before", call.flow or call.task, call.args, call.kwargs))

        @self.app.after_enqueue
        async def told(job: Job[Any] | FlowRun) -> None:
            await asyncio.sleep(0)
            self.seen.append(("after", job.flow if isinstance(job, FlowRun) else job.task, job.state))

    async def stored(self) -> int:
        return len(await self.app.ajobs())


@pytest.fixture
def shop(app: App) -> Shop:
    return Shop(app)


def names(seen: list[Any], which: str) -> list[str]:
    return [name for moment, name, *_ in seen if moment == which]
