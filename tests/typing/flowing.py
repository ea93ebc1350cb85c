"""What type checkers must accept and must refuse of flows; as `producing.py`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, assert_type

from tenure import App, Backoff, Context, Done, Flow, FlowRun, Job, Next, RemoteFlow, Task, Wait
from tenure.tasks.flow import AsyncStep, FlowWorkers, Start, Starter, Step
from tenure.worker.worker import Worker

app = App("memory://")
remote = app.remote_flow("trip", first="book", queue="desk", lookup=["customer"])
assert_type(remote, RemoteFlow)
assert_type(remote.start(customer="c1"), FlowRun)
assert_type(remote.using(delay=5).bind(customer="c1"), Start)
assert_type(remote.find(customer="c1")[0], FlowRun)
app.remote_flow("trip")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
order = app.flow("order", lookup=["customer"])
assert_type(order, Flow)
app.flow("order", look_up=["customer"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@order.step(then="charge", queue="stock", retry=Backoff(initial=1))
async def reserve(sku: str, quantity: int = 1) -> dict[str, str] | None:
    return {"reservation": f"{sku} {quantity}"}


@order.step(next=["receipt", "late"], timeout=5)
def charge(ctx: Context, reservation: str) -> Next | Wait | Done:
    match reservation:
        case "":
            return Next(receipt, amount=12).using(delay=60, priority=-1, after=[order.bind(), resize.bind(1), "id"])
        case "children":
            assert_type(ctx.enqueue(order.bind(sku="x")), list[FlowRun])
            return Next("receipt").using(after=ctx.enqueue(resize.bind(1), resize.bind(2)))
        case "wait":
            return Wait(timeout=5, on_timeout=receipt)
        case _:
            return Done(ctx.attempt)


@order.step
def receipt(amount: int, results: Sequence[int] = ()) -> int:
    return amount + sum(results)


@order.step(then=receipt)
async def late() -> None: ...


@app.task
def resize(n: int) -> int:
    return n


@order.step(them="charge")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator]
def misspelt() -> None: ...


# A step is a task, and is what its function was.
a_task: Task[..., int] = receipt
a_step: Step[..., int] = receipt
an_async_step: AsyncStep[..., dict[str, str] | None] = reserve
assert_type(receipt(12), int)
receipt("12")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Starting takes attributes, by name.
assert_type(order.start(sku="x", quantity=1, anything={"a": 1}), FlowRun)
assert_type(order.start_many([{"sku": "x"}]), list[FlowRun])
assert_type(order.using(delay=60, unique=True, tags=["vip"]), Starter)
assert_type(order.using(delay=60).start(sku="x"), FlowRun)
assert_type(order.bind(sku="x"), Start)
assert_type(app.enqueue(order.bind(sku="x")), list[FlowRun])
assert_type(app.enqueue(order.bind(sku="x"), resize.bind(1)), list[Job[Any] | FlowRun])
order.start("x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
order.using(wait=60)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
order.using(delay="60")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
order.using(after=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
assert_type(
    Next("x").using(queue="q", run_at=datetime.now(UTC), expires=None, tags=["a"], keep=0, max_attempts=None), Next
)
Next("x").using(unique=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Next("x").using(delay="60")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Next("x").using(if_blocker_fails="hope")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Next(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Wait(on_timeout=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# What waits takes whatever there is to wait for.
run = order.start(sku="x")
assert_type(resize.using(after=[run, order.bind(sku="x"), resize.bind(1), resize.enqueue(1)]).enqueue(1), Job[int])

# Workers of its own.
assert_type(order.worker(concurrency=5), Worker)
order.worker(threads=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
order.worker(queues=["x"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
order.step(raw=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
order.step(next="charge", priority="high")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
order.workers(reserve="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def twins() -> None:
    async with order.workers(reserve=2, charge=5) as serving:
        assert_type(serving, FlowWorkers)
    assert_type(await order.astart(sku="x"), FlowRun)
    assert_type(await order.astart_many([{"sku": "x"}]), list[FlowRun])
    assert_type(await reserve("x"), dict[str, str] | None)
    assert_type(await app.aenqueue(order.bind(sku="x")), list[FlowRun])
