"""Schedules on Redis alone: exact times, a full server, and scripts that were cut off at each of their commands."""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tenure.core.job import NewJob, State
from tenure.core.schedule import (
    HISTORY_LENGTH,
    Firing,
    Overlap,
    SchedulePut,
    ScheduleRecord,
    ScheduleSearch,
    TickEnd,
    TickRecord,
)
from tenure.errors import StoreError, StoreFull
from tenure.stores.redis.address import Address
from tenure.stores.redis.scripts import Script, scripts
from tenure.stores.redis.store import RedisStore
from tenure.stores.values import Consequence
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import a_start, hand_over
from tenure.testing.conformance.scene import (
    a_job,
    assert_counters_equal_a_recount,
    enqueue,
    everything,
    lease_one,
    state,
)
from tests.servers.server import Server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(redis_url: str, clock: ManualClock) -> AsyncIterator[RedisStore]:
    store = RedisStore(Address.from_url(redis_url), clock=clock)
    yield store
    await store.close()


@pytest.fixture
def server(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url.partition("?")[0]) as client:
        yield client


@pytest.fixture
def prefix(redis_url: str) -> str:
    return f"tenure:{{{Address.from_url(redis_url).namespace}}}:"


async def put(store: RedisStore, name: str = "s", **changes: Any) -> bool:
    usual: dict[str, Any] = {"name": name, "if_version": 0, "settings": "{}", "next": 0.0}
    [done] = await store.put_schedules([SchedulePut(**usual | changes)])
    return done


async def found(store: RedisStore, name: str = "s") -> ScheduleRecord | None:
    return next(iter((await store.schedules(ScheduleSearch(names=(name,)))).schedules), None)


async def listed(store: RedisStore, **search: Any) -> list[str]:
    return [each.name for each in (await store.schedules(ScheduleSearch(**search))).schedules]


# Times and texts.


@pytest.mark.parametrize("tick", [0.0, -1.5, 1e9 / 3, 1_790_000_000.1234567, 2.0**53 + 2, 1e300, 5e-324])
async def test_every_time_comes_back_exactly(store: RedisStore, tick: float) -> None:
    await put(store, next=tick)
    entry = TickRecord(tick, TickEnd.MISSED, until=math.nextafter(tick, math.inf))
    await store.fire([Firing(name="s", version=1, jobs=((tick, a_job()),), entries=(entry,), tick=tick, next=tick)])

    schedule = await found(store)
    assert schedule is not None
    assert (schedule.next, schedule.tick) == (tick, tick)
    assert [(each.tick, each.until) for each in schedule.history] == [(tick, entry.until), (tick, None)]


async def test_one_is_due_to_the_last_bit_of_its_time(store: RedisStore, clock: ManualClock) -> None:
    now = clock.wall()
    for name, next_ in {"a": now, "b": math.nextafter(now, 0), "c": math.nextafter(now, math.inf)}.items():
        await put(store, name, next=next_)

    assert await listed(store, due=True) == ["b", "a"]


@pytest.mark.parametrize("job_id", ["x", "é" * 20, "y" * 200, "0192f1c0-0000-7000-8000-000000000001"])
async def test_a_history_of_any_ids_and_a_long_text_come_back(store: RedisStore, job_id: str) -> None:
    settings = "é" * 100_000
    await put(store, settings=settings)
    entries = tuple(TickRecord(float(n), TickEnd.SKIPPED, 0.0, job_id, job_id, 1.5) for n in range(HISTORY_LENGTH + 5))
    for version, several in ((1, entries[:3]), (2, entries), (3, entries[:1]), (4, ())):
        await store.fire([Firing(name="s", version=version, jobs=((9.0, a_job(id=job_id)),), entries=several)])

    schedule = await found(store)
    assert schedule is not None
    assert (schedule.settings, schedule.last) == (settings, job_id)
    assert [each.tick for each in schedule.history] == [*map(float, range(8, 25)), 9.0, 0.0, 9.0, 9.0][-HISTORY_LENGTH:]
    assert {each.job_id for each in schedule.history} == {job_id}


async def test_no_schedule_leaves_a_key(store: RedisStore, server: redis.Redis, prefix: str) -> None:
    await put(store)
    await put(store, if_version=1, settings=None)

    assert not server.exists(*(prefix + key for key in ("schedules", "schedule_names", "ticks")))


async def test_what_follows_from_a_replacement_is_reported(store: RedisStore) -> None:
    heard: list[Consequence] = []
    store.on_consequences = heard.extend
    await put(store)
    await store.fire([Firing(name="s", version=1, jobs=((1.0, last := a_job()),))])
    [dependent] = await enqueue(store, a_job(after=(last.id,)))
    await store.fire([Firing(name="s", version=2, jobs=((2.0, a_job()),), overlap=Overlap.REPLACE)])

    assert [(each.change, each.job_id) for each in heard] == [("failed", dependent)]


# A full server.


async def test_a_full_server_fires_nothing_and_is_read_and_confirmed(tmp_path: Path) -> None:
    server = Server(tmp_path / "redis").start()
    store = RedisStore.from_url(server.url)
    try:
        await put(store)
        await put(store, "other")
        await store.fire([Firing(name="s", version=1, jobs=((1.0, last := a_job()),), next=0.0)])
        before = await found(store)
        server.do("ZADD", "tenure:{tenure}:ticks", 0, "gone")
        server.do("CONFIG", "SET", "maxmemory", 1)
        for overlap in Overlap:
            with pytest.raises(StoreFull):
                await store.fire([Firing(name="s", version=2, jobs=((2.0, a_job()),), overlap=overlap)])
        with pytest.raises(StoreFull):
            await put(store, "new")

        assert await found(store) == before
        assert [job.id for job in await everything(store)] == [last.id]
        assert await state(store, last.id) is State.WAITING
        assert await listed(store) == ["other", "s"]
        assert await listed(store, due=True) == ["other", "s"]
        assert await store.confirm_schedules(["s", "gone"]) == [True, False]
        assert await put(store, "other", if_version=1, settings=None)
        server.do("CONFIG", "SET", "maxmemory", 0)
        assert await store.fire([Firing(name="s", version=2)]) == [()]
    finally:
        await store.close()
        server.kill()


# Scripts that are cut off.


async def test_entries_of_indexes_without_a_record_are_passed_over_and_mended(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock
) -> None:
    later = clock.wall() + 60
    await put(store, "early", next=later)
    await put(store, "m", next=clock.wall())
    await put(store, "paused", active=False)
    server.zadd(f"{prefix}schedule_names", dict.fromkeys("abcdefghz", 0))
    server.zadd(f"{prefix}ticks", {"gone": 1, "early": 2, "paused": 3})

    assert await listed(store, limit=2) == ["early", "m"]
    assert await listed(store, limit=2, after="m") == ["paused"]
    assert await listed(store, due=True, limit=1) == ["m"]
    assert server.zrange(f"{prefix}ticks", 0, -1, withscores=True) == [(b"m", clock.wall()), (b"early", later)]
    assert await store.mend(dry_run=True) == 9
    assert await store.mend() == 9
    assert server.zrange(f"{prefix}schedule_names", 0, -1) == [b"early", b"m", b"paused"]
    assert await store.mend(dry_run=True) == 0


async def test_a_schedule_that_an_index_lacks_is_mended(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock
) -> None:
    for name in "abc":
        await put(store, name, next=clock.wall() + 60)
    server.zrem(f"{prefix}schedule_names", "a")
    server.zrem(f"{prefix}ticks", "b")
    server.zadd(f"{prefix}ticks", {"c": clock.wall() + 3600})

    assert await store.mend() == 3

    assert await store.mend(dry_run=True) == 0
    clock.advance(60)
    assert await listed(store) == await listed(store, due=True) == ["a", "b", "c"]


def cut(script: Script, after: int) -> Script:
    """A script that fails instead of its next command after this number of them."""
    source = f"""
        local calls, whole = 0, redis
        local redis = setmetatable({{ call = function(...)
          calls = calls + 1
          if calls > {after} then error('cut') end
          return whole.call(...)
        end }}, {{ __index = whole }})
        {script.source}"""
    return Script(script.name, source, hashlib.sha1(source.encode()).hexdigest())


Ask = Callable[[], Awaitable[Any]]


async def until_it_is_whole(
    monkeypatch: pytest.MonkeyPatch, name: str, scene: Callable[[], Awaitable[Ask]], check: Ask
) -> int:
    """Make a call in a new scene, cut off ever later, until it is not; check what is then in the store. Returns how often."""
    whole = scripts[name]
    for after in range(1000):
        ask = await scene()
        monkeypatch.setitem(scripts, name, cut(whole, after))
        try:
            await ask()
        except StoreError as error:
            assert "cut" in str(error)
        else:
            return after
        finally:
            monkeypatch.setitem(scripts, name, whole)
        await ask()
        await check()
    raise AssertionError("it never ends")


FIRED: dict[str, tuple[Overlap, Callable[[], NewJob]]] = {
    "plain": (Overlap.ALLOW, lambda: a_job(id="new")),
    "later": (Overlap.SKIP, lambda: a_job(id="new", delay=5.0)),
    "unique": (Overlap.REPLACE, lambda: a_job(id="new", unique="k")),
    "run": (Overlap.REPLACE, lambda: a_start({"a": "1"}, {"a": ("1",)}, id="new")),
    "waiting": (Overlap.WAIT, lambda: a_job(id="new")),
}


@pytest.mark.parametrize("which", FIRED)
async def test_a_firing_that_was_cut_off_is_done_or_may_be_repeated(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    overlap, make = FIRED[which]
    later = clock.wall() + 60

    async def scene() -> Ask:
        for key in server.scan_iter(match=f"{prefix}*", count=1000):
            server.delete(key)
        await store.open()
        await put(store)
        await store.fire([Firing(name="s", version=1, jobs=((1.0, a_start(id="last", unique="k")),), next=2.0)])
        if overlap is not Overlap.SKIP:
            await hand_over(store, await lease_one(store))
        else:
            await store.cancel(["last"])
        await enqueue(store, a_job(id="dependent", queue="r", after=("last",)))
        firing = Firing(name="s", version=2, jobs=((2.0, make()),), overlap=overlap, tick=2.0, next=later)
        return lambda: store.fire([firing])

    async def check() -> None:
        schedule = await found(store)
        assert schedule is not None
        assert (schedule.version, schedule.last, schedule.next) == (3, "new", later)
        assert [(each.tick, each.end, each.job_id) for each in schedule.history] == [
            (1.0, TickEnd.ENQUEUED, "last"), (2.0, TickEnd.ENQUEUED, "new"),
        ]  # fmt: skip
        page = await store.schedules(ScheduleSearch(due=True))
        assert page.schedules == []
        assert page.due_in == pytest.approx(60)
        await store.mend()
        # Which job a new job waits for is written after the job: `mend` puts it in line if that was cut off.
        assert await state(store, "new") in ({State.BLOCKED, State.WAITING} if which == "waiting" else {State.WAITING})
        if overlap is Overlap.REPLACE:
            assert (await state(store, "last"), await state(store, "dependent")) == (State.SUCCEEDED, State.FAILED)
        assert await store.mend(dry_run=True) == 0
        await assert_counters_equal_a_recount(store)

    assert await until_it_is_whole(monkeypatch, "fire", scene, check) > 10


@pytest.mark.parametrize("which", ["create", "earlier", "later", "pause", "delete"])
async def test_a_put_that_was_cut_off_leaves_the_schedule_as_it_was_or_is_done(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    now = clock.wall()
    changes: dict[str, dict[str, Any]] = {
        "create": {"if_version": 0, "next": now + 5},
        "earlier": {"next": now + 1},
        "later": {"next": now + 90},
        "pause": {"next": now + 10, "active": False},
        "delete": {"settings": None},
    }
    change: dict[str, Any] = {"name": "s", "if_version": 1, "settings": "{}"} | changes[which]

    async def scene() -> Ask:
        for key in server.scan_iter(match=f"{prefix}*", count=1000):
            server.delete(key)
        await store.open()
        await put(store, "another", next=now + 1000)
        if which != "create":
            await put(store, next=now + 10)
        return lambda: store.put_schedules([SchedulePut(**change)])

    async def check() -> None:
        schedule = await found(store)
        page = await store.schedules(ScheduleSearch(due=True))
        assert page.due_in is not None
        assert await listed(store) == (["another"] if which == "delete" else ["another", "s"])
        if which != "delete":
            assert schedule is not None
            assert (schedule.version, schedule.next) == (2 - (which == "create"), change["next"])
            if schedule.active:
                assert page.due_in <= change["next"] - now
        await store.mend()
        assert await store.mend(dry_run=True) == 0

    assert await until_it_is_whole(monkeypatch, "put_schedules", scene, check) > 2
