"""Workers store the schedules that their code declares, and fire what is due."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import App, At, Context, Cron, Every
from tenure.core.schedule import Plan, SchedulePut, ScheduleRecord, ScheduleSearch, Settings, TickEnd, settings_of
from tenure.jobs.plans import plan_of
from tenure.stores.base import Store
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.postgres.address import Address as PostgresAddress
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.redis.address import Address as RedisAddress
from tenure.stores.redis.store import RedisStore
from tenure.stores.sqlite.store import SqliteStore
from tenure.worker import scheduler
from tenure.worker.worker import Worker
from tests.worker.conftest import Lines, MakeApp, Start, Wire, eventually, whatever_the_store

DAY = 86400
NEVER = Every(100 * DAY)
"""Fires at no time at which these tests run, or so."""


def call(app: App, text: str = "x") -> Any:
    return app.remote("note", queue="notes").bind(text)


def plan(app: App, when: Any = NEVER, text: str = "x", **options: Any) -> Plan:
    return plan_of(call(app, text), when, options)  # type: ignore[arg-type]


async def put(store: Store, name: str, plan: Plan, next_: float, **settings: Any) -> None:
    """Put a schedule into the store, whose next tick is this."""
    text = Settings(plan=plan, **settings).encoded()
    known = (await store.schedules(ScheduleSearch(names=(name,)))).schedules
    version = known[0].version if known else 0
    assert await store.put_schedules([SchedulePut(name=name, if_version=version, settings=text, next=next_)]) == [True]


async def found(store: Store, name: str = "s") -> ScheduleRecord:
    [record] = (await store.schedules(ScheduleSearch(names=(name,)))).schedules
    return record


async def ticks(app: App, name: str = "s") -> list[float]:
    """The ticks of the jobs of a schedule, in order."""
    return sorted(job.tick.timestamp() for job in await app.ajobs(schedule=name, limit=1000) if job.tick)


async def started(app: App, start: Start, **options: Any) -> Worker:
    """A worker that runs no job, and has stored what its code declares."""
    worker = await start(app, "none", **options)

    async def registered() -> bool:
        return worker.id in [each.id for each in await app.aworkers()]

    await eventually(registered)
    return worker


async def served(app: App, start: Start) -> None:
    """Have a worker come and go, as in a deploy."""
    worker = await started(app, start)
    await worker.stop(grace=0)


# Declarations.


async def test_what_the_code_declares_is_stored_before_the_first_lease(
    make_app: MakeApp, start: Start, wire: Wire, store: Store
) -> None:
    app = make_app(store=wire.open)
    app.schedule("s", call(app), NEVER)
    known: list[list[str]] = []

    async def lease(method: Callable[..., Any], *args: Any) -> Any:
        known.append([each.name for each in (await store.schedules(ScheduleSearch())).schedules])
        return await method(*args)

    async def slow(method: Callable[..., Any], *args: Any) -> Any:
        await asyncio.sleep(0.2)
        return await method(*args)

    wire.hooks = {"lease": lease, "settle_and_lease": lease, "put_schedules": slow}
    await start(app, "none")
    await eventually(lambda: known)

    assert known[0] == ["s"]
    assert (await app.aget_schedule("s")).declared


async def test_a_task_fires_by_itself_and_knows_its_tick(app: App, start: Start) -> None:
    seen: list[datetime | None] = []
    await app.aqueues()  # opens the store, which may take longer than there is until the tick

    @app.task(schedule=At(datetime.now(UTC) + timedelta(seconds=0.3)))
    def once(ctx: Context) -> None:
        seen.append(ctx.tick)

    await start(app)
    await eventually(lambda: seen)

    schedule = await app.aget_schedule("once")
    assert isinstance(schedule.when, At)
    assert seen == [schedule.when.instant]
    assert (schedule.state, [each.end for each in schedule.history]) == ("done", ["enqueued"])


async def test_other_times_start_from_now_and_other_arguments_keep_the_next_tick(
    make_app: MakeApp, start: Start, store: Store
) -> None:
    old, arguments, times = make_app(), make_app(), make_app()
    soon = time.time() + 777
    await put(store, "s", plan(old), soon, declared=True)
    before = await found(store)

    arguments.schedule("s", call(arguments, "other"), NEVER, overlap="skip")
    await served(arguments, start)
    assert (await found(store)).next == pytest.approx(soon, abs=1e-3)
    assert (await found(store)).version == before.version + 1
    assert (await arguments.aget_schedule("s")).overlap == "skip"

    await served(arguments, start)
    assert (await found(store)).version == before.version + 1, "equal declarations write nothing"

    times.schedule("s", call(times, "other"), Every(50 * DAY), overlap="skip")
    await served(times, start)
    assert (await found(store)).next == (time.time() // (50 * DAY) + 1) * 50 * DAY


async def test_what_an_operator_has_done_outlives_a_deploy(make_app: MakeApp, start: Start, store: Store) -> None:
    old, new = make_app(), make_app()
    old.schedule("s", call(old), NEVER)
    await served(old, start)
    schedule = await old.aget_schedule("s")
    await schedule.achange(Every(7 * DAY), overlap="skip")
    await schedule.apause()

    new.schedule("s", call(new, "other"), Every(3 * DAY), jitter=5)
    await served(new, start)
    await schedule.arefresh()

    assert (schedule.when, schedule.overlap, schedule.jitter, schedule.paused) == (Every(7 * DAY), "skip", 5.0, True)
    assert schedule.changed == ["when", "overlap"]
    await schedule.aclear()
    assert (schedule.when, schedule.overlap, schedule.paused) == (Every(3 * DAY), "allow", True)
    assert b"other" in settings_of(await found(store)).plan.job.payload


async def test_a_declaration_of_a_name_that_was_created_at_run_time_has_no_effect(
    make_app: MakeApp, start: Start, lines: Lines
) -> None:
    app = make_app()
    await app.acreate_schedule("s", call(app, "created"), NEVER)
    app.schedule("s", call(app, "declared"), Every(3 * DAY))
    app.schedule("t", call(app, "declared"), NEVER)

    await served(app, start)

    schedule = await app.aget_schedule("s")
    assert (schedule.declared, schedule.when) == (False, NEVER)
    assert (await app.aget_schedule("t")).declared
    assert len(lines("the declaration has no effect")) == 1


async def test_what_no_code_declares_any_more_lapses_and_comes_back_with_its_code(
    make_app: MakeApp, start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, other = make_app(), make_app()
    app.schedule("s", call(app), NEVER)
    await app.acreate_schedule("created", call(app), NEVER)
    await served(app, start)
    monkeypatch.setattr("tenure.core.firing.LAPSED_AFTER", 0.0)

    await served(other, start)
    assert (await app.aget_schedule("s")).state == "lapsed"
    assert (await app.aget_schedule("created")).state == "active"
    monkeypatch.undo()

    await served(app, start)
    assert (await app.aget_schedule("s")).state == "active"


# Who fires.


async def test_two_workers_fire_each_tick_once(make_app: MakeApp, start: Start) -> None:
    apps = [make_app(), make_app()]
    begun = time.time()
    for app in apps:
        app.schedule("s", call(app), Every(1))
        await start(app, "none")
    declared = time.time()

    async def three() -> bool:
        return len(await ticks(apps[0])) >= 3

    await eventually(three)
    await asyncio.sleep(0.1)  # for the one that came second

    fired = await ticks(apps[0])
    assert fired == [fired[0] + number for number in range(len(fired))], "each once, none left out"
    assert begun < fired[0] <= declared + 1
    schedule = await apps[1].aget_schedule("s")
    assert Counter(each.end for each in schedule.history) == {TickEnd.ENQUEUED: len(schedule.history)}
    late = [(each.at - each.tick).total_seconds() for each in schedule.history]
    assert sorted(late)[len(late) // 2] < 0.5


async def test_one_that_is_created_while_a_worker_runs_is_noticed(make_app: MakeApp, start: Start) -> None:
    app, elsewhere = make_app(), make_app()
    await start(app, "none")
    at = datetime.now(UTC) + timedelta(seconds=0.2)

    await elsewhere.acreate_schedule("s", call(elsewhere), At(at))

    await eventually(lambda: ticks(app), within=5)
    [tick] = (await elsewhere.aget_schedule("s")).history
    assert (tick.tick, tick.end) == (at, "enqueued")
    assert (tick.at - at).total_seconds() < 2.5


async def test_only_those_whose_code_declares_it_fire_a_declared_one(
    make_app: MakeApp, start: Start, wire: Wire, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "INTERVAL", 0.1)
    other, own = make_app(store=wire.open), make_app()
    due = float(int(time.time()) - 1)
    await put(store, "s", plan(own, At(datetime.fromtimestamp(due, UTC))), due, declared=True)
    await put(store, "created", plan(own, At(datetime.fromtimestamp(due, UTC))), due)

    await start(other, "none")
    await eventually(lambda: ticks(own, "created"))
    looks = len(wire.calls["schedules"])
    await eventually(lambda: len(wire.calls["schedules"]) > looks + 2)
    assert await ticks(own) == []

    own.schedule("s", call(own), At(datetime.fromtimestamp(due, UTC)))
    await start(own, "none")
    await eventually(lambda: ticks(own))
    assert [each.end for each in (await own.aget_schedule("s")).history] == ["enqueued"]


async def test_a_worker_that_does_not_reap_fires_nothing(
    make_app: MakeApp, start: Start, wire: Wire, store: Store
) -> None:
    app = make_app(store=wire.open)
    app.schedule("declared", call(app), Every(1))
    await put(store, "s", plan(app), time.time() - 1)

    await started(app, start, reap=False)
    await asyncio.sleep(0.2)

    for verb in ("schedules", "put_schedules", "confirm_schedules", "fire"):
        assert wire.calls[verb] == []
    assert [each.name for each in await app.aschedules()] == ["s"]


async def test_what_cannot_be_read_here_is_logged_once_and_stops_no_other(
    make_app: MakeApp, start: Start, wire: Wire, store: Store, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "INTERVAL", 0.1)
    app = make_app(store=wire.open)
    text = Settings(plan=plan(app, Cron("0 0 * * *"))).encoded()
    broken = ['{"plan":5}', "{", "", text.replace('"UTC"', '"Mars/Base"').replace("0 0 * * *", "0 0 * * MARS")]
    now = time.time()
    await store.put_schedules(
        [
            SchedulePut(name=f"b{number}", if_version=0, settings=each, next=now - 9)
            for number, each in enumerate(broken)
        ]
    )
    await put(store, "s", plan(app, Every(1)), now // 1 + 1)
    app.schedule("b0", call(app), NEVER)

    await start(app, "none")
    await eventually(lambda: ticks(app))
    looks = len(wire.calls["schedules"])
    await eventually(lambda: len(wire.calls["schedules"]) > looks + 2)

    for number in range(1, len(broken)):
        assert len(lines(f"schedule 'b{number}' cannot be read here")) == 1
    assert len(lines("schedule 'b0' cannot be read here")) in {1, 2}
    assert (await found(store, "b1")).settings == "{"


# Many.


@pytest.mark.parametrize("others", [pytest.param(30, id="some", marks=pytest.mark.long), pytest.param(230, id="pages")])
async def test_those_of_other_programs_neither_stop_ours_nor_keep_a_worker_busy(
    make_app: MakeApp, start: Start, wire: Wire, store: Store, others: int
) -> None:
    app = make_app(store=wire.open)
    now = time.time()
    text = Settings(plan=plan(app), declared=True).encoded()
    await store.put_schedules(
        [SchedulePut(name=f"f{number}", if_version=0, settings=text, next=now - 3600) for number in range(others)]
    )
    await put(store, "s", plan(app, Every(1)), now // 1 + 1)

    await start(app, "none")
    await eventually(lambda: ticks(app))
    begun, looks = time.monotonic(), len(wire.calls["schedules"])
    await asyncio.sleep(2.2)
    rate = (len(wire.calls["schedules"]) - looks) / (time.monotonic() - begun)

    fired = await ticks(app)
    assert len(fired) >= 3
    assert fired == [fired[0] + number for number in range(len(fired))]
    schedule = await app.aget_schedule("s")
    late = [(each.at - each.tick).total_seconds() for each in schedule.history[1:]]
    assert sorted(late)[len(late) // 2] < 0.3
    assert rate <= 20, "three pages, and again if something was fired"
    assert (await found(store, "f0")).version == 1


async def test_more_than_a_page_is_fired_at_once(make_app: MakeApp, start: Start, store: Store) -> None:
    app, second = make_app(), make_app()
    now = float(int(time.time()))
    text = Settings(plan=plan(app, At(datetime.fromtimestamp(now, UTC)))).encoded()
    puts = [SchedulePut(name=f"s{number}", if_version=0, settings=text, next=now) for number in range(450)]
    await store.put_schedules(puts)

    await start(app, "none")
    await start(second, "none")

    async def waiting() -> int:
        return sum(queue.waiting for queue in await app.aqueues() if queue.name == "notes")

    await eventually(lambda: _is(waiting, 450), within=20)
    await asyncio.sleep(0.1)
    assert await waiting() == 450


async def _is(count: Callable[[], Any], number: int) -> bool:
    return bool(await count() == number)


async def test_a_worker_without_schedules_asks_once_a_second(make_app: MakeApp, start: Start, wire: Wire) -> None:
    app = make_app(store=wire.open)
    await started(app, start)
    looks = len(wire.calls["schedules"])

    await asyncio.sleep(2.2)

    assert 1 <= len(wire.calls["schedules"]) - looks <= 3
    assert wire.calls["fire"] == []


# Time that has passed without workers, and clocks that are set.


@pytest.mark.parametrize("catch_up", ["latest", "none", 3, 100])
async def test_after_a_time_without_workers_catch_up_decides(
    make_app: MakeApp, start: Start, store: Store, catch_up: Any
) -> None:
    app = make_app()
    begun = float(int(time.time()) - 5 * 3600 - 1800)  # the last tick was half an hour ago
    hourly = plan(app, Every(3600), starts=datetime.fromtimestamp(begun, UTC), catch_up=catch_up)
    await put(store, "s", hourly, begun)
    all_ticks = [begun + 3600 * number for number in range(6)]

    await start(app, "none")

    async def moved_on() -> bool:
        return (await found(store)).next == all_ticks[-1] + 3600

    await eventually(moved_on)
    fired = {"latest": all_ticks[-1:], "none": [], 3: all_ticks[-3:], 100: all_ticks}[catch_up]
    assert await ticks(app) == fired
    history = (await app.aget_schedule("s")).history
    enqueued = [each for each in history if each.enqueued]
    assert [each.tick.timestamp() for each in enqueued] == fired, "the oldest first"
    missed = [each for each in history if each.end is TickEnd.MISSED]
    assert [each.tick.timestamp() for each in missed] == ([] if catch_up == 100 else all_ticks[:1])
    if missed:
        assert missed[0].until is not None
        assert missed[0].until.timestamp() == pytest.approx(fired[0] if fired else time.time(), abs=20)


class Movable:
    """The clock of a host, ahead of the true one."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def wall(self) -> float:
        return time.time() + self.ahead

    def boot(self) -> float:
        return time.monotonic()


async def test_a_clock_that_is_set_back_stops_no_schedule(
    make_app: MakeApp, start: Start, url: str, lines: Lines
) -> None:
    clock = Movable()
    data = Data(clock)

    def make() -> Store:
        if url.startswith("memory"):
            return MemoryStore(data)
        if url.startswith("sqlite"):
            return SqliteStore(url.removeprefix("sqlite:///"), clock=clock)
        if url.startswith("redis"):
            return RedisStore(RedisAddress.from_url(url), clock=clock)
        return PostgresStore(PostgresAddress.from_url(url), clock=clock)

    app = make_app(store=make)
    schedule = await app.acreate_schedule("s", call(app), Every(1))
    clock.ahead = 1800.0
    await start(app, "none")

    async def fired_by_now() -> bool:
        return any(abs(tick - clock.wall()) < 5 for tick in await ticks(app))

    await eventually(fired_by_now)
    clock.ahead = 0.0
    await eventually(fired_by_now)

    assert len(lines("the clock of the store was set back")) == 1
    schedule = await schedule.arefresh()
    assert schedule.next_at is not None
    assert schedule.next_at.timestamp() < time.time() + 5
    fired = await ticks(app)
    assert len(fired) == len(set(fired))


# Hooks.


@whatever_the_store
async def test_a_hook_that_fails_keeps_no_worker_from_firing(app: App, start: Start, lines: Lines) -> None:
    app.schedule("s", call(app), Every(1))
    app.schedule("t", call(app), Every(1))

    @app.after_enqueue
    def fail(_: object) -> None:
        raise ZeroDivisionError

    await start(app, "none")

    async def both() -> bool:
        return len(await ticks(app, "s")) >= 2 and len(await ticks(app, "t")) >= 2

    await eventually(both, within=5)
    assert lines("schedule t: an after_enqueue hook failed")
    assert lines("retrying until it succeeds") == []
