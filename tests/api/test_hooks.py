"""Hooks of the app and of tasks: their order, what they see, cancelling, and wrong use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure import App, State
from tenure.errors import InvalidOption
from tenure.jobs.enqueue_hooks import Dequeueing, Enqueueing

from .conftest import Do, whatever_the_store
from .shop import Shop, shop

__all__ = ["shop"]


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


async def test_the_hooks_around_attempts_are_called_inline_too(no_store: App, do: Do) -> None:
    seen: list[Any] = []
    no_store.before_perform(lambda ctx: seen.append("before"))
    no_store.after_perform(lambda ctx, result: seen.append(("after", result)))
    no_store.on_failure(lambda ctx, error, final: seen.append((type(error).__name__, final)))

    @no_store.task(max_attempts=2)
    def divide(by: int) -> float:
        return 1 / by

    async with no_store.inline(raises=False):
        await do(divide.enqueue, 2)
        await do(divide.enqueue, 0)
    failed = ["before", ("ZeroDivisionError", False), "before", ("ZeroDivisionError", True)]
    assert seen == ["before", ("after", 0.5), *failed]


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
        shop.app.internals.hooks.add("before_enqueu", print)
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
