"""The Redis store keeps the contract, on a real server; and what is true of it alone: its layout, its memory, its calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from tenure.core.job import State
from tenure.core.lifecycle import Finish
from tenure.core.options import Retention
from tenure.errors import InvalidOption, LayoutTooNew
from tenure.stores.base import Store
from tenure.stores.redis.address import Address
from tenure.stores.redis.health import facts
from tenure.stores.redis.keys import Keys
from tenure.stores.redis.records import id_of, ref_of
from tenure.stores.redis.store import LAYOUT, RedisStore
from tenure.stores.values import Health, Search
from tenure.testing.clock import ManualClock
from tenure.testing.conformance import MakeStore, PutIn, StoreConformance
from tenure.testing.conformance.scene import (
    FAIL,
    RETRY,
    SUCCEED,
    a_job,
    counts,
    enqueue,
    everything,
    lease,
    lease_one,
    line,
)
from tenure.testing.conformance.scene import settle as settle_one


class TestRedis(StoreConformance):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def make_store(self, clock: ManualClock, redis_url: str) -> AsyncIterator[MakeStore]:
        address = Address.from_url(redis_url)
        made: list[RedisStore] = []

        def make() -> RedisStore:
            made.append(RedisStore(address, clock=clock))
            return made[-1]

        yield make
        for store in made:
            await store.close()

    @pytest.fixture
    def put_in(self, redis_url: str) -> Iterator[PutIn]:
        keys = Keys(Address.from_url(redis_url).namespace)
        with redis.Redis.from_url(redis_url.partition("?")[0]) as client:

            async def put_in(queue: str, entry: bytes) -> None:
                client.rpush(keys.inbox(queue), entry)

            yield put_in


# Of Redis alone, and by the server's clock.

NOTHING = Retention(succeeded=0.0, failed=0.0, count=0)


@pytest.fixture
def server(redis_url: str) -> Iterator[redis.Redis]:
    """The server, to look at what is stored there."""
    with redis.Redis.from_url(redis_url.partition("?")[0]) as client:
        yield client


@pytest.fixture
def prefix(redis_url: str) -> str:
    return f"tenure:{{{Address.from_url(redis_url).namespace}}}:"


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore.from_url(redis_url)
    yield store
    await store.close()


def size_of(server: redis.Redis, prefix: str) -> int:
    """Bytes that all keys of a namespace take."""
    return sum(server.memory_usage(key, samples=0) or 0 for key in server.scan_iter(match=f"{prefix}*", count=1000))


async def work_off(store: Store) -> None:
    """Lease and finish whatever is in line in queue `q`."""
    while leases := await lease(store, limit=1000):
        await store.settle([(each, SUCCEED) for each in leases])


async def test_a_waiting_job_takes_little_memory(store: Store, server: redis.Redis, prefix: str) -> None:
    for _ in range(10):
        await enqueue(store, *[a_job() for _ in range(1000)])

    assert size_of(server, prefix) / 10_000 < 339


@pytest.mark.parametrize("keep", [None, 0.0], ids=["pruned", "never kept"])
async def test_nothing_is_left_of_jobs_that_are_gone(
    store: Store, server: redis.Redis, prefix: str, keep: float | None
) -> None:  # I16
    sizes = []
    for _ in range(4):
        await enqueue(store, *[a_job(keep=keep, unique=f"{n}") for n in range(1500)])
        await work_off(store)
        while await store.prune(NOTHING, {}):
            pass
        sizes.append(size_of(server, prefix))

    assert await everything(store) == []
    assert max(sizes) < 100_000
    assert not [
        key for key in ("jobs", "records", "order", "uniques", "holding", "kept") if server.exists(prefix + key)
    ]


@pytest.mark.parametrize("way", ["pruned", "deleted", "never kept"])
async def test_nothing_is_left_of_the_history_of_jobs_that_are_gone(
    store: Store, server: redis.Redis, prefix: str, way: str
) -> None:  # I16
    ids = await enqueue(store, *[a_job(keep=0.0 if way == "never kept" else None) for _ in range(20)])
    await store.settle([(each, RETRY) for each in await lease(store, limit=20)])
    [last, *others] = await lease(store, limit=20)
    assert server.hlen(f"{prefix}history") == 20
    await store.settle([(last, FAIL), *((each, SUCCEED) for each in others)])
    if way == "deleted":
        await store.delete(ids)
    elif way == "pruned":
        assert await store.prune(NOTHING, {}) == 20

    assert await store.get(ids) == [None] * 20
    assert not server.exists(f"{prefix}history")


async def test_what_others_say_on_the_channel_of_notes_is_passed_over(
    store: Store, server: redis.Redis, prefix: str
) -> None:
    async with store.watch() as notes, asyncio.timeout(10):
        for said in (b"not MessagePack", b"\xc1", b"\x91\x01"):
            server.publish(f"{prefix}notes", said)
        await store.publish(["ours"])
        assert await anext(notes) == "ours"


async def test_who_watches_does_so_again_after_its_connection_was_killed(store: Store, server: redis.Redis) -> None:
    async with store.watch() as notes, asyncio.timeout(20):
        server.client_kill_filter(_type="pubsub")
        while not await store.watched():
            await asyncio.sleep(0.01)
        await store.publish(["again"])
        assert await anext(notes) == "again"


async def test_all_jobs_are_listed_by_age_although_many_between_them_have_gone(store: Store) -> None:
    kept = []
    for _ in range(5):
        kept += await enqueue(store, a_job(queue="kept"))
        await enqueue(store, *[a_job(keep=0.0) for _ in range(1200)])
        await work_off(store)

    assert [job.id for job in await everything(store)] == kept[::-1]
    assert [job.id for job in await everything(store, limit=2)] == kept[::-1]


async def test_a_job_that_came_back_is_listed_once_and_as_the_newest(store: Store) -> None:
    again = a_job(id="again", queue="again", keep=0.0)
    for _ in range(3):
        await store.enqueue([again])
        await store.cancel(["again"])
        await enqueue(store, *[a_job(keep=0.0) for _ in range(900)])
        await work_off(store)
    [other] = await enqueue(store)
    await store.enqueue([again])

    assert [job.id for job in await everything(store)] == ["again", other]


async def test_enqueues_that_come_together_go_together_and_in_order(store: Store, server: redis.Redis) -> None:
    first = await enqueue(store)
    before = server.info("commandstats")["cmdstat_evalsha"]["calls"]

    answers = await asyncio.gather(*[enqueue(store) for _ in range(200)])

    calls = server.info("commandstats")["cmdstat_evalsha"]["calls"] - before
    assert calls < 10
    assert await line(store) == first + [job_id for [job_id] in answers]


async def test_one_that_is_refused_does_not_take_others_with_it(store: Store) -> None:
    await enqueue(store, a_job(unique="k"))
    jobs = [a_job(unique="k", unique_raises=True), a_job(after=("nobody",)), *[a_job() for _ in range(20)]]

    answers = await asyncio.gather(*[store.enqueue([job]) for job in jobs], return_exceptions=True)

    assert [isinstance(answer, Exception) for answer in answers] == [True, True] + [False] * 20
    assert (await counts(store)).waiting == 21


async def test_one_that_gives_up_does_not_take_others_with_it(store: Store) -> None:
    calls = [asyncio.create_task(enqueue(store)) for _ in range(50)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()

    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(answer, list) for answer in answers[1::2])
    assert set(await line(store)) >= {answer[0] for answer in answers if isinstance(answer, list)}


async def test_ten_thousand_children_come_in_one_operation(store: Store) -> None:
    await enqueue(store, a_job(queue="parents"))
    parent = await lease_one(store, "parents")
    children = tuple(a_job() for _ in range(10_000))

    assert (await settle_one(store, parent, Finish(State.SUCCEEDED, children=children))).kind == "ok"

    assert (await counts(store)).waiting == 10_000


async def test_more_jobs_than_a_step_should_have_are_refused_before_they_are_sent(store: Store) -> None:
    with pytest.raises(InvalidOption, match="at a time"):
        await store.enqueue([a_job()] * 100_001)


async def test_a_newer_layout_is_refused_in_one_sentence(store: Store, server: redis.Redis, prefix: str) -> None:
    server.hset(f"{prefix}meta", "layout", LAYOUT + 1)

    for call in (store.open(), store.enqueue([a_job()]), store.queues()):
        with pytest.raises(LayoutTooNew, match="upgrade tenure"):
            await call
    with pytest.raises(LayoutTooNew):
        await asyncio.to_thread(store.enqueue_now, [a_job()])
    assert (await store.layout()).found == LAYOUT + 1


async def test_a_cursor_of_somebody_elses_is_refused(store: Store) -> None:
    for cursor in ("", "x", "1 2", "1 x 3", '[1, "a"]'):
        with pytest.raises(InvalidOption, match="is no cursor"):
            await store.search(Search(cursor=cursor))


@pytest.mark.parametrize(
    "job_id",
    [
        "0192f1c0-0000-7000-8000-000000000001",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "0192F1C0-0000-7000-8000-000000000001",
        "0192f1c000007000800000000000000100",
        "sixteen-bytes-id",
        "fifteen-bytes-i",
        "Zoë",
        "",
    ],
)
def test_every_id_comes_back_from_its_ref_and_no_two_share_one(job_id: str) -> None:
    ref = ref_of(job_id)

    assert id_of(ref) == job_id
    assert (len(ref) == 16 and ref[0] != 0xFF) is (job_id == "0192f1c0-0000-7000-8000-000000000001")


INFO = {"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "maxmemory": "1000000", "used_memory": "1000", "role": "master",
        "aof_enabled": "1", "connected_slaves": "2", "rdb_last_bgsave_time_sec": "-1"}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "name", "health"),
    [
        ({}, "version", Health.OK),
        ({"redis_version": "6.0.16"}, "version", Health.BAD),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.0"}, "version", Health.OK),
        ({}, "durability", Health.OK),
        ({"aof_enabled": "0"}, "durability", Health.WARN),
        ({"aof_enabled": "0", "rdb_last_bgsave_time_sec": "3"}, "durability", Health.WARN),
        ({"maxmemory_policy": "allkeys-lru"}, "eviction", Health.BAD),
        ({"maxmemory": "0"}, "memory", Health.WARN),
        ({"used_memory": "950000"}, "memory", Health.WARN),
        ({"role": "slave"}, "role", Health.BAD),
    ],
)
def test_what_a_server_says_of_itself_is_judged(changes: dict[str, str], name: str, health: Health) -> None:
    [fact] = [fact for fact in facts(INFO | changes, "everysec", 0.1) if fact.name == name]

    assert fact.health is health
    assert bool(fact.advice) is (health is not Health.OK)


@pytest.mark.parametrize(
    ("appendfsync", "loses"),
    [("always", "nothing"), ("everysec", "second or two"), ("no", "half a minute"), (None, "may not ask")],
)
def test_what_a_crash_may_lose_is_said(appendfsync: str | None, loses: str) -> None:
    [fact] = [fact for fact in facts(INFO, appendfsync, 0.1) if fact.name == "durability"]

    assert loses in fact.value
