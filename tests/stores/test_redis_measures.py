"""Measures on Redis alone: what is stored of when jobs became due and of slots, pages, a full server, scripts cut off."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import redis

from tenure.core.lifecycle import Requeue
from tenure.core.measures import EVER, RESOLUTIONS, ROWS, HistorySearch, HistoryWrite
from tenure.core.options import Retention
from tenure.errors import StoreFull
from tenure.stores.redis.address import Address
from tenure.stores.redis.records import ref_of
from tenure.stores.redis.store import RedisStore
from tenure.stores.values import PRIORITIES
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    RETRY,
    SUCCEED,
    a_job,
    counts,
    enqueue,
    lease,
    lease_one,
    record,
    settle,
)
from tests.servers.server import Server

from .test_redis_schedules import until_it_is_whole

NOTHING = Retention(succeeded=0.0, failed=0.0, count=0)


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


# When jobs became due.


async def test_plain_jobs_have_no_entry_of_when_they_became_due(
    store: RedisStore, server: redis.Redis, prefix: str
) -> None:
    await enqueue(store, *[a_job() for _ in range(5)], a_job(unique="k"))
    leases = await lease(store)
    await store.settle([(each, SUCCEED) for each in leases[:4]])
    await store.release([each.job.id for each in leases[4:]])

    assert not server.exists(f"{prefix}ready_at")


@pytest.mark.parametrize("way", ["pruned", "deleted", "purged", "never kept"])
async def test_nothing_is_left_of_when_jobs_became_due_that_are_gone(
    store: RedisStore, server: redis.Redis, prefix: str, way: str
) -> None:  # I16
    ids = await enqueue(store, *[a_job(keep=0.0 if way == "never kept" else None) for _ in range(20)])
    await store.settle([(each, RETRY) for each in await lease(store, limit=20)])
    assert server.hlen(f"{prefix}ready_at") == 20
    if way == "purged":
        assert await store.purge("q") == 20
    else:
        [last, *others] = await lease(store, limit=20)
        await store.settle([(last, FAIL), *((each, SUCCEED) for each in others)])
    if way == "deleted":
        await store.delete(ids)
    elif way == "pruned":
        assert await store.prune(NOTHING, {}) == 20

    assert await store.get(ids) == [None] * 20
    assert not server.exists(f"{prefix}ready_at")


async def test_an_entry_that_an_earlier_job_of_the_same_id_has_left_counts_for_nothing(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock
) -> None:
    left = struct.pack(">d", clock.wall() - 100)
    server.hset(f"{prefix}ready_at", ref_of("again"), left)
    await enqueue(store, a_job(id="again"))
    clock.advance(5)

    assert (await counts(store)).oldest == pytest.approx(5, abs=0.01)
    assert (await record(store, "again")).ready_at is None
    leased = await lease_one(store)
    assert leased.job.ready_at is None
    # As a program of an earlier version leaves it.
    await settle(store, leased, Requeue())
    server.hset(f"{prefix}ready_at", ref_of("again"), left)
    assert (await counts(store)).oldest == pytest.approx(5, abs=0.01)
    assert (await record(store, "again")).ready_at is None
    assert (await lease_one(store)).job.waited == pytest.approx(5, abs=0.01)


async def test_a_job_that_an_earlier_version_has_retried_waits_from_its_enqueue(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock
) -> None:
    await enqueue(store)
    clock.advance(5)
    await settle(store, await lease_one(store), Requeue())
    server.delete(f"{prefix}ready_at")
    clock.advance(2)

    assert (await counts(store)).oldest == pytest.approx(7, abs=0.01)
    leased = await lease_one(store)
    assert leased.job.ready_at is None
    assert leased.job.waited == pytest.approx(7, abs=0.01)


async def test_entries_without_a_job_are_found_and_mended(store: RedisStore, server: redis.Redis, prefix: str) -> None:
    [job_id] = await enqueue(store)
    await settle(store, await lease_one(store), RETRY)
    server.hset(f"{prefix}ready_at", ref_of("gone"), struct.pack(">d", 1.0))

    assert await store.mend(dry_run=True) == 1
    assert await store.mend() == 1

    assert server.hkeys(f"{prefix}ready_at") == [ref_of(job_id)]
    assert await store.mend(dry_run=True) == 0


# Queues.


async def test_queues_with_many_priorities_are_all_listed(store: RedisStore, clock: ManualClock) -> None:
    names = [f"q{number:03}" for number in range(100)]
    for number, name in enumerate(names):
        many = PRIORITIES + 4 if number % 3 == 0 else 1
        await enqueue(store, *(a_job(queue=name, priority=priority) for priority in range(many)))
    clock.advance(3)

    found = await store.queues()

    assert [queue.name for queue in found] == names
    assert [queue.oldest for queue in found] == pytest.approx([3] * len(names), abs=0.01)


async def test_the_oldest_is_looked_for_in_the_first_priorities(store: RedisStore, clock: ManualClock) -> None:
    await enqueue(store, a_job(priority=PRIORITIES))
    clock.advance(10)
    await enqueue(store, a_job(priority=PRIORITIES - 1))
    clock.advance(10)
    await enqueue(store, *(a_job(priority=priority) for priority in range(PRIORITIES - 1)))

    assert (await counts(store)).oldest == pytest.approx(10, abs=0.01)


# The history.


async def test_slots_that_are_no_longer_kept_are_removed(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock
) -> None:
    def stored(resolution: int) -> int:
        keys = list(server.scan_iter(match=f"{prefix}measures:{resolution}:*", count=1000))
        assert len(keys) == server.zcard(f"{prefix}measured:{resolution}")
        return len(keys)

    for _ in range(30):
        await store.record_history([HistoryWrite("q", "t", {"succeeded": 1})])
        clock.advance(10)
    assert stored(10) == 30
    clock.advance(RESOLUTIONS[10])
    for _ in range(3):
        await store.record_history([HistoryWrite("q", "t", {"succeeded": 1})])
        clock.advance(10)

    assert stored(10) == 3
    assert stored(EVER) == 1
    assert not any(server.ttl(key) >= 0 for key in server.scan_iter(match=f"{prefix}*", count=1000))


async def test_many_rows_come_in_pages_and_none_is_missing(store: RedisStore, clock: ManualClock) -> None:
    clock.advance(10 - clock.wall() % 10)
    first = clock.wall()
    for number in range(12):
        names = [f"t{each:03}" for each in range(number, ROWS - 1)]
        await store.record_history([HistoryWrite("q", name, {"run": number + 0.5}) for name in names])
        await store.record_history([HistoryWrite("q", "", {"succeeded": number})])
        clock.advance(10)

    found = await store.history(HistorySearch(resolution=10, rows="tasks"))
    assert [(row.slot, row.task, row.counts) for row in found] == [
        (first + 10 * number, f"t{each:03}", {"run": number + 0.5})
        for number in range(12)
        for each in range(number, ROWS - 1)
    ]
    found = await store.history(HistorySearch(resolution=10, rows="queues"))
    assert [row.counts for row in found] == [{"succeeded": number} for number in range(12)]


async def test_a_full_server_takes_no_measures_but_marks(tmp_path: Path) -> None:
    server = Server(tmp_path / "redis").start()
    store = RedisStore.from_url(server.url)
    try:
        await store.record_history([HistoryWrite("q", "t", {"succeeded": 1})])
        server.do("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreFull):
            await store.record_history([HistoryWrite("q", "t", {"succeeded": 1})])
        await store.mark("deploy")

        [row] = await store.history(HistorySearch(resolution=EVER, queue="q", task="t"))
        assert row.counts == {"succeeded": 1}
        assert [mark.label for mark in await store.marks()] == ["deploy"]
    finally:
        await store.close()
        server.kill()


async def test_a_call_that_was_cut_off_leaves_rows_that_are_read_and_removed(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> Callable[[], Awaitable[None]]:
        for key in server.scan_iter(match=f"{prefix}meas*"):
            server.delete(key)
        await store.record_history([HistoryWrite("q", "t", {"succeeded": 1})])
        clock.advance(RESOLUTIONS[3600] + 3600)
        return lambda: store.record_history([HistoryWrite("q", "t", {"succeeded": 1})])

    async def check() -> None:
        for resolution in RESOLUTIONS:
            [row] = await store.history(HistorySearch(resolution=resolution, queue="q", task="t"))
            assert row.counts["succeeded"] in {1, 2}
            # Whatever has rows is in the index, by which it is removed.
            for key in server.scan_iter(match=f"{prefix}measures:{resolution}:*"):
                slot = key.decode().rpartition(":")[2]
                assert server.zscore(f"{prefix}measured:{resolution}", slot) == float(slot)

    assert await until_it_is_whole(monkeypatch, "record_history", scene, check) > 15
