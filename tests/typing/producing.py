"""What type checkers must accept and must refuse. Not run: mypy and pyright read it (see test_typing.py).

A line with `ignore` comments must be an error: both checkers are told to complain about a comment that ignores nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from tenure import App, Backoff, Context, Job, Retention, Retry, State, Task
from tenure.core.keywords import Filters
from tenure.jobs.bulk import JobPage
from tenure.jobs.by_hand import Held
from tenure.stores.values import Action, Order
from tenure.tasks.task import AsyncTask, Call, Caller, Registrar
from tenure.worker.worker import Worker

app = App("memory://")


@app.task
def add(a: int, b: int = 2) -> int:
    return a + b


@app.task(queue="mail", retry=Backoff(initial=1), max_attempts=None)
async def send(user: int, *, lang: str = "en") -> str:
    return f"{user} {lang}"


@app.task
async def report(ctx: Context, day: str) -> float:
    return ctx.attempt + len(day)


@app.task(raw=True)
def keep(ctx: Context, data: bytes) -> None: ...


@app.task
def nothing() -> None: ...


@app.task
def gather(*values: int, **named: str) -> list[int]:
    return list(values)


@app.task
def maybe(n: int) -> str | Retry:
    return "x" if n else Retry()


@app.task
def anything(first: Any, second: int) -> int:
    return second


@app.task
def whatever(thing: object) -> int:
    return 1


# A task is what its function was.
assert_type(add, Task[..., int])  # type: ignore[assert-type]  # pyright: ignore[reportAssertTypeFailure]
assert_type(add(1), int)
add("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
checked: Task[..., str] = send
a_coroutine: Coroutine[Any, Any, str] = send(1, lang="de")

# Enqueueing takes the arguments of the function and gives a job of its result.
assert_type(add.enqueue(1), Job[int])
assert_type(add.enqueue(a=1, b=2), Job[int])
assert_type(add.enqueue(1).result(timeout=5), int)
assert_type(send.enqueue(1, lang="de"), Job[str])
assert_type(nothing.enqueue().result(), None)
assert_type(gather.enqueue(1, 2, x="y"), Job[list[int]])
assert_type(maybe.enqueue(1).result(), str | Retry)
add.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
add.enqueue("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
add.enqueue(1, 2, 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
add.enqueue(1, c=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
send.enqueue(1, "de")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
send.enqueue(1, lang=2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
nothing.enqueue(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
gather.enqueue("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# A leading context is not asked from callers.
assert_type(report.enqueue("monday"), Job[float])
assert_type(keep.enqueue(b""), Job[None])
report.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
report.enqueue(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
keep.enqueue("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# A first parameter that says nothing is no context.
anything.enqueue("x", 1)
assert_type(whatever.enqueue("x"), Job[int])

# Options keep the arguments.


@app.task
def total(label: str, results: list[int]) -> int:
    return sum(results)


# What the jobs before have given is filled in, so no caller passes it.
assert_type(total.using(after=[add.bind(1), add.bind(2)]).enqueue("both"), Job[int])
assert_type(total.using(after=["an id"], delay=5).bind("both"), Call[int])
total.enqueue("both")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# An option that there is not, or a wrong value of one, is an error in every place.
App(retries=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
App(lease="30")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
App("memory://", keep={"mail": Retention(count=5)}, max_attempts=None, retry=3, lease=timedelta(minutes=1), log=False)
app.worker(threads=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
app.worker(concurrency="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.worker(isolation="thread")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.worker(["mail"], queues=["mail"])  # type: ignore[misc]  # pyright: ignore[reportCallIssue]
assert_type(app.worker(["mail"], tasks=[add, "send"], max_age=timedelta(hours=1), health_port=None), Worker)
assert_type(app.worker(queues="mail", concurrency=5, middleware=()), Worker)
app.task(retry="3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
app.task(max_losses="3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
app.task(then="x")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
assert_type(app.task(name=None, queue=None, max_losses=None, inbox="raw", raw=True), Registrar)

at = datetime(2026, 1, 1, tzinfo=UTC)
assert_type(add.using(delay=60, priority=-1, unique="k").enqueue(1), Job[int])
assert_type(send.using(run_at=at, unique=True, window=5, tags=["a"]).using(queue="vip", keep=0).bind(1), Call[str])
add.using(delay=60).enqueue("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
add.using(wait=60)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
add.using(delay="60")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
add.using(run_at=60)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
add.using(unique=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
add.using(after=["id"], delay="60")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
add.using(60)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]

# Whatever the connection is of: a library is not known to us before it is brought.
mine = sqlite3.connect(":memory:")
assert_type(add.using(connection=mine).enqueue(1), Job[int])
assert_type(app.enqueue(add.bind(1), add.bind(2), connection=mine), list[Job[int]])
add.using(connection=mine).enqueue("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.enqueue(add.bind(1), mine)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]

# Many at once.
assert_type(add.enqueue_many([(1,), {"a": 2}]), list[Job[int]])
assert_type(app.enqueue(add.bind(1), add.bind(2)), list[Job[int]])
app.enqueue(add.bind(1), send.bind(2))
add.bind("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.enqueue(add)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
with app.batch():
    add.enqueue(1)

# A remote task takes anything.
assert_type(app.remote("add", queue="q"), Caller[..., Any])
assert_type(app.remote("add").enqueue(1, x="y"), Job[Any])

# Handles.
job = add.enqueue(1)
assert_type(job.refresh(), Job[int])
assert_type(job.state, State)
assert_type(
    (job.cancel(), job.retry(), job.trigger(), job.release(), job.delete(cascade=True), job.complete(1)),
    tuple[None, None, None, None, None, None],
)
job.result(time=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
job.state = State.FAILED  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
wider: Job[object] = job
assert_type(app.job("id"), Job[Any])
assert_type(app.jobs(state="failed", task=add), JobPage)
assert_type(app.lease("a", "b", limit=2), list[Held])
app.lease(2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.cancel(job, job.id, add.bind(1))
app.cancel(add)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
with app.lease("a")[0] as held:
    assert_type(held, Held)

# Filters choose jobs. A call has the same ones, whatever it does to them.
assert_type(app.jobs(scheduled=True, error="KeyError", text="ann@", worker="w", schedule=None, limit=5), JobPage)
assert_type(app.cancel(task=add, queue=None, text="ann@"), int)
assert_type(app.retry(state=State.FAILED, before=at, error="KeyError"), int)
assert_type(app.delete(state="failed", before=at, worker="w", cascade=True), int)
failures: Filters = {"state": "failed", "queue": "mail"}
assert_type(app.retry(**failures), int)
app.jobs(before="2026-01-01")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.cancel(scheduled="yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.retry(errors="KeyError")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
app.delete(limit=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# Headers are texts by name.
assert_type(add.using(headers={"tenant": "t1"}).enqueue(1), Job[int])
assert_type(add.using(headers=None).bind(1), Call[int])
add.using(headers={"tenant": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
add.using(headers="tenant=t1")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


@app.task
def whose(ctx: Context) -> None:
    assert_type(ctx.job.headers, dict[str, str] | None)


@app.stamp
def tenant() -> dict[str, str]:
    return {"tenant": "t1"}


@app.stamp
def maybe_tenant() -> dict[str, str] | None:
    return None


assert_type(tenant(), dict[str, str])


@app.stamp  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
def no_mapping() -> str:
    return "t1"


@app.stamp  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
async def later() -> dict[str, str]:
    return {"tenant": "t1"}


@app.stamp  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
def of_a_job(job: object) -> dict[str, str]:
    return {"tenant": "t1"}


# Orders, and what operators have done.
assert_type(app.order("w", "quiet"), bool)
assert_type(app.order("w", Order.STOP), bool)
assert_type(app.workers()[0].order, Order)
app.order("w", "halt")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.order("w")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
assert_type(app.actions(limit=5).actions, list[Action])


async def twins() -> None:
    job = await send.aenqueue(1)
    assert_type(job, Job[str])
    assert_type(await job.aresult(timeout=5), str)
    assert_type(await report.using(delay=1).aenqueue("monday"), Job[float])
    assert_type(await app.aenqueue(send.bind(1)), list[Job[str]])
    assert_type(await job.arefresh(), Job[str])
    assert_type(await send(1), str)
    await send.aenqueue("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async with app.batch():
        await add.aenqueue(1)
    for each in await app.alease("a"):
        async with each:
            await each.arenew()


@app.middleware
async def timing(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    return await call_next()


@app.middleware  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
def not_async(ctx: Context) -> None: ...


@app.task(queues="mail")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator]
def misspelt() -> None: ...


declared: AsyncTask[..., str] = send


# Versions.
@app.task(version=2, output=10_000)
def charge(customer: str, cents: int) -> str:
    return customer


@charge.upcast(1)
def charge_1(customer: str) -> dict[str, object]:
    return {"customer": customer, "cents": 1}


assert_type(charge_1("a"), dict[str, object])
app.remote("charge", version=2).enqueue("a", 1)
charge.upcast("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@charge.upcast(1)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
def no_arguments(customer: str) -> str:
    return customer


@app.task(version="2")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportArgumentType]
def wrong_version() -> None: ...
