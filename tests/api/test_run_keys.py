"""Runs with a unique key: it is held until the run has ended, or for a window, and a second start is the run that holds it."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import App, Job, State
from tenure.core.outcome import Done
from tenure.errors import UniqueConflict

from .conftest import Do, Timed, one_way
from .orders import make_order, url, work

__all__ = ["url"]

do = one_way


async def test_the_key_of_a_run_is_held_until_the_run_has_ended(app: App, do: Do) -> None:  # Q56, I14
    order = make_order(app)
    keyed = order.using(unique="cart:1")
    run = await do(keyed.start, sku="x", customer="c1")
    await work(app)

    again = await do(keyed.start, sku="y", customer="c2")
    assert (again.id, again.duplicate, run.duplicate) == (run.id, True, False)
    assert again.step is None
    assert (await do(again.refresh)).step == "approve"
    assert (await do(again.attributes))["sku"] == "x"
    with pytest.raises(UniqueConflict) as conflict:
        await do(keyed.using(unique_raises=True).start, sku="y")
    assert conflict.value.holder == run.id

    await do(run.complete, Done())
    assert not (await do(keyed.start, sku="y")).duplicate


@pytest.mark.parametrize("end", ["fail", "cancel", "delete", "complete"])
async def test_every_end_of_a_run_frees_its_key(app: App, do: Do, end: str) -> None:  # F26, I14
    keyed = make_order(app).using(unique="k")
    run = await do(keyed.start, sku="none" if end == "fail" else "x")
    await work(app)
    match end:
        case "complete":
            await do(run.complete, Done())
        case "cancel" | "delete":
            await do(getattr(run, end))

    assert not (await do(keyed.start, sku="x")).duplicate


async def test_a_window_outlasts_the_run_and_ends_by_itself(timed: Timed) -> None:  # Q56
    app, clock = timed
    keyed = make_order(app).using(unique="k", window=60)
    run = await keyed.astart(sku="x")
    await run.acomplete({"reservation": "r"})
    await run.acomplete(Done())
    clock.advance(59)
    again = await keyed.astart(sku="x")
    assert (again.id, again.duplicate) == (run.id, True)
    assert (await again.arefresh()).state is State.SUCCEEDED
    clock.advance(1)

    assert not (await keyed.astart(sku="x")).duplicate


async def test_a_key_made_from_the_attributes(app: App, do: Do) -> None:
    keyed = make_order(app).using(unique=True)
    run = await do(keyed.start, sku="x", customer="c1")
    assert (await do(keyed.start, customer="c1", sku="x")).id == run.id
    assert not (await do(keyed.start, customer="c2", sku="x")).duplicate


async def test_retrying_a_run_whose_key_is_taken_names_the_holder(app: App, do: Do) -> None:
    keyed = make_order(app).using(unique="k")
    run = await do(keyed.start, sku="none")
    await work(app)
    holder = await do(keyed.start, sku="x")

    with pytest.raises(UniqueConflict) as conflict:
        await do(run.retry)

    assert (conflict.value.key, conflict.value.holder) == ("k", holder.id)


async def test_a_duplicate_that_is_a_run_is_completed_as_one(app: App, do: Do) -> None:
    run = await do(make_order(app).using(unique="k").start, sku="x")
    stray: Job[Any] = await do(app.remote("order.reserve", queue="stock").using(unique="k").enqueue)
    assert (stray.id, stray.duplicate) == (run.id, True)

    await do(stray.complete, {"reservation": "r"})

    assert (await do(run.refresh)).step == "approve"
