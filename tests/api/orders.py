"""A flow of orders, whose runs wait to be approved, and somebody who works for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure import App
from tenure.core.outcome import Fail, Wait
from tenure.jobs.run import FlowRun
from tenure.tasks.flow import Flow
from tests.conftest import KINDS, a_url

from .conftest import Do

__all__ = ["make_order", "url", "waiting_run", "work"]


@pytest.fixture(params=["memory", "sqlite", *(pytest.param(kind, marks=pytest.mark.long) for kind in KINDS[2:])])
def url(request: pytest.FixtureRequest) -> str:
    """Stores with a server in long runs only: most of this is the same code on all, and conformance has what is not."""
    return a_url(request)


def make_order(app: App) -> Flow:
    """Three steps, of which the second waits for somebody; each in a queue of its own."""
    order = app.flow("order", lookup=["customer", "tags"])

    @order.step(then="approve", queue="stock", retry=None)
    async def reserve(sku: str) -> dict[str, str]:
        if sku == "none":
            raise Fail("sold out")
        return {"reservation": f"r-{sku}"}

    @order.step(then="ship", queue="desk")
    async def approve() -> Wait:
        return Wait()

    @order.step(queue="dock", retry=None)
    async def ship(reservation: str, approved: bool) -> str:
        if not approved:
            raise ValueError("not approved")
        return f"shipped {reservation}"

    @order.step(queue="dock")
    async def refuse(why: str = "") -> str:
        return f"refused: {why}"

    return order


async def work(app: App, *queues: str) -> None:
    """Run everything that can be run in these queues, or in all."""
    await asyncio.to_thread(app.worker(queues or ["*"], poll=0.05).run, until_empty=True)


async def waiting_run(app: App, do: Do, **attributes: Any) -> FlowRun:
    """A run that waits to be approved."""
    run: FlowRun = await do(make_order(app).start, **{"sku": "x", "customer": "c1"} | attributes)
    await work(app)
    return run
