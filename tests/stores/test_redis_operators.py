"""Edges, orders, headers and the audit on Redis alone: what is stored of them, beside programs of an earlier version."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import redis

from tenure.core.job import BlockerPolicy, State
from tenure.core.options import Retention
from tenure.errors import InvalidOption, StoreFull
from tenure.stores.redis.address import Address
from tenure.stores.redis.records import ref_of
from tenure.stores.redis.store import LAYOUT, RedisStore
from tenure.stores.values import ACTIONS_KEPT, Action, EdgeInfo, Order, Pulse
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    SUCCEED,
    a_job,
    a_worker,
    enqueue,
    lease,
    lease_one,
    settle,
    state,
)
from tests.servers.server import Server

from .test_redis_schedules import until_it_is_whole

NOTHING = Retention(succeeded=0.0, failed=0.0, count=0)
AN_ACTION = Action(who="ann@db1", by="cli", what="retry")


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


async def test_the_layout_is_that_of_programs_that_know_nothing_of_this(store: RedisStore) -> None:
    """They go on, and may start after this one: they pass over options, fields and keys that they do not know."""
    await store.open()

    assert (await store.layout()).found == LAYOUT == 3


# Headers.


async def test_headers_are_an_option_that_jobs_without_them_do_not_have(
    store: RedisStore, server: redis.Redis, prefix: str
) -> None:
    plain, tagged, with_headers = await enqueue(store, a_job(), a_job(tags=("a",)), a_job(headers={"tenant": "t1"}))

    def options(job_id: str) -> object:
        return msgspec.msgpack.decode(server.hget(f"{prefix}jobs", ref_of(job_id)))[5]  # type: ignore[arg-type]

    assert options(plain) == {}
    assert options(tagged) == {"tags": ["a"]}
    assert options(with_headers) == {"headers": '{"tenant":"t1"}'}


# Edges.


def forget_blockers(server: redis.Redis, prefix: str, job_id: str) -> None:
    """Leave the edges of a job as a program of an earlier version enqueues them."""
    assert server.hdel(f"{prefix}edges", b"@" + ref_of(job_id)) == 1


async def test_an_edge_that_an_earlier_version_has_enqueued_is_known_while_it_is_open(
    store: RedisStore, server: redis.Redis, prefix: str
) -> None:
    one, two = await enqueue(store, a_job(queue="b"), a_job(queue="c"))
    [waits] = await enqueue(store, a_job(after=(one, two), if_blocker_fails=BlockerPolicy.PROCEED))
    forget_blockers(server, prefix, waits)
    assert await store.edges(waits) == [EdgeInfo(one, open=True), EdgeInfo(two, open=True)]

    await settle(store, await lease_one(store, "b"), SUCCEED)

    assert await store.edges(waits) == [EdgeInfo(None, open=False), EdgeInfo(two, open=True)]
    await settle(store, await lease_one(store, "c"), FAIL)
    assert await store.edges(waits) == [EdgeInfo(None, open=False)] * 2
    assert (await lease_one(store)).job.results[0] == "42"


async def test_edges_that_were_never_written_are_open_and_unknown(
    store: RedisStore, server: redis.Redis, prefix: str
) -> None:
    [waits] = await enqueue(store, a_job(after=await enqueue(store, a_job(queue="b"))))
    server.delete(f"{prefix}edges")

    assert await store.edges(waits) == [EdgeInfo(None, open=True)]


@pytest.mark.parametrize("way", ["pruned", "deleted", "purged", "never kept"])
async def test_nothing_is_left_of_edges_of_jobs_that_are_gone(
    store: RedisStore, server: redis.Redis, prefix: str, way: str
) -> None:  # I16
    ids = await enqueue(store, a_job(queue="b"), a_job(queue="b"))
    waiting = await enqueue(store, *[a_job(after=ids, keep=0.0 if way == "never kept" else None) for _ in range(5)])
    await store.settle([(each, SUCCEED) for each in await lease(store, "b")])
    assert server.hlen(f"{prefix}edges") == 5 * 4
    if way == "purged":
        assert await store.purge("q") == 5
    else:
        await store.settle([(each, SUCCEED) for each in await lease(store)])
    if way == "deleted":
        await store.delete(waiting)
    elif way == "pruned":
        await store.prune(NOTHING, {})

    assert await store.get(waiting) == [None] * 5
    assert not server.exists(f"{prefix}edges")


async def test_what_an_earlier_version_leaves_of_edges_counts_for_nothing_and_is_mended(
    store: RedisStore, server: redis.Redis, prefix: str
) -> None:
    """It deletes a job, and does not know the list of its blockers."""
    [blocker] = await enqueue(store, a_job(queue="b"))
    first, again = await enqueue(store, a_job(after=(blocker,)), a_job(id="again", after=(blocker,)))
    left = server.hget(f"{prefix}edges", b"@" + ref_of("again"))
    assert left is not None
    await store.delete([first, again])
    for job_id in (first, again):
        server.hset(f"{prefix}edges", b"@" + ref_of(job_id), left)
    [other] = await enqueue(store, a_job(queue="b"))
    await enqueue(store, a_job(id="again", after=(other,)))
    server.hset(f"{prefix}edges", b"@" + ref_of(again), left)

    assert await store.edges("again") == [EdgeInfo(other, open=True)]
    assert await store.edges(first) == []
    assert await store.mend(dry_run=True) == 2
    assert await store.mend() == 2

    assert await store.mend(dry_run=True) == 0
    assert await store.edges("again") == [EdgeInfo(other, open=True)]
    await settle(store, (await lease(store, "b"))[1], SUCCEED)
    assert await state(store, "again") is State.WAITING


# Orders.


async def test_an_order_is_a_field_of_the_worker_which_goes_with_it(
    store: RedisStore, server: redis.Redis, prefix: str
) -> None:
    await store.register(a_worker("w"))
    assert not server.hexists(f"{prefix}worker:w", "order")
    await store.order("w", Order.QUIET)
    assert server.hget(f"{prefix}worker:w", "order") == b"quiet"

    await store.leave("w")

    assert not server.exists(f"{prefix}worker:w")
    assert not await store.order("w", Order.STOP)
    assert not server.exists(f"{prefix}worker:w")


# The audit.


async def test_the_audit_drops_what_is_too_old_and_goes_on_counting(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock
) -> None:
    await store.note_actions([AN_ACTION] * 5)
    page = await store.actions(2)
    assert (page.cursor, server.llen(f"{prefix}actions")) == ("4", 5)

    clock.advance(ACTIONS_KEPT + 1)
    assert (await store.actions()).actions == []
    await store.note_actions([AN_ACTION])

    assert len((await store.actions()).actions) == 1
    assert server.llen(f"{prefix}actions") <= 4
    for _ in range(3):
        await store.note_actions([AN_ACTION])
    assert server.llen(f"{prefix}actions") == 4
    assert [msgspec.msgpack.decode(each)[0] for each in server.lrange(f"{prefix}actions", 0, -1)] == [6, 7, 8, 9]  # type: ignore[arg-type]
    assert (await store.actions(cursor=page.cursor)).actions == []
    assert len((await store.actions(cursor="8")).actions) == 2


async def test_no_action_is_noted_by_a_call_without_one(store: RedisStore, server: redis.Redis, prefix: str) -> None:
    await store.note_actions([])

    assert not server.exists(f"{prefix}actions")


async def test_a_cursor_of_another_listing_is_refused(store: RedisStore) -> None:
    for cursor in ("", "x", "1 2 3", "-1"):
        with pytest.raises(InvalidOption, match="is no cursor"):
            await store.actions(cursor=cursor)


async def test_a_call_that_was_cut_off_leaves_no_gap_in_the_audit(
    store: RedisStore, server: redis.Redis, prefix: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> Callable[[], Awaitable[None]]:
        server.delete(f"{prefix}actions")
        await store.note_actions([AN_ACTION] * 3)
        clock.advance(ACTIONS_KEPT + 1)
        return lambda: store.note_actions([AN_ACTION] * 2)

    async def check() -> None:
        numbers = [msgspec.msgpack.decode(each)[0] for each in server.lrange(f"{prefix}actions", 0, -1)]  # type: ignore[arg-type]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert len((await store.actions()).actions) in {2, 4}
        assert len((await store.actions(1)).actions) == 1

    assert await until_it_is_whole(monkeypatch, "note_actions", scene, check) > 5


# A full server.


async def test_a_full_server_takes_orders_beats_and_actions(tmp_path: Path) -> None:
    server = Server(tmp_path / "redis").start()
    store = RedisStore.from_url(server.url)
    try:
        await store.register(a_worker("w"))
        server.do("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreFull):
            await enqueue(store, a_job(headers={"tenant": "t1"}))

        assert await store.order("w", Order.STOP)
        assert await store.beat("w", Pulse()) is Order.STOP
        await store.note_actions([AN_ACTION])
        assert len((await store.actions()).actions) == 1
    finally:
        await store.close()
        server.kill()
