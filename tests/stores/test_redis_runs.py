"""Runs of flows on Redis: what they leave behind, what they cost, and what becomes of them when the server is short of something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from tenure.core.job import BlockerPolicy, State, Writes
from tenure.core.options import Retention
from tenure.errors import InvalidOption, StoreFull
from tenure.stores.redis.address import Address
from tenure.stores.redis.records import ref_of
from tenure.stores.redis.store import LAYOUT, RedisStore
from tenure.stores.values import OK, RunSearch
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import a_start, a_successor, hand_over, handing_over
from tenure.testing.conformance.scene import FAIL, a_job, enqueue, lease, lease_one, line, settle, success
from tests.servers.server import Server

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


def contents(server: redis.Redis, prefix: str) -> set[str]:
    """Names of the keys that hold something of jobs or runs: not what is counted, named or drawn from, nor hints."""
    of_none = {"meta", "queues", "recent", "arrivals", "totals", "marker", "ready", "timed"}
    keys = server.scan_iter(match=f"{prefix}*", count=1000)
    names = {key.decode(errors="replace").removeprefix(prefix) for key in keys}
    return {name for name in names if name.split(":")[0] not in of_none}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def timed(redis_url: str, clock: ManualClock) -> AsyncIterator[RedisStore]:
    """A store that goes by a clock of the test's."""
    store = RedisStore(Address.from_url(redis_url), clock=clock)
    yield store
    await store.close()


@pytest.mark.parametrize("way", ["deleted", "purged", "pruned", "pruned once failed", "never kept"])
async def test_nothing_is_left_of_a_run_that_is_gone(
    timed: RedisStore, clock: ManualClock, server: redis.Redis, prefix: str, way: str
) -> None:  # I16
    keep = 0.0 if way == "never kept" else None
    start = a_start({"a": "1"}, {"a": ("1", "2"), "b": ("x",)}, reads=("a",), unique="k", keep=keep)
    [run_id] = await enqueue(timed, start)
    await hand_over(timed, await lease_one(timed), keep=keep, reads=("a", "b"))
    second = await lease_one(timed)
    children = (a_job(queue="c", keep=keep), a_job(queue="c", unique="child", keep=keep))
    join = a_successor(run_id, after=tuple(child.id for child in children), keep=keep)
    await settle(timed, second, handing_over(join, {"b": "2"}, lookups={"a": ("3",), "b": ()}, children=children))
    if way != "never kept":
        await timed.wait([run_id])
    kinds = {"flows", "flow:f", "current", "lookups", "found_by", "dependents", "edges", "uniques"}
    assert contents(server, prefix) > kinds

    match way:
        case "deleted":
            assert len(await timed.delete([run_id])) == 3
        case "purged":
            assert await timed.purge("q") == 1
        case _:
            end = FAIL if way == "pruned once failed" else success()
            for child in await lease(timed, "c"):
                await settle(timed, child, end)
            for last in await lease(timed):
                await settle(timed, last, success("1", writes=Writes({"z": "1"})))
    if way in {"deleted", "purged", "never kept"}:
        assert await timed.run(run_id) is None
    for child in await lease(timed, "c"):
        await settle(timed, child, success())
    clock.advance(100)
    while await timed.prune(NOTHING, {}):
        pass

    assert contents(server, prefix) == set()


async def test_many_runs_that_come_and_go_leave_nothing(
    timed: RedisStore, server: redis.Redis, prefix: str
) -> None:  # I16
    for _ in range(3):
        await enqueue(timed, *(a_start({"n": str(n)}, {"n": (str(n % 7),)}) for n in range(300)))
        for _ in range(2):
            held = await lease(timed, limit=1000)
            await timed.settle([(one, handing_over(a_successor(one.job.run_id or ""))) for one in held])
        await timed.settle([(one, success()) for one in await lease(timed, limit=1000)])
        while await timed.prune(NOTHING, {}):
            pass

    assert contents(server, prefix) == set()
    assert server.llen(f"{prefix}recent") < 2_000


@pytest.mark.parametrize("claim", ["awaited", "waited for", "unique"])
async def test_a_run_that_somebody_has_a_claim_on_stays_while_those_around_it_are_pruned(
    timed: RedisStore, server: redis.Redis, prefix: str, claim: str
) -> None:
    claimed = a_start(unique="k", window=1000.0) if claim == "unique" else a_start()
    await enqueue(timed, a_start(), claimed, a_start())
    for _ in range(2):
        held = await lease(timed)
        await timed.settle([(one, handing_over(a_successor(one.job.run_id or ""))) for one in held])
    if claim == "awaited":
        await timed.wait([claimed.id])
    elif claim == "waited for":
        await enqueue(timed, a_job(queue="d", after=(claimed.id,), if_blocker_fails=BlockerPolicy.WAIT))
    ends = (success(), FAIL if claim == "waited for" else success(), FAIL)
    await timed.settle(list(zip(await lease(timed), ends, strict=True)))

    assert await timed.prune(NOTHING, {}) == 2

    assert [run.id for run in (await timed.runs(RunSearch())).runs] == [claimed.id]
    assert len((await timed.steps(claimed.id)).jobs) == 3
    assert server.hlen(f"{prefix}current") == 1


async def test_a_hundred_runs_are_pruned_by_few_commands(store: RedisStore, server: redis.Redis, prefix: str) -> None:
    await enqueue(store, *(a_start({"n": str(n)}, {"n": (str(n),)}) for n in range(100)))
    for _ in range(3):
        held = await lease(store, limit=100)
        await store.settle([(one, handing_over(a_successor(one.job.run_id or ""))) for one in held])
    await store.settle([(one, success()) for one in await lease(store, limit=100)])
    before = commands(server)

    assert await store.prune(NOTHING, {}) == 100

    assert commands(server) - before < 200  # one for each lookup among them
    assert contents(server, prefix) == set()


async def test_long_runs_are_pruned_by_several_calls_none_of_which_takes_long(
    store: RedisStore, server: redis.Redis, prefix: str
) -> None:
    await enqueue(store, *(a_start() for _ in range(60)))
    for _ in range(199):
        held = await lease(store, limit=60)
        await store.settle([(one, handing_over(a_successor(one.job.run_id or ""))) for one in held])
    await store.settle([(one, success()) for one in await lease(store, limit=60)])
    calls = server.info("commandstats")["cmdstat_evalsha"]["calls"]

    assert await store.prune(NOTHING, {}) == 60

    assert server.info("commandstats")["cmdstat_evalsha"]["calls"] - calls >= 3  # 12,000 jobs, 5,000 at a time
    assert contents(server, prefix) == set()


# What runs cost.


def commands(server: redis.Redis) -> int:
    """Commands that the server has done so far, those of scripts among them."""
    stats = server.info("commandstats")
    return sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info")


async def test_a_hundred_hand_overs_are_one_call_and_few_commands(store: RedisStore, server: redis.Redis) -> None:
    await enqueue(store, *(a_start() for _ in range(100)))
    held = await lease(store, limit=100)
    settlements = [(one, handing_over(a_successor(one.job.id))) for one in held]
    calls, before = server.info("commandstats")["cmdstat_evalsha"]["calls"], commands(server)

    assert await store.settle(settlements) == [OK] * 100

    assert server.info("commandstats")["cmdstat_evalsha"]["calls"] - calls <= 1
    assert commands(server) - before < 50


async def test_the_end_of_a_hundred_children_takes_few_commands_each(store: RedisStore, server: redis.Redis) -> None:
    [run_id] = await enqueue(store, a_start())
    children = tuple(a_job(queue="c") for _ in range(100))
    join = a_successor(run_id, after=tuple(child.id for child in children))
    await settle(store, await lease_one(store), handing_over(join, children=children))
    settlements = [(one, success()) for one in await lease(store, "c", limit=100)]
    before = commands(server)

    assert await store.settle(settlements) == [OK] * 100

    assert commands(server) - before < 200
    assert await line(store) == [join.id]


async def test_large_attributes_do_not_travel_to_steps_that_do_not_read_them(
    store: RedisStore, server: redis.Redis
) -> None:  # G18
    big = '"' + "x" * 100_000 + '"'
    [run_id] = await enqueue(store, a_start({"big": big, "small": "1"}, reads=("small",)))
    before = server.info("stats")

    for _ in range(3):
        await hand_over(store, await lease_one(store), reads=("small",))

    after = server.info("stats")
    for direction in ("total_net_input_bytes", "total_net_output_bytes"):
        # The scripts themselves go there once, as text, if the server does not have them yet.
        assert after[direction] - before[direction] < (250_000 if "input" in direction else 30_000), direction
    assert (await store.attributes(run_id, ["big"]))["big"] == big


async def test_ten_thousand_children_are_joined(store: RedisStore) -> None:
    [run_id] = await enqueue(store, a_start())
    children = tuple(a_job(queue="c", payload=b"[%d]" % number) for number in range(10_000))
    join = a_successor(run_id, after=tuple(child.id for child in children))

    assert await settle(store, await lease_one(store), handing_over(join, children=children)) == OK
    while held := await lease(store, "c", limit=1000):
        assert set(await store.settle([(one, success(one.job.payload.decode())) for one in held])) == {OK}

    joined = await lease_one(store)
    assert joined.job.id == join.id
    assert joined.job.results == tuple(f"[{number}]" for number in range(10_000))


# What the server may do.


async def test_scripts_that_the_server_has_forgotten_hand_over_all_the_same(
    store: RedisStore, server: redis.Redis
) -> None:  # F13
    [run_id] = await enqueue(store, a_start({"a": "1"}, reads=("a",)))
    for _ in range(3):
        leased = await lease_one(store)
        server.script_flush()
        await hand_over(store, leased, reads=("a",))
        server.script_flush()

    assert [step.state for step in (await store.steps(run_id)).jobs] == [State.SUCCEEDED] * 3 + [State.WAITING]


async def test_a_full_server_starts_no_run_and_lets_those_there_are_go_on(tmp_path: Path) -> None:  # F13, I13
    server = Server(tmp_path / "redis").start()
    store = RedisStore.from_url(server.url)
    try:
        runs = await enqueue(store, *(a_start({"a": "1"}, {"a": ("1",)}, reads=("a",)) for _ in range(20)))
        server.do("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreFull):
            await store.enqueue([a_start({"a": "1"})])

        for leased in await lease(store):
            await settle(
                store,
                leased,
                handing_over(
                    a_successor(leased.job.id, reads=("a",), needs=("b",)),
                    {"b": '"' + "x" * 10_000 + '"'},
                    lookups={"a": ("2",)},
                ),
            )
        held = await lease(store)
        assert [one.job.run_id for one in held] == runs
        assert [one.job.attributes for one in held] == [{"a": "1"}] * 20
        assert set(await store.settle([(one, success()) for one in held])) == {OK}
        assert len((await store.runs(RunSearch(flow="f", lookup=("a", "2")))).runs) == 20
        assert await store.delete(runs) != []
        assert (await store.runs(RunSearch())).runs == []
    finally:
        await store.close()
        server.kill()


# Of the layout before.


async def test_a_namespace_of_the_layout_before_is_raised_and_its_jobs_are_those_they_were(
    store: RedisStore, redis_url: str, server: redis.Redis, prefix: str
) -> None:
    ids = await enqueue(store, *(a_job() for _ in range(3)))
    server.hset(f"{prefix}meta", "layout", LAYOUT - 1)

    newer = RedisStore.from_url(redis_url)
    await newer.open()

    assert (await newer.layout()).found == LAYOUT
    assert await line(newer) == ids
    await newer.close()


async def test_no_run_is_lost_sight_of_when_a_step_of_it_is_missing(
    store: RedisStore, server: redis.Redis, prefix: str
) -> None:
    """As a program of the layout before may have deleted it, which knows steps for jobs."""
    [run_id] = await enqueue(store, a_start({"a": "1"}, {"a": ("1",)}))
    second = await hand_over(store, await lease_one(store))
    server.delete(f"{prefix}line:q")
    server.hdel(f"{prefix}jobs", ref_of(second))

    assert await store.get([second]) == [None]
    [run] = (await store.runs(RunSearch())).runs
    assert (run.id, run.step.id) == (run_id, run_id)
    assert await store.run(run_id) == run
    assert [step.id for step in (await store.steps(run_id)).jobs] == [run_id]
    assert await store.delete([run_id]) == [run_id]
    assert contents(server, prefix) == set()


# Listings.


async def test_a_listing_of_runs_goes_on_where_the_page_before_has_ended(store: RedisStore) -> None:
    for flow in ("f", "g"):
        await enqueue(store, *(a_start(flow=flow, queue=flow) for _ in range(1100)))
    one = await lease_one(store, "f")
    await settle(store, one, success())

    page = await store.runs(RunSearch(state=State.SUCCEEDED))
    assert (page.runs, page.searched) == ([], 2000)
    page = await store.runs(RunSearch(state=State.SUCCEEDED, cursor=page.cursor))
    assert ([run.id for run in page.runs], page.cursor) == ([one.job.id], None)


@pytest.mark.parametrize("cursor", ["", "x", "1 2", "-1"])
async def test_a_cursor_of_somebody_elses_is_refused(store: RedisStore, cursor: str) -> None:
    with pytest.raises(InvalidOption, match="is no cursor"):
        await store.runs(RunSearch(cursor=cursor))


def a_long_id(number: int) -> str:
    return f"{number}" + "ä" * 100


async def test_runs_of_any_id_hand_over(store: RedisStore) -> None:
    first = a_start({"a": "1"}, {"a": ("1",)}, id=a_long_id(1), reads=("a",))
    await store.enqueue([first])
    for number in (2, 3):
        await hand_over(store, await lease_one(store), id=a_long_id(number), reads=("a",))

    leased = await lease_one(store)
    assert (leased.job.run_id, leased.job.attributes) == (first.id, {"a": "1"})
    steps = (await store.steps(first.id)).jobs
    assert [step.successor for step in steps] == [a_long_id(2), a_long_id(3), None]
    [run] = (await store.runs(RunSearch(flow="f", lookup=("a", "1")))).runs
    assert (run.id, run.step.id) == (first.id, a_long_id(3))
