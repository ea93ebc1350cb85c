"""Listings on Redis alone: texts behind the escapes of JSON, errors that scripts write, what travels, what a call reads."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.core.lifecycle import Finish, Park
from tenure.stores.redis.address import Address
from tenure.stores.redis.records import error_templates
from tenure.stores.redis.replies import RecordedError
from tenure.stores.redis.store import RedisStore
from tenure.stores.values import Search
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    SUCCEED,
    a_job,
    a_worker,
    enqueue,
    everything,
    lease,
    lease_one,
    record,
    settle,
)


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


async def found(store: RedisStore, **search: object) -> set[str]:
    return {job.id for job in await everything(store, **search)}


def contains(job: JobRecord, text: str) -> bool:
    error = () if job.error is None else (job.error.type, job.error.message)
    return text.encode() in job.payload or any(text in part for part in error)


# Texts.


async def test_a_text_is_found_whatever_json_makes_of_it(store: RedisStore) -> None:
    pick = random.Random(7)
    alphabet = ["n", "u", "0", "1", '"', "\\", "\n", "\t", "\x01", "é", "日", "😀", "{", "}", ",", ":", "/", " ", "a"]

    def a_text(most: int) -> str:
        return "".join(pick.choices(alphabet, k=pick.randint(0, most)))

    await enqueue(store, *[a_job(payload=a_text(6).encode(), raw=True, tags=("na",)) for _ in range(60)])
    for leased in await lease(store, limit=60):
        error = ErrorInfo(a_text(5), a_text(8), pick.choice([None, a_text(9)]), pick.choice([None, a_text(9)]))
        await settle(store, leased, Finish(State.FAILED, pick.choice([None, a_text(5)]), error=error))
    jobs = await everything(store)
    assert len(jobs) == 60

    for text in {*alphabet, "", *(a_text(3) for _ in range(200)), ',"', '":"', "\\n", "u000", '\\"', "message"}:
        assert await found(store, text=text) == {job.id for job in jobs if contains(job, text)}, text
    for kind in {job.error.type for job in jobs if job.error} | {"", "n", '"'}:
        wanted = {job.id for job in jobs if job.error and job.error.type == kind}
        assert await found(store, error=kind, state=State.FAILED) == wanted, kind


async def test_a_text_is_not_found_beside_the_payload(store: RedisStore) -> None:
    """What else is stored of a job: its task, queue, options, headers, number."""
    await enqueue(
        store,
        a_job(task="needle", queue="needle", tags=("needle",), unique="needle", headers={"needle": "needle"}),
        a_job(payload=b"x needl", raw=True, max_attempts=ord("e")),
    )

    assert await found(store, text="needle") == set()
    assert len(await found(store, text="needl")) == 1


@pytest.mark.parametrize("size", [0, 1, 250, 255, 256, 65_530, 65_535, 65_536, 70_000])
async def test_a_text_is_found_at_both_ends_of_a_payload_of_any_size(store: RedisStore, size: int) -> None:
    payload = b"<" + b"x" * size + b">"
    [job_id] = await enqueue(store, a_job(payload=payload, raw=True))

    assert await found(store, text="<") == await found(store, text=">") == {job_id}
    assert await found(store, text="<>") == ({job_id} if size == 0 else set())
    if size < 1000:
        assert await found(store, text=payload.decode()) == {job_id}
        assert await found(store, text=payload.decode() + "\0") == set()
    for brief in (0, 1, size, size + 1, size + 2, size + 3):
        [job] = await everything(store, brief=brief)
        assert job.payload == payload[:brief]


async def test_errors_that_scripts_write_are_found_by_their_sentences(store: RedisStore, clock: ManualClock) -> None:
    await store.register(a_worker())
    expired, lost, silent, parked = await enqueue(
        store, a_job(queue="e", expires=1.0), *[a_job(queue=queue, max_losses=1) for queue in "ls"], a_job(queue="p")
    )
    [failing] = await enqueue(store, a_job(id="the blocker"))
    [blocked] = await enqueue(store, a_job(after=(failing,)))
    await lease_one(store, "s", worker="silent")
    clock.advance(100)
    await store.reap(["s"])
    await lease(store, "e")
    await settle(store, await lease_one(store, "p"), Park(1.0))
    await lease_one(store, "l", worker="w")
    await store.retire("w", reason="host 7 (rack\n2) %1 is gone")
    await settle(store, await lease_one(store), FAIL)
    clock.advance(2)
    await store.reap(["p"])

    for job_id, kind, text in (
        (expired, "Expired", "expired before it"),
        (lost, "Lost", "retired (host 7 (rack\n2) %1 is gone), 1 time(s)"),
        (silent, "Lost", "or went silent, 1 time"),
        (parked, "WaitTimeout", "before its timeout"),
        (blocked, "BlockerFailed", "job the blocker, which it waited for, ended as failed"),
    ):
        job = await record(store, job_id)
        assert job.error is not None
        assert (job.error.type, text in job.error.message) == (kind, True)
        for state in (None, job.state):
            assert await found(store, text=text, state=state) == {job_id}
            assert job_id in await found(store, error=kind, state=state)
            assert await found(store, text=job.error.message, state=state) == {job_id}
    assert await found(store, error="Lost") == {lost, silent}
    for word in ("wait_timeout", "blocker_failed", "lost 1"):
        assert await found(store, text=word) == await found(store, error=word) == set()


def test_every_error_that_scripts_write_has_a_template() -> None:
    assert set(error_templates()) == {word.value for word in RecordedError}
    for kind, short, whole in error_templates().values():
        assert kind.isalpha()
        assert not any(letter.isdigit() for letter in short + whole)


# What a call reads and sends.


async def test_a_call_for_a_text_reads_no_more_than_some_megabytes(store: RedisStore) -> None:
    for _ in range(10):
        await enqueue(store, *[a_job(payload=b"x" * 1_000_000, raw=True) for _ in range(2)])

    page = await store.search(Search(text="none has this"))
    assert (page.jobs, page.searched) == ([], 8)
    pages = [page.searched]
    while page.cursor is not None:
        page = await store.search(Search(text="none has this", cursor=page.cursor))
        pages.append(page.searched)
    assert pages == [8, 8, 4]
    assert (await store.search(Search(tag="none has this"))).searched == 20


async def test_what_is_cut_off_does_not_travel(store: RedisStore, server: redis.Redis) -> None:
    big = ErrorInfo("Error", "message", "Traceback …\n" * 5000, "output " * 5000)
    await enqueue(store, *[a_job(payload=b"x" * 50_000, raw=True) for _ in range(20)])
    one, two, *others = await lease(store, limit=20)
    await settle(store, one, Finish(State.FAILED, error=big))
    await settle(store, two, Finish(State.SUCCEEDED, '"' + "é" * 50_000 + '"'))
    await store.settle([(each, SUCCEED) for each in others])
    await everything(store, brief=100)
    before = server.info("stats")["total_net_output_bytes"]

    jobs = await everything(store, brief=100)

    assert server.info("stats")["total_net_output_bytes"] - before < 25_000
    assert [len(job.payload) for job in jobs] == [100] * 20
    assert [job.error for job in jobs if job.error] == [ErrorInfo("Error", "message")]
    assert jobs[-2].result == '"' + "é" * 99


@pytest.mark.parametrize("which", ["running", "parked", "scheduled", "retried", "blocked"])
async def test_a_job_that_is_shortened_is_the_same_otherwise(store: RedisStore, which: str) -> None:
    """The script packs its record again, which has another form in every state."""
    [job_id] = await enqueue(store, a_job(payload=b"x" * 500, raw=True, delay=30.5 if which == "scheduled" else 0.0))
    error = ErrorInfo("Error", "message", "Traceback" * 100)
    match which:
        case "running":
            await lease_one(store)
        case "parked":
            await settle(store, await lease_one(store), Park(5.5, "later"))
        case "retried":
            await settle(store, await lease_one(store), Finish(State.FAILED, error=error))
            await store.retry([job_id])
        case "blocked":
            await enqueue(store, a_job(after=(job_id,), payload=b"x" * 500, raw=True))

    short, whole = await everything(store, brief=7), await everything(store)

    for one, other in zip(short, whole, strict=True):
        assert one.payload == b"x" * 7
        for field in JobRecord.__struct_fields__:
            if field not in {"payload", "error"}:
                assert getattr(one, field) == getattr(other, field), field


async def test_a_listing_from_an_end_on_seeks_it_in_the_index(
    store: RedisStore, clock: ManualClock, server: redis.Redis
) -> None:
    for _ in range(4):
        await enqueue(store, *[a_job() for _ in range(1000)])
        clock.advance(10)
        await store.settle([(each, FAIL) for each in await lease(store, limit=1000)])
    end = clock.wall() - 30
    for task in (None, "t"):
        before = server.info("commandstats")
        page = await store.search(Search(state=State.FAILED, task=task, before=end, limit=10))
        after = server.info("commandstats")

        assert (len(page.jobs), page.searched) == (10, 10)
        assert {job.ended_at for job in page.jobs} == {end}
        assert after["cmdstat_hget"]["calls"] - before["cmdstat_hget"]["calls"] < 50
