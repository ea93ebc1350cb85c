"""What a script of Redis leaves that was refused a command in its middle: nothing stumbles over it, and the doctor mends it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import redis

from tenure.core.job import BlockerPolicy, NewJob, State
from tenure.core.lifecycle import Park, Transition
from tenure.core.options import Retention
from tenure.core.schedule import Firing, Overlap, SchedulePut
from tenure.errors import StoreError
from tenure.stores.redis.address import Address
from tenure.stores.redis.keys import acl_rules
from tenure.stores.redis.records import ref_of
from tenure.stores.redis.scripts import scripts
from tenure.stores.redis.store import RedisStore
from tenure.stores.values import RunSearch, Search
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import a_start, a_successor, handing_over
from tenure.testing.conformance.scene import (
    FAIL,
    RETRY,
    SUCCEED,
    a_job,
    a_worker,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    everything,
    lease,
    lease_one,
    settle,
    state,
    success,
)
from tests.servers.server import Server

PAGE = Path(__file__).parents[2] / "docs" / "redis.md"
[RULES] = re.findall(r"^user tenure (.*)$", PAGE.read_text(), re.MULTILINE)
NOTHING = Retention(succeeded=0.0, failed=0.0, count=0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(redis_url: str, clock: ManualClock) -> AsyncIterator[RedisStore]:
    store = RedisStore(Address.from_url(redis_url), clock=clock)
    yield store
    await store.close()


class Hand:
    """Somebody who takes parts of jobs away, as a script does that is refused its next command."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url.partition("?")[0])
        self.prefix = f"tenure:{{{Address.from_url(url).namespace}}}:"

    def leave(self, key: str, job_id: str) -> None:
        """Take a job out of a sorted set, whatever its place is."""
        for place in self.client.zrange(self.prefix + key, 0, -1):
            assert isinstance(place, bytes)
            if place.endswith(ref_of(job_id)):
                self.client.zrem(self.prefix + key, place)

    def drop(self, key: str, job_id: str) -> None:
        """Take what a hash has of a job."""
        self.client.hdel(self.prefix + key, ref_of(job_id))


@pytest.fixture
def hand(redis_url: str) -> Iterator[Hand]:
    hand = Hand(redis_url)
    yield hand
    hand.client.close()


async def read_everything(store: RedisStore, *ids: str) -> None:
    """Whatever reads jobs does so, and none of it fails."""
    await store.get(ids)
    await store.queues()
    await store.workers()
    await store.examine()
    await store.wait(ids)
    await store.runs(RunSearch())
    for id_ in ids:
        await store.blockers(id_)
        await store.edges(id_)
        await store.run(id_)
        await store.steps(id_)
    for each in (None, *State):
        await everything(store, state=each)
        await store.search(Search(state=each, task="t", queue="q"))
        await store.search(Search(state=each, text="x", error="e", worker="w", before=0.0, scheduled=True))
        await store.search(Search(state=each, text="", brief=1))


async def work_on(store: RedisStore, clock: ManualClock) -> None:
    """Whatever changes jobs by itself does so, and none of it fails."""
    for _ in range(4):
        clock.advance(40)
        await store.reap(["q"])
        for solo in (False, True):
            await store.settle([(each, SUCCEED) for each in await lease(store, solo=solo)])
    await store.retire("w")
    await store.purge("q")
    await store.prune(NOTHING, {})


async def in_state(store: RedisStore, clock: ManualClock, which: str) -> str:
    """The id of a job of queue `q` in this state."""
    [job_id] = await enqueue(store, a_job(after=await enqueue(store)) if which == "blocked" else a_job(
        delay=10 if which == "scheduled" else 0, keep=100.0 if which == "kept" else None, expires=30 if which == "expiring" else None,
    ))  # fmt: skip
    match which:
        case "running":
            await lease_one(store)
        case "succeeded" | "kept":
            await settle(store, await lease_one(store), SUCCEED)
        case "failed":
            await settle(store, await lease_one(store), FAIL)
        case "parked":
            await settle(store, await lease_one(store), Park(20))
        case "retried":
            await settle(store, await lease_one(store), RETRY)
        case "suspect":
            for _ in range(2):
                await lease_one(store)
                clock.advance(30)
                await store.reap(["q"])
    return job_id


PLACES = {
    "waiting": "line:q",
    "scheduled": "scheduled:q",
    "expiring": "expiring:q",
    "blocked": "blocked:q",
    "retried": "line:q",
    "suspect": "suspects:q",
    "running": "held:q",
    "parked": "blocked:q",
    "succeeded": "ended:succeeded:q",
    "kept": "apart:succeeded:q",
    "failed": "ended:failed:q",
}


@pytest.mark.parametrize("missing", ["jobs", "records", "place", "edges", "history", "holding", "ready_at", "seq"])
@pytest.mark.parametrize("which", PLACES)
async def test_nothing_stumbles_over_a_job_of_which_a_part_is_missing(
    store: RedisStore, clock: ManualClock, hand: Hand, which: str, missing: str
) -> None:
    await store.register(a_worker())
    job_id = await in_state(store, clock, which)
    match missing:
        case "place":
            hand.leave(PLACES[which], job_id)
        case "holding" | "edges":
            hand.client.delete(hand.prefix + missing)
        case "seq":  # it is also where it was before, or where it was about to go
            for key in PLACES.values():
                hand.client.zadd(hand.prefix + key, {b"\0\0\0\0\0\1" + ref_of(job_id): 0})
        case _:
            hand.drop(missing, job_id)

    await read_everything(store, job_id)
    await work_on(store, clock)
    await store.mend()
    await read_everything(store, job_id)
    await work_on(store, clock)

    assert await store.mend(dry_run=True) == 0
    await assert_counters_equal_a_recount(store)


@pytest.mark.parametrize("which", [which for which in PLACES if which != "expiring"])
async def test_a_job_in_no_line_is_found_and_mended(
    store: RedisStore, clock: ManualClock, hand: Hand, which: str
) -> None:
    job_id = await in_state(store, clock, which)
    before = (await counts(store), await store.get([job_id]))
    assert await store.mend(dry_run=True) == 0
    hand.leave(PLACES[which], job_id)

    assert await store.mend(dry_run=True) == (1 if which != "running" else 2)  # and the number that its worker holds
    assert await counts(store) != before[0]
    await store.mend()

    assert (await counts(store), await store.get([job_id])) == before
    assert await store.mend(dry_run=True) == 0
    await assert_counters_equal_a_recount(store)


async def test_a_run_goes_on_whose_first_step_stood_nowhere(store: RedisStore, hand: Hand) -> None:
    run = a_start()
    await store.enqueue([run])
    hand.leave("line:q", run.id)
    hand.client.delete(f"{hand.prefix}flow:f", f"{hand.prefix}flows")

    assert await store.mend() == 1

    assert [each.id for each in (await store.runs(RunSearch())).runs] == [run.id]
    assert (await lease_one(store)).job.id == run.id


async def test_a_dependent_is_told_again_whose_blocker_has_ended_unheard(store: RedisStore, hand: Hand) -> None:
    [blocker] = await enqueue(store)
    done, gone = await enqueue(store, a_job(after=(blocker,)), a_job(queue="other", after=(blocker,)))
    hand.client.delete(f"{hand.prefix}dependents")
    await settle(store, await lease_one(store), SUCCEED)
    assert await state(store, done) is State.BLOCKED

    assert await store.mend() == 2

    assert (await lease_one(store)).job.results == ("42",)
    assert (await lease_one(store, "other")).job.id == gone
    assert await store.mend(dry_run=True) == 0


async def test_a_walk_over_many_jobs_goes_in_steps_and_misses_none(store: RedisStore, hand: Hand) -> None:
    ids = await enqueue(store, *[a_job() for _ in range(3000)])
    hand.client.delete(f"{hand.prefix}line:q")

    assert await store.mend() == 3000

    assert [each.job.id for each in await lease(store, limit=3000)] == ids


# Rights.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.kill()


@pytest.fixture
async def confined(server: Server) -> AsyncIterator[RedisStore]:
    """A store as the user of the page has it."""
    server.do("FLUSHALL")
    server.do("ACL", "SETUSER", "tenure", "reset", *RULES.split())
    store = RedisStore.from_url(f"redis://tenure:change-me@127.0.0.1:{server.port}")
    yield store
    await store.close()


def commands() -> set[str]:
    """Every command that is named in a script but the one that tries them."""
    found = set()
    for script in scripts.values():
        if script.name != "open":
            found |= set(re.findall(r"'([A-Z]{3,}[A-Z0-9]*)'", script.source))
    return found - {"WITHSCORES", "LIMIT", "COUNT", "MATCH", "SCAN"}


def tried() -> set[str]:
    return set(re.findall(r"\{ '([A-Z]+)'(?:, key|, prefix|, 0| \})", scripts["open"].source))


def test_every_command_of_a_script_is_tried_at_open() -> None:
    assert tried() == commands()


def test_the_page_and_the_error_name_the_same_rights() -> None:
    assert RULES.split(" resetkeys ")[1].replace(" -@all", "") == acl_rules("tenure")


@pytest.mark.parametrize("command", sorted(tried()))
async def test_a_user_without_a_command_is_refused_at_open_and_nothing_is_done(
    confined: RedisStore, server: Server, command: str
) -> None:
    server.do("ACL", "SETUSER", "tenure", f"-{command}")

    with pytest.raises(StoreError, match=rf"NOPERM .* may not use {command}, so nothing was done: .*\+@hash \+@list"):
        await enqueue(confined)

    assert server.do("KEYS", "*") == ([] if command != "DEL" else [b"tenure:{tenure}:probe"])
    server.do("ACL", "SETUSER", "tenure", f"+{command}")
    await enqueue(confined)
    assert server.do("EXISTS", "tenure:{tenure}:probe") == 0


async def test_after_a_refusal_nothing_is_sent_before_the_rights_are_back(confined: RedisStore, server: Server) -> None:
    ids = await enqueue(confined, *[a_job() for _ in range(10)])
    server.do("ACL", "SETUSER", "tenure", "-zadd")
    with pytest.raises(StoreError, match="NOPERM"):
        await lease(confined, limit=1)
    left = server.do("ZCARD", "tenure:{tenure}:line:q")

    for _ in range(5):
        with pytest.raises(StoreError, match="may not use ZADD"):
            await lease(confined, limit=1)

    assert server.do("ZCARD", "tenure:{tenure}:line:q") == left
    server.do("ACL", "SETUSER", "tenure", "+zadd")
    await confined.mend()
    assert {each.job.id for each in await lease(confined)} == set(ids)


@pytest.mark.parametrize("command", ["ZADD", "HSET", "ZREM", "HINCRBY", "RPUSH", "LLEN", "ZPOPMIN", "SADD"])
async def test_no_job_is_lost_when_a_command_is_taken_away_for_moments(
    confined: RedisStore, server: Server, command: str
) -> None:
    producer = RedisStore.from_url(f"redis://tenure:change-me@127.0.0.1:{server.port}")
    jobs = [a_job(keep=1000.0 if n % 5 == 0 else None, delay=0.01 if n % 7 == 0 else 0.0) for n in range(150)]
    over = asyncio.Event()

    async def until_it_is_done(call: object) -> object:
        while True:
            with contextlib.suppress(StoreError):
                return await call()  # type: ignore[operator]
            await asyncio.sleep(0.001)

    async def produce() -> None:
        for n in range(0, len(jobs), 3):
            await until_it_is_done(lambda n=n: producer.enqueue(jobs[n : n + 3]))

    async def work() -> None:
        while not over.is_set():
            leases = await until_it_is_done(lambda: lease(confined, limit=5, ttl=1000.0))
            for each in leases:  # type: ignore[attr-defined]
                step = RETRY if each.job.attempt == 1 and each.number % 3 == 0 else SUCCEED
                await until_it_is_done(lambda each=each, step=step: confined.settle([(each, step)]))
            await asyncio.sleep(0)

    working, producing = asyncio.create_task(work()), asyncio.create_task(produce())
    with server.client() as client:
        for _ in range(12):
            client.execute_command("ACL", "SETUSER", "tenure", f"-{command}")
            await asyncio.sleep(0.004)
            client.execute_command("ACL", "SETUSER", "tenure", f"+{command}")
            await asyncio.sleep(0.015)
    await producing
    over.set()
    await working
    await producer.close()

    await confined.mend()
    await confined.retire("w")
    while leases := await lease(confined, solo=True):
        await confined.settle([(each, SUCCEED) for each in leases])
    found = await confined.get([job.id for job in jobs])
    assert {None if job is None else job.state for job in found} == {State.SUCCEEDED}
    assert await confined.mend(dry_run=True) == 0
    await assert_counters_equal_a_recount(confined)


# One operation after the other, refused each command in turn.

Call = Callable[[], Awaitable[object]]


async def _enqueue(store: RedisStore, *jobs: NewJob) -> Call:
    return lambda: store.enqueue(jobs)


async def _lease(store: RedisStore) -> Call:
    await enqueue(
        store,
        a_job(),
        a_job(keep=9.0),
        a_job(after=await enqueue(store)),
        a_job(delay=0.001),
        a_start({"a": "1"}, reads=("a",)),
    )
    return lambda: lease(store)


async def _settle(store: RedisStore, step: Transition, *jobs: NewJob) -> Call:
    ids = await enqueue(store, *jobs)
    await enqueue(store, a_job(after=ids), a_job(queue="r", after=ids, if_blocker_fails=BlockerPolicy.PROCEED))
    leases = await lease(store, limit=len(jobs))
    return lambda: store.settle([(each, step) for each in leases])


async def _hand_over(store: RedisStore) -> Call:
    run = a_start({"a": "1"}, {"customer": ("7",)})
    await enqueue(store, run, a_job(queue="r", after=(run.id,)))
    leased = await lease_one(store)
    successor = a_successor(run.id)
    return lambda: store.settle([(leased, handing_over(successor, {"b": "2"}))])


async def _reap(store: RedisStore) -> Call:
    await enqueue(store, a_job(), a_job(unique="k", max_losses=1), a_job(lease=0.001))
    await lease(store, ttl=0.001)
    await enqueue(store)
    await settle(store, await lease_one(store), Park(0.001))
    await asyncio.sleep(0.002)
    return lambda: store.reap(["q"])


async def _cancel(store: RedisStore) -> Call:
    ids = await enqueue(store, a_job(), a_job(unique="k"), a_job(delay=10))
    await enqueue(store, a_job(after=ids[:1]))
    await lease(store, limit=1)
    return lambda: store.cancel(ids)


async def _fire(store: RedisStore) -> Call:
    names = ("a", "b", "c")
    await store.put_schedules([SchedulePut(name=name, if_version=0, settings="{}", next=0.0) for name in names])
    await store.fire([Firing(name=name, version=1, jobs=((1.0, a_job()),), next=1.0) for name in names])
    await lease(store, limit=2)
    firings = [
        Firing(name=name, version=2, jobs=((2.0, job),), overlap=overlap, next=2.0)
        for name, job, overlap in zip(
            names,
            (a_job(), a_job(), a_start(delay=0.001)),
            (Overlap.REPLACE, Overlap.WAIT, Overlap.REPLACE),
            strict=True,
        )
    ]
    return lambda: store.fire(firings)


async def _retry(store: RedisStore) -> Call:
    ids = await enqueue(store, a_job(unique="k"), a_job())
    await store.settle([(each, FAIL) for each in await lease(store)])
    return lambda: store.retry(ids)


async def _retire(store: RedisStore) -> Call:
    await store.register(a_worker())
    await enqueue(store, *[a_job() for _ in range(3)])
    await lease(store)
    return lambda: store.retire("w")


async def _take_in(store: RedisStore) -> Call:
    for entry in (b'{"task": "t"}', b'{"task": "t", "id": "x", "unique": "k"}', b"not JSON"):
        await store._link.command("RPUSH", store._keys.inbox("q"), entry)
    return lambda: store.take_in(["q"])


async def _prune(store: RedisStore) -> Call:
    run = a_start()
    await enqueue(store, run, a_job(), a_job(keep=0.001), a_job(unique="k", window=0.001))
    for each in await lease(store):
        await settle(store, each, handing_over(a_successor(run.id)) if each.job.id == run.id else SUCCEED)
    await settle(store, await lease_one(store), SUCCEED)
    await asyncio.sleep(0.002)
    return lambda: store.prune(NOTHING, {})


async def _delete(store: RedisStore) -> Call:
    ids = await enqueue(store, a_job(), a_job(unique="k"), a_start())
    await enqueue(store, a_job(after=ids))
    await lease(store, limit=1)
    return lambda: store.delete(ids, cascade=True)


OPERATIONS: dict[str, Callable[[RedisStore], Awaitable[Call]]] = {
    "enqueue plain": lambda store: _enqueue(store, a_job(), a_job(queue="r")),
    "enqueue others": lambda store: _enqueue(store, a_job(id="b"), a_job(delay=0.001), a_job(unique="k"), a_job(after=("b",)), a_job(expires=60.0)),
    "enqueue runs": lambda store: _enqueue(store, a_start({"a": "1"}, {"customer": ("7",)}), a_start(delay=0.001)),
    "lease": _lease,
    "succeed": lambda store: _settle(store, SUCCEED, a_job(), a_job(unique="k"), a_job(keep=0.0)),
    "fail": lambda store: _settle(store, FAIL, a_job(), a_job(unique="k")),
    "retry later": lambda store: _settle(store, RETRY, a_job(), a_job(unique="k")),
    "have children": lambda store: _settle(store, success(children=(a_job(id="c"), a_job(after=("c",)))), a_job()),
    "hand over": _hand_over,
    "reap": _reap,
    "cancel": _cancel,
    "fire": _fire,
    "retry": _retry,
    "retire": _retire,
    "take in": _take_in,
    "prune": _prune,
    "delete": _delete,
}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_job_ends_whichever_command_an_operation_was_refused(
    confined: RedisStore, server: Server, operation: str
) -> None:
    refused = 0
    for command in sorted(tried()):
        server.do("FLUSHALL")
        await confined.open()
        call = await OPERATIONS[operation](confined)
        server.do("ACL", "SETUSER", "tenure", f"-{command}")
        try:
            await call()
        except StoreError:
            refused += 1
        server.do("ACL", "SETUSER", "tenure", f"+{command}")
        await read_everything(confined)
        await call()
        await confined.mend()
        await confined.retire("w")
        await asyncio.sleep(0.002)
        while leases := await lease(confined, "q", "r", solo=True):
            await confined.settle([(each, SUCCEED) for each in leases])
        await confined.reap(["q", "r"])

        jobs = await everything(confined)
        assert [job for job in jobs if not job.state.final] == [], command
        assert await confined.mend(dry_run=True) == 0, command
        await assert_counters_equal_a_recount(confined)
    assert refused > 1
