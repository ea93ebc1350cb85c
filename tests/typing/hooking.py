"""What type checkers must accept of hooks and must refuse. Not run; see producing.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, assert_type

from tenure import App, Context, Dequeueing, Enqueueing, Fail, FlowRun, Job
from tenure.core.job import NewJob

app = App("memory://")


@app.task
def add(a: int, b: int = 2) -> int:
    return a + b


order = app.flow("order")


@order.step
async def reserve(sku: str) -> None: ...


# A hook stays what it is, def or async def.


@app.before_enqueue
def only_small(call: Enqueueing) -> bool:
    return len(call.args) < 3 and call.queue != "x" and call.job.priority == 0


@app.before_enqueue
@add.before_enqueue
async def only_open(call: Enqueueing) -> bool | None:
    return None if call.flow is None else "sku" in call.attributes


assert_type(only_small(Enqueueing(app, NewJob(id="", task="add", queue="default", payload=b"{}"))), bool)


@app.after_enqueue
def told(job: Job[Any] | FlowRun) -> None:
    print(job.id)


@add.after_enqueue
async def told_later(job: object) -> None: ...


@app.before_dequeue
def veto(call: Dequeueing) -> bool:
    return call.task != "add"


@app.after_dequeue
def counted(call: Dequeueing, cancelled: int) -> None:
    print(cancelled + 1)


@app.before_perform
@reserve.before_perform
def ready(ctx: Context) -> bool | Fail | None:
    return Fail("no") if ctx.attempt > 3 else None


@add.around_perform
def timed(ctx: Context, call_next: Callable[[], Any]) -> Any:
    return call_next()


@app.around_perform
async def traced(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    return await call_next()


@add.after_perform
def after(ctx: Context, result: int) -> None:
    print(result + 1)


@app.on_failure
@reserve.on_failure
async def failed(ctx: Context, error: BaseException, final: bool) -> None:
    if final:
        ctx.log.error("%r", error)


@app.on_start
async def opened() -> None:
    app.state.pool = 1


@app.on_stop
@app.queue_empty
@app.before_pause
@app.after_pause
@app.worker_exit
@app.before_first_fork
@app.before_fork
@app.after_fork
def closed() -> None:
    del app.state.pool


@app.middleware
async def layer(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    return await call_next()


app.worker(middleware=[layer])

# What cannot be called like that, or says something else than yes or no, is an error; so is a hook that there is not.


def text(call: Enqueueing) -> str:
    return call.task


def two(ctx: Context, error: BaseException) -> None: ...


def number(n: int) -> None: ...


app.before_enqueue(text)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
add.on_failure(two)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
app.on_start(number)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
add.before_enqueue(3)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
app.before_enqueu(text)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
add.on_start(closed)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def in_a_job(ctx: Context) -> None:
    assert_type(await ctx.aenqueue(add.bind(1)), list[Job[int]])
    assert_type(await ctx.aenqueue(order.bind(sku="s")), list[FlowRun])
