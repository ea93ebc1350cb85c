"""Hooks around enqueueing and cancelling: order, refusal, and every way in which a job comes to exist."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure import App, Context, FlowRun, Job, Next, State
from tenure.enqueueing import Dequeueing, Enqueueing
from tenure.errors import EnqueueRefused, InvalidOption, UseAsync

from .conftest import Do
from .conftest import _blocking as blocking

whatever_the_store = pytest.mark.parametrize("url", ["memory"], indirect=True)


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


# Order.


@whatever_the_store
async def test_the_hooks_of_the_app_are_around_those_of_the_task(shop: Shop, do: Do) -> None:  # R3
    seen = shop.seen
    shop.add.before_enqueue(lambda call: seen.append("task 1"))

    @shop.app.before_enqueue
    async def first(call: Enqueueing) -> None:
        await asyncio.sleep(0)
        seen.append(("app 1", await shop.stored()))

    @shop.app.before_enqueue
    def second(call: Enqueueing) -> None:
        seen.append("app 2")

    @shop.add.after_enqueue
    async def stored(job: Any) -> None:
        seen.append(("after task 1", job.id, await shop.stored()))

    shop.add.after_enqueue(lambda job: seen.append("after task 2"))
    shop.app.after_enqueue(lambda job: seen.append("after app 1"))
    shop.app.after_enqueue(lambda job: seen.append("after app 2"))

    job = await do(shop.add.enqueue, 1)
    assert seen == [
        ("app 1", 0), "app 2", "task 1",
        "after task 2", ("after task 1", job.id, 1), "after app 2", "after app 1",
    ]  # fmt: skip

    seen.clear()
    await do(shop.send.enqueue, "you")
    assert seen == [("app 1", 1), "app 2", "after app 2", "after app 1"]


@whatever_the_store
async def test_a_hook_sees_what_is_about_to_be_enqueued(shop: Shop, do: Do) -> None:  # R3, R5
    seen: list[Enqueueing] = []
    shop.app.before_enqueue(seen.append)

    job = await do(shop.add.using(queue="vip", priority=-3, tags=["x"], delay=60, unique=True).enqueue, 1, b=5)
    run = await do(shop.order.start, sku="s1", more=[1])
    await do(shop.app.remote("elsewhere", queue="far").enqueue, 1, two=2)

    add, start, far = seen
    assert (add.id, add.task, add.queue, add.flow) == (job.id, "add", "vip", None)
    assert (add.args, add.kwargs, add.attributes) == ((1,), {"b": 5}, {})
    assert (add.job.priority, add.job.tags, add.job.delay) == (-3, ("x",), 60)
    assert add.job.unique
    assert (start.id, start.task, start.flow) == (run.id, "order.reserve", "order")
    assert (start.args, start.kwargs) == ((), {"sku": "s1", "more": [1]})
    assert start.attributes == start.kwargs
    assert (far.task, far.queue, far.args, far.kwargs) == ("elsewhere", "far", (1,), {"two": 2})


@whatever_the_store
async def test_blocking_hooks_of_blocking_code_run_on_its_thread_and_may_use_the_app(shop: Shop) -> None:
    @shop.app.before_enqueue
    def asked(call: Enqueueing) -> None:
        shop.seen.append(len(shop.app.jobs()))

    @shop.app.after_enqueue
    def told(job: Any) -> None:
        shop.seen.append(len(shop.app.jobs()))

    await asyncio.to_thread(shop.add.enqueue, 1)
    assert shop.seen == [0, 1]


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
        with pytest.raises(EnqueueRefused, match="nothing of this call was enqueued") as refused:
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
    async with no_store.inline():
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
    async with no_store.inline():
        with pytest.raises(EnqueueRefused):
            await do(shop.add.enqueue, 1)
        job = await do(parent.enqueue)
        assert job.failed
        assert job.error is not None
        assert job.error.type == "EnqueueRefused"


async def test_the_hooks_around_attempts_are_called_inline_too(no_store: App, do: Do) -> None:
    seen: list[Any] = []
    no_store.before_perform(lambda ctx: seen.append("before"))
    no_store.after_perform(lambda ctx, result: seen.append(("after", result)))
    no_store.on_failure(lambda ctx, error, final: seen.append((type(error).__name__, final)))

    @no_store.task(max_attempts=2)
    def divide(by: int) -> float:
        return 1 / by

    async with no_store.inline():
        await do(divide.enqueue, 2)
        await do(divide.enqueue, 0)
    failed = ["before", ("ZeroDivisionError", False), "before", ("ZeroDivisionError", True)]
    assert seen == ["before", ("after", 0.5), *failed]


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

    async with no_store.inline():
        for call in (parent.bind(twin=True), parent.bind(twin=False), plain.bind()):
            await no_store.aenqueue(call)
    assert [args for moment, args, *_ in shop.seen if moment == "asked"] == [(1,), (3,)]
    [refusal] = refusals
    assert "await ctx.aenqueue()" in refusal


# Cancelling by task and arguments.


async def test_a_veto_keeps_jobs_from_being_cancelled(shop: Shop, one_way: Do) -> None:  # R10
    answers: list[bool | None] = [False, None]
    counts: list[tuple[str, tuple[Any, ...], int]] = []
    asked: list[str] = []

    @shop.add.before_dequeue
    async def veto(call: Dequeueing) -> bool | None:
        await asyncio.sleep(0)
        return answers.pop(0)

    shop.app.before_dequeue(lambda call: asked.append(call.task))

    @shop.app.after_dequeue
    def told(call: Dequeueing, cancelled: int) -> None:
        counts.append((call.task, call.args, cancelled))

    jobs = [await one_way(shop.add.enqueue, n) for n in (1, 1, 2)]
    other = await one_way(shop.send.enqueue, "you")

    assert await one_way(shop.app.cancel, other, shop.send.bind("you"), shop.add.bind(1)) == 0
    assert (asked, counts) == (["send", "add"], [])
    assert {job.state for job in await shop.app.ajobs()} == {State.WAITING}

    assert await one_way(shop.app.cancel, shop.add.bind(1)) == 2
    assert counts == [("add", (1,), 2)]
    assert [(await shop.app.ajob(job.id)).state for job in jobs] == [State.CANCELLED, State.CANCELLED, State.WAITING]


@whatever_the_store
async def test_cancelling_by_id_or_queue_asks_no_hook(shop: Shop, do: Do) -> None:  # R10
    shop.app.before_dequeue(lambda call: False)
    job = await do(shop.add.enqueue, 1)
    await do(shop.add.enqueue, 1)
    assert await do(shop.app.cancel, job) == 1
    assert await do(shop.app.cancel, queue="sums") == 1


# Wrong use.


@whatever_the_store
def test_wrong_use_is_an_error_in_one_sentence(shop: Shop) -> None:
    with pytest.raises(InvalidOption, match="before_enqueue takes a function, got 'no'"):
        shop.app.before_enqueue("no")  # type: ignore[type-var]
    with pytest.raises(
        InvalidOption, match=r"on_failure is called with \(ctx, error, final\), and .*\(ctx.*\) does not take that"
    ):
        shop.add.on_failure(lambda ctx: None)  # type: ignore[type-var]
    with pytest.raises(InvalidOption, match="there is no hook 'before_enqueu': there are before_enqueue, "):
        shop.app.hooks.add("before_enqueu", print)
    with pytest.raises(AttributeError, match="there is no hook 'before_enqueu': there are before_enqueue, "):
        shop.app.before_enqueu  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="before_fork is about a worker, not about one task"):
        shop.add.before_fork  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="'Task' object has no attribute 'colour'"):
        shop.add.colour  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(InvalidOption, match=r"middleware is called with \(ctx, call_next\)"):
        shop.app.middleware(lambda ctx: ctx)  # type: ignore[type-var]
    with pytest.raises(InvalidOption, match="middleware is an async function"):
        shop.app.worker(middleware=[3])  # type: ignore[list-item]


@whatever_the_store
def test_a_hook_is_what_it_was(shop: Shop) -> None:
    def hook(call: Enqueueing) -> None: ...

    assert shop.app.before_enqueue(hook) is hook
    assert shop.reserve.before_enqueue(hook) is hook
