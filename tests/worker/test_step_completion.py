"""Steps that are completed in a transaction: their writes, their end and what follows are committed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure import App, Context, FlowRun, Next
from tenure.errors import JobFailed
from tenure.stores.base import Store

from .conftest import MakeApp, Start, retrying_app
from .effects import Effects

PATIENCE = 20.0

on_sql = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)


app = retrying_app


async def names(run: FlowRun) -> list[str]:
    return [step.name for step in await run.asteps()]


@on_sql
@pytest.mark.parametrize("lane", ["loop", "thread", "process"])
async def test_a_step_is_completed_in_a_transaction_with_what_follows(
    app: App, url: str, store: Store, start: Start, lane: str
) -> None:  # Q48, I13
    effects = await Effects.made(url, store)
    insert = effects.insert
    flow = app.flow("f")

    @app.task(queue="nobody")
    def child() -> None: ...

    async def on_loop(ctx: Context, n: int) -> None:
        async with ctx.complete() as tx:
            await tx.execute(insert, n * 10 + ctx.attempt)
            tx.result = {"m": n + 1} if n < 2 else Next("other", m=n + 1)
            ctx.enqueue(child.bind())
            if ctx.attempt == 1:
                raise ValueError("rolled back")

    def blocking(ctx: Context, n: int) -> None:
        with ctx.complete() as tx:
            tx.execute(insert, n * 10 + ctx.attempt)
            tx.result = {"m": n + 1} if n < 2 else Next("other", m=n + 1)
            ctx.enqueue(child.bind())
            if ctx.attempt == 1:
                raise ValueError("rolled back")

    options: dict[str, Any] = {"isolation": "process"} if lane == "process" else {}
    flow.step(name="one", then="two", **options)(on_loop if lane == "loop" else blocking)
    flow.step(name="two")(lambda m: f"two {m}")
    flow.step(name="other")(lambda m: f"other {m}")
    await start(app, "default")

    mapping, chosen = await flow.astart_many([{"n": 1}, {"n": 2}])

    assert await mapping.aresult(PATIENCE) == "two 2"
    assert await chosen.aresult(PATIENCE) == "other 3"
    assert await effects.rows() == [12, 22]
    assert [step.attempts for step in await mapping.asteps()] == [2, 1]
    assert len(await app.ajobs(queue="nobody")) == 2


@on_sql
async def test_a_transaction_that_hands_over_without_a_needed_attribute_is_rolled_back(
    make_app: MakeApp, url: str, store: Store, start: Start
) -> None:
    effects = await Effects.made(url, store)
    insert = effects.insert
    app = make_app(retry=None)
    flow = app.flow("f")

    @flow.step(then="two")
    async def one(ctx: Context) -> None:
        async with ctx.complete() as tx:
            await tx.execute(insert, 1)

    flow.step(name="two")(lambda m: m)
    await start(app)

    run = await flow.astart()
    with pytest.raises(JobFailed, match=r"MissingAttribute: step 'f\.two' needs the attribute 'm'"):
        await run.aresult(PATIENCE)
    assert await effects.rows() == []
    assert await names(run) == ["one"]


@on_sql
async def test_what_a_step_gives_after_its_transaction_is_dropped_with_a_warning(
    app: App, url: str, store: Store, start: Start, lines: Callable[[str], list[str]]
) -> None:
    await Effects.made(url, store)
    flow = app.flow("f")

    @flow.step(then="two")
    def one(ctx: Context, late: bool) -> dict[str, int] | None:
        with ctx.complete() as tx:
            tx.result = {"m": 1}
        return {"m": 2} if late else None

    flow.step(name="two")(lambda m: m)
    await start(app)

    for late in (False, True):
        assert await (await flow.astart(late=late)).aresult(PATIENCE) == 1
        assert len(lines("its return value is dropped")) == late
