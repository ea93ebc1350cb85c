"""Hooks around enqueueing, in every way in which a job comes to exist: they may refuse it, and are told once it is stored."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure import App, Context, Next, State
from tenure.errors import EnqueueRefused, UseAsync
from tenure.jobs.enqueue_hooks import Enqueueing

from .conftest import Do, whatever_the_store
from .conftest import _blocking as blocking
from .shop import Shop, names, shop

__all__ = ["shop"]


# Refusal, and every way to enqueue.


Way = Callable[[Shop, Do], Any]


async def in_a_batch(shop: Shop, do: Do) -> None:
    def block() -> None:
        with shop.app.batch():
            shop.send.enqueue("you")
            shop.add.enqueue(1)
            shop.order.start(sku="s")

    async def ablock() -> None:
        async with shop.app.batch():
            shop.send.enqueue("you")
            await shop.add.aenqueue(1)
            await shop.order.astart(sku="s")

    await (asyncio.to_thread(block) if do is blocking else ablock())


WAYS: dict[str, tuple[Way, int]] = {
    "one": (lambda shop, do: do(shop.add.enqueue, 1), 1),
    "using": (lambda shop, do: do(shop.add.using(delay=60, queue="vip").enqueue, 1), 1),
    "many": (lambda shop, do: do(shop.add.enqueue_many, [(0,), (1,)]), 2),
    "bound": (lambda shop, do: do(shop.app.enqueue, shop.send.bind("you"), shop.add.bind(1), shop.order.bind(sku="s")), 3),
    "blocker": (lambda shop, do: do(shop.send.using(after=[shop.add.bind(1)]).enqueue, "you"), 2),
    "batch": (in_a_batch, 3),
    "start": (lambda shop, do: do(shop.order.start, sku="s"), 1),
    "start later": (lambda shop, do: do(shop.order.using(delay=60).start, sku="s"), 1),
    "start many": (lambda shop, do: do(shop.order.start_many, [{"sku": "r"}, {"sku": "s"}]), 2),
    "remote": (lambda shop, do: do(shop.app.remote("add", queue="sums").enqueue, 1), 1),
}  # fmt: skip


async def test_a_refusal_stores_nothing_however_it_is_enqueued(shop: Shop, one_way: Do) -> None:  # R4
    asked: list[str] = []
    refusing = True

    @shop.app.before_enqueue
    async def refuse(call: Enqueueing) -> bool:
        await asyncio.sleep(0)
        return not (
            refusing and (call.args[:1] == (1,) or call.kwargs.get("a") == 1 or call.attributes.get("sku") == "s")
        )

    shop.app.before_enqueue(lambda call: asked.append(call.task))

    for name, (enqueue, jobs) in WAYS.items():
        asked.clear()
        with pytest.raises(EnqueueRefused, match="no job of this call was enqueued") as refused:
            await enqueue(shop, one_way)
        assert len(asked) == jobs, f"{name}: all are asked, whatever the first has said"
        assert refused.value.hook.endswith("refuse")
    assert await shop.stored() == 0
    assert await shop.app.aflows() == []
    assert all(queue.waiting == queue.blocked == 0 for queue in await shop.app.aqueues())

    refusing = False
    for enqueue, _ in WAYS.values():
        await enqueue(shop, one_way)
    assert await shop.stored() == sum(jobs for _, jobs in WAYS.values())


@whatever_the_store
async def test_only_false_refuses_and_an_exception_propagates(shop: Shop, do: Do) -> None:  # R4
    answers: list[Any] = [None, 0, "", True]
    shop.add.before_enqueue(lambda call: answers.pop())
    while answers:
        await do(shop.add.enqueue, 1)
    assert await shop.stored() == 4
    with pytest.raises(IndexError):
        await do(shop.add.enqueue, 1)
    assert await shop.stored() == 4
    await do(shop.send.enqueue, "you")


@whatever_the_store
async def test_every_way_to_enqueue_is_told_of(shop: Shop, do: Do) -> None:  # R3, R5
    shop.watch()
    for name, (enqueue, jobs) in WAYS.items():
        shop.seen.clear()
        await enqueue(shop, do)
        before, after = names(shop.seen, "before"), names(shop.seen, "after")
        assert len(before) == jobs, name
        assert after == before, name
    assert {name for moment, name, *_ in shop.seen} == {"add"}


async def test_what_was_not_stored_is_not_told_of(shop: Shop, one_way: Do) -> None:
    shop.watch()
    first = await one_way(shop.add.using(unique="k").enqueue, 1)
    second = await one_way(shop.add.using(unique="k").enqueue, 1)

    assert second.duplicate
    assert second.id == first.id
    assert (names(shop.seen, "before"), names(shop.seen, "after")) == (["add", "add"], ["add"])


@whatever_the_store
async def test_a_block_that_raises_asks_nobody(shop: Shop) -> None:
    shop.watch()
    with pytest.raises(LookupError):
        async with shop.app.batch():
            shop.add.enqueue(1)
            raise LookupError
    assert shop.seen == []


@whatever_the_store
async def test_hooks_of_a_first_step_are_asked_about_starts(shop: Shop, do: Do) -> None:  # R4
    shop.reserve.before_enqueue(lambda call: call.attributes["sku"] != "none")
    shop.reserve.after_enqueue(lambda run: shop.seen.append(run.flow))

    run = await do(shop.order.start, sku="some")
    with pytest.raises(EnqueueRefused, match=r"order\.reserve"):
        await do(shop.order.start, sku="none")
    assert (shop.seen, [each.id for each in await shop.app.aflows()]) == (["order"], [run.id])


@whatever_the_store
async def test_an_error_after_the_enqueue_reaches_the_caller_and_the_job_exists(shop: Shop, do: Do) -> None:
    @shop.add.after_enqueue
    async def broken(job: Any) -> None:
        raise LookupError("no counter")

    with pytest.raises(LookupError, match="no counter"):
        await do(shop.add.enqueue, 1)
    assert await shop.stored() == 1


@whatever_the_store
async def test_what_comes_to_exist_by_a_completion_from_outside_is_asked_about(shop: Shop, do: Do) -> None:  # R4
    answers = [False, None]
    shop.add.before_enqueue(lambda call: answers.pop(0))
    shop.add.after_enqueue(lambda job: shop.seen.append(job.id))
    run = await do(shop.order.start, sku="s")
    value = Next("charge").using(after=[shop.add.bind(1)])

    with pytest.raises(EnqueueRefused):
        await do(run.complete, value)
    assert (await do(run.refresh)).state is State.WAITING
    await do(run.complete, value)
    [added] = await shop.app.ajobs(task="add")
    assert shop.seen == [added.id]

    [held] = await shop.app.alease("sums")
    await do(held.finish, 3)
    [held] = await shop.app.alease("default")
    answers += [False, None]
    with pytest.raises(EnqueueRefused):
        await do(held.finish, value)
    await do(held.finish, value)
    assert len(shop.seen) == 2


# In the caller's transaction.


@asynccontextmanager
async def transaction(url: str) -> AsyncIterator[tuple[Any, Callable[[], Any]]]:
    """A connection in a transaction, and what rolls that back."""
    if url.startswith("sqlite"):
        own = sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)
        try:
            yield own, lambda: asyncio.to_thread(own.rollback)
        finally:
            own.close()
    else:
        connection = await asyncpg.connect(url.partition("?")[0])
        begun = connection.transaction()
        await begun.start()
        try:
            yield connection, begun.rollback
        finally:
            await connection.close()


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_hooks_of_a_transactional_enqueue_are_called_when_it_is_written(url: str, shop: Shop) -> None:  # R3, R4
    shop.watch()
    shop.send.before_enqueue(lambda call: False)
    await shop.app.aqueues()
    async with transaction(url) as (connection, roll_back):
        add, send = shop.add.using(connection=connection), shop.send.using(connection=connection)
        await add.aenqueue(1)
        assert shop.seen == [("before", "add", (1,), {}), ("after", "add", State.WAITING)]
        with pytest.raises(EnqueueRefused):
            await send.aenqueue("you")
        with pytest.raises(EnqueueRefused):
            await shop.app.aenqueue(shop.add.bind(2), shop.send.bind("you"), connection=connection)
        await shop.order.using(connection=connection).astart(sku="s")
        assert names(shop.seen, "after") == ["add", "order"]
        await roll_back()
    assert await shop.stored() == 0


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_hooks_of_a_blocking_transactional_enqueue(url: str, shop: Shop) -> None:
    shop.watch()
    await shop.app.aqueues()

    def write() -> None:
        own = sqlite3.connect(url.removeprefix("sqlite:///"))
        shop.add.using(connection=own).enqueue(1)
        shop.seen.append(("commits",))
        own.commit()
        own.close()

    await asyncio.to_thread(write)
    assert [each[0] for each in shop.seen] == ["before", "after", "commits"]
    assert await shop.stored() == 1


# Where they are enqueued, and by jobs.


async def test_hooks_see_what_runs_inline_and_what_that_enqueues(no_store: App, do: Do) -> None:
    shop = Shop(no_store)
    flow = no_store.flow("tree")

    @flow.step
    def root(ctx: Context) -> Next:
        ctx.enqueue(shop.add.bind(7))
        return Next("leaf").using(after=[shop.add.bind(8)])

    @flow.step
    async def leaf(ctx: Context, results: list[int]) -> list[int]:
        return results

    shop.watch()
    async with no_store.inline(raises=False):
        run = await do(flow.start)
        assert await do(run.result) == [10]

    asked = [(name, args) for moment, name, args, *_ in shop.seen if moment == "before"]
    assert asked == [("tree", ()), ("add", (7,)), ("add", (8,))]
    assert names(shop.seen, "after") == ["tree", "add", "add"]


async def test_a_refusal_inline_is_an_error_of_the_call_or_of_the_job(no_store: App, do: Do) -> None:
    shop = Shop(no_store)

    @no_store.task(max_attempts=1)
    def parent(ctx: Context) -> None:
        ctx.enqueue(shop.add.bind(1))

    shop.add.before_enqueue(lambda call: False)
    async with no_store.inline(raises=False):
        with pytest.raises(EnqueueRefused):
            await do(shop.add.enqueue, 1)
        job = await do(parent.enqueue)
        assert job.failed
        assert job.error is not None
        assert job.error.type == "EnqueueRefused"


async def test_a_coroutine_awaits_async_hooks_of_what_it_enqueues(no_store: App) -> None:
    shop = Shop(no_store)
    refusals: list[str] = []

    @no_store.task
    async def parent(ctx: Context, twin: bool) -> None:
        if twin:
            await ctx.aenqueue(shop.add.bind(1))
        else:
            try:
                ctx.enqueue(shop.add.bind(2))
            except UseAsync as error:
                refusals.append(str(error))

    @no_store.task
    def plain(ctx: Context) -> None:
        ctx.enqueue(shop.add.bind(3))

    shop.watch()

    @shop.add.before_enqueue
    async def asked(call: Enqueueing) -> None:
        await asyncio.sleep(0)
        shop.seen.append(("asked", call.args))

    async with no_store.inline(raises=False):
        for call in (parent.bind(twin=True), parent.bind(twin=False), plain.bind()):
            await no_store.aenqueue(call)
    assert [args for moment, args, *_ in shop.seen if moment == "asked"] == [(1,), (3,)]
    [refusal] = refusals
    assert "await ctx.aenqueue()" in refusal
