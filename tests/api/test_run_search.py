"""How runs are found: by what they know, by their flow and by their state."""

from __future__ import annotations

import enum
import uuid
from typing import Any

import pytest

from tenure import App, State
from tenure.errors import InvalidName, InvalidOption

from .conftest import Do, one_way
from .orders import make_order, url, waiting_run, work

__all__ = ["url"]

do = one_way


class Colour(enum.Enum):
    RED = "red"


async def test_runs_are_found_by_lookup_attributes(app: App, do: Do) -> None:  # G40, G41
    order = make_order(app)
    one = await do(order.start, sku="x", customer="c1", tags=["a", "b", 7])
    two = await do(order.start, sku="x", customer="c1", tags=["b"])
    await do(order.start, sku="x", customer="c2", tags="c")

    async def found(**attribute: Any) -> list[str]:
        return [run.id for run in await do(order.find, **attribute)]

    assert await found(customer="c1") == [two.id, one.id]
    assert await found(tags="b") == [two.id, one.id]
    assert await found(tags="a") == [one.id]
    assert await found(tags=7) == [one.id]
    assert await found(tags="7") == []
    assert await found(customer="c3") == []
    page = await do(order.find, customer="c1", limit=1)
    assert [run.id for run in await do(order.find, customer="c1", limit=1, cursor=page.cursor)] == [one.id]


@pytest.mark.parametrize("value", [True, 1.5, -3, "", "ä\x00€", "x" * 5000, 2**63 - 1])
async def test_every_scalar_finds_its_run_and_no_other(app: App, do: Do, value: Any) -> None:
    order = make_order(app)
    run = await do(order.start, sku="x", customer=value)
    await do(order.start, sku="x", customer=f"{value}.")

    assert [found.id for found in await do(order.find, customer=value)] == [run.id]


async def test_a_value_with_a_type_finds_its_run(app: App, do: Do) -> None:
    typed = app.flow("typed", lookup=["colour", "key"])

    @typed.step
    async def only(colour: Colour, key: uuid.UUID) -> None: ...

    key = uuid.uuid4()
    run = await do(typed.start, colour=Colour.RED, key=key)

    assert [found.id for found in await do(typed.find, colour=Colour.RED)] == [run.id]
    assert [found.id for found in await do(typed.find, key=key)] == [run.id]


async def test_a_step_may_change_what_its_run_is_found_by(app: App, do: Do) -> None:
    run = await waiting_run(app, do)
    order = app.internals.flows["order"]
    await do(run.complete, {"approved": True, "customer": "c9"})
    assert [found.id for found in await do(order.find, customer="c9")] == [run.id]
    assert await do(order.find, customer="c1") == []


@pytest.mark.parametrize("search", [{}, {"customer": 1, "tags": 2}, {"sku": "x"}, {"customer": None}, {"customer": ["a"]},
                                    {"customer": {"a": 1}}, {"customer": object()}, {"customer": 1, "limit": 0}])  # fmt: skip
async def test_a_search_that_makes_no_sense_is_refused_before_any_io(
    no_store: App, do: Do, search: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOption):
        await do(make_order(no_store).find, **search)


async def test_runs_are_listed_by_flow_and_state(app: App, do: Do) -> None:  # Q63
    order = make_order(app)
    other = app.flow("other")

    @other.step(queue="other")
    async def only() -> None: ...

    runs = [await do(order.start, sku=sku) for sku in ("a", "none", "b")]
    await do(other.start)
    await work(app, "stock")

    async def listed(**search: Any) -> list[str]:
        return [run.id for run in await do(app.flows, **search)]

    assert await listed(flow="order") == [run.id for run in reversed(runs)]
    assert await listed(flow=order, state="failed") == [runs[1].id]
    assert await listed(flow=order, state=State.WAITING) == [runs[2].id, runs[0].id]
    assert len(await listed()) == 4
    assert await listed(flow="nothing") == []
    page = await do(app.flows, flow=order, limit=2)
    assert [run.id for run in await do(app.flows, flow=order, limit=2, cursor=page.cursor)] == [runs[0].id]


@pytest.mark.parametrize("search", [{"state": "lost"}, {"limit": 0}, {"limit": 1001}])
async def test_a_listing_that_makes_no_sense_is_refused_before_any_io(
    no_store: App, do: Do, search: dict[str, Any]
) -> None:
    with pytest.raises(InvalidOption):
        await do(no_store.flows, **search)
    with pytest.raises(InvalidName):
        await do(no_store.flows, flow="a b")
