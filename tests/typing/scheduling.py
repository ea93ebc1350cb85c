"""What type checkers must accept and must refuse of schedules; as `producing.py`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import assert_type

from tenure import App, At, Context, Cron, Every, Job, Schedule
from tenure.jobs.bulk import JobPage
from tenure.jobs.schedules import PastTick, UpcomingTick

app = App("memory://")
order = app.flow("order")
at = datetime(2026, 1, 1, tzinfo=UTC)


@app.task
def sync(tenant: str, *, full: bool = False) -> int:
    return len(tenant)


@app.task(schedule=Cron("0 3 * * *", "Europe/Paris"))
def nightly(ctx: Context) -> None:
    assert_type(ctx.tick, datetime | None)


@app.task(queue="slow", schedule=Every(timedelta(minutes=5)))
async def often() -> None: ...


@app.task(schedule=None)
def seldom() -> None: ...


@app.task(schedule="0 3 * * *")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportArgumentType]
def wrong() -> None: ...


@order.step(schedule=Every(60))  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator]
def reserve() -> None: ...


# A task with a schedule is a task.
assert_type(nightly.enqueue(), Job[None])

# Declaring takes a bound call or start, when, and options.
app.schedule("a", sync.bind("acme", full=True), Cron("*/5 * * * *"))
app.schedule(
    "b", sync.using(queue="slow").bind("acme"), Every(60), overlap="skip", catch_up=3, jitter=timedelta(seconds=5)
)
app.schedule("c", order.bind(sku="x"), At(at), starts=at, ends=None, catch_up="none")
app.schedule("d", app.remote("far").bind(1), Every(60), overlap="wait", catch_up="latest")
app.schedule("e", sync.bind(1), Every(60))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.schedule("f", sync, Every(60))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.schedule("g", order, Every(60))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.schedule("h", sync.bind("x"), "0 3 * * *")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.schedule("i", sync.bind("x"), 60)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.schedule("j", sync.bind("x"), Every(60), overlap="queue")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.schedule("k", sync.bind("x"), Every(60), catch_up="all")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.schedule("l", sync.bind("x"), Every(60), starts="2026-01-01")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.schedule("m", sync.bind("x"), Every(60), timezone="UTC")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
app.schedule("n", sync.bind("x"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
app.schedule(name="o", call=sync.bind("x"), when=Every(60))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# Creating gives a handle.
plan = app.create_schedule("acme-sync", sync.bind("acme"), Cron("*/5 * * * *"), overlap="replace")
assert_type(plan, Schedule)
assert_type(app.get_schedule("acme-sync"), Schedule)
assert_type(app.schedules(), list[Schedule])
assert_type(app.jobs(schedule="acme-sync"), JobPage)
assert_type(app.jobs()[0].tick, datetime | None)
app.create_schedule("x", sync.bind("acme"), timedelta(minutes=1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.create_schedule("x", sync.bind("acme"), Every("60"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
app.jobs(schedule=plan)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# What can be done to one.
assert_type(plan.when, Cron | Every | At)
assert_type((plan.next_at, plan.starts), tuple[datetime | None, datetime | None])
assert_type(plan.preview(5, after=at), list[UpcomingTick])
assert_type(plan.history, list[PastTick])
assert_type((plan.pause(), plan.resume(), plan.clear()), tuple[bool, bool, bool])
assert_type(plan.change(Every(60), call=sync.bind("other"), jitter=5), bool)
assert_type(plan.trigger(), PastTick)
assert_type(plan.backfill(at, at), list[PastTick])
assert_type(plan.delete(), None)
assert_type(plan.refresh(), Schedule)
plan.change("0 3 * * *")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
plan.change(call=sync)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
plan.change(overlaps="skip")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
plan.backfill(at)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
plan.paused = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
Cron("0 3 * * *", timezone=UTC)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
At("2026-01-01")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def twins() -> None:
    plan = await app.acreate_schedule("acme-sync", sync.bind("acme"), Every(60))
    assert_type(plan, Schedule)
    assert_type(await app.aget_schedule("acme-sync"), Schedule)
    assert_type(await app.aschedules(), list[Schedule])
    assert_type(await plan.atrigger(), PastTick)
    assert_type(await plan.achange(catch_up=5), bool)
