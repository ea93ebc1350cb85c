"""The hand-over between a Redis with Resque's queues and a worker: outages, operators, other workers, and giving back."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from tenure import App, Backoff
from tenure.bridges import Resque
from tenure.bridges import source as source_module
from tenure.bridges.custody import End
from tenure.bridges.resque.layout import ResqueForeign
from tenure.bridges.returning import give_back_all
from tenure.bridges.scripts import load
from tenure.bridges.source import BridgeSource
from tenure.core.job import JobRecord, State, new_id
from tenure.core.lease import new_nonce
from tenure.errors import StoreUnavailable
from tenure.stores.values import LeaseRequest
from tenure.tasks.context import Context
from tenure.worker.worker import Worker
from tests.servers.proxy import Proxy, proxied
from tests.worker.conftest import Wire, eventually

QUICK = "timeout=0.5&connect_timeout=0.5"


class Yard:
    """An app, a Resque namespace, and what has run."""

    def __init__(self, server_url: str, proxy: Proxy | None = None) -> None:
        parts = urlsplit(server_url)
        self.url = f"memory://{new_id()}"
        self.app = App(self.url, missing_after=1.5)
        self.namespace = new_id()
        port = parts.port if proxy is None else proxy.port
        self.resque = Resque(self.app, f"redis://127.0.0.1:{port}/0?{QUICK}", namespace=self.namespace)
        self.client = redis.Redis.from_url(server_url)
        self.runs: Counter[int] = Counter()
        self.gate = asyncio.Event()
        self.workers: list[Worker] = []

        @self.app.task(name="Sweep", retry=None)
        async def sweep(n: int) -> int:
            self.runs[n] += 1
            return 10 // n

        @self.app.task(name="Hold", retry=None)
        async def hold(n: int) -> None:
            self.runs[n] += 1
            await self.gate.wait()

        @self.app.task(name="Again", retry=Backoff(initial=60, jitter=0))
        async def again(n: int) -> None:
            self.runs[n] += 1
            raise ValueError(n)

    def push(self, name: str, *numbers: int, queue: str = "yard") -> None:
        self.client.sadd(f"{self.namespace}:queues", queue)
        for n in numbers:
            self.client.rpush(f"{self.namespace}:queue:{queue}", self.entry(name, n))

    @staticmethod
    def entry(name: str, n: int) -> str:
        return json.dumps({"class": name, "args": [n]})

    @property
    def counts(self) -> tuple[int, int]:
        """What the other system counts as processed, and as failed."""
        processed, failed = (
            int(self.client.get(f"{self.namespace}:stat:{what}") or 0) for what in ("processed", "failed")
        )
        return processed, failed

    def waiting(self, queue: str = "yard") -> list[int]:
        return [json.loads(each)["args"][0] for each in self.client.lrange(f"{self.namespace}:queue:{queue}", 0, -1)]

    @property
    def custody(self) -> dict[Any, Any]:
        return self.client.hgetall(f"{self.namespace}:tenure:custody")

    @asynccontextmanager
    async def worker(self, *queues: str, grace: float | None = None, **options: Any) -> AsyncIterator[Worker]:
        worker = self.resque.worker(queues or ("*",), beat=1, poll=0.1, **{"concurrency": 2, **options})
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop(grace=grace)

    async def jobs(self) -> list[JobRecord]:
        return [job.record for job in await self.app.ajobs(limit=1000) if job.record is not None]

    async def finish(self, processed: int, failed: int = 0) -> None:
        await eventually(lambda: self.counts == (processed, failed) and not self.custody)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "POLL", 0.05)


@pytest.fixture
async def yard(redis_server_url: str) -> AsyncIterator[Yard]:
    made = Yard(redis_server_url)
    yield made
    await clear(made)


async def clear(yard: Yard) -> None:
    for key in yard.client.scan_iter(match=f"{yard.namespace}:*"):
        yard.client.unlink(key)
    yard.client.close()
    await yard.app.aclose()


@pytest.fixture
def proxy(redis_server_url: str) -> Iterator[Proxy]:
    port = urlsplit(redis_server_url).port
    assert port is not None
    with proxied(port) as made:
        yield made


@pytest.fixture
async def far(redis_server_url: str, proxy: Proxy) -> AsyncIterator[Yard]:
    """A yard whose Redis is behind a network that fails on request."""
    made = Yard(redis_server_url, proxy)
    yield made
    await clear(made)


async def test_every_entry_runs_once_and_its_end_is_written(yard: Yard) -> None:
    yard.push("Sweep", *range(30))

    async with yard.worker():
        await yard.finish(30, failed=1)

    assert yard.runs == Counter(range(30))


async def test_bridges_with_different_stores_leave_each_others_entries_alone(
    yard: Yard, redis_server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "SWEEP_INTERVAL", 0.05)
    other = Yard(redis_server_url)
    other.resque = Resque(other.app, yard.resque.url, namespace=yard.namespace)
    yard.push("Hold", 1, 2)

    async with yard.worker():
        await eventually(lambda: yard.runs == Counter([1, 2]))
        async with other.worker():
            await asyncio.sleep(2)  # longer than the silence after which a worker is missing
            assert len(yard.custody) == 2
            yard.gate.set()
            await yard.finish(2)

    assert (yard.runs, other.runs) == (Counter([1, 2]), Counter())
    assert await other.jobs() == []
    await clear(other)


async def test_what_a_worker_of_another_store_has_left_is_run_here(yard: Yard, redis_server_url: str) -> None:
    entry = f'["a worker of another store","yard",0,false]\n{yard.entry("Sweep", 5)}'
    yard.client.hset(f"{yard.namespace}:tenure:custody", new_id(), entry)
    yard.client.set(f"{yard.namespace}:tenure:beat:a worker of another store", "1", px=300)

    async with yard.worker():
        await yard.finish(1)

    assert yard.runs == Counter([5])


async def test_no_more_is_taken_than_there_are_free_slots(yard: Yard) -> None:
    yard.push("Hold", *range(1, 8))

    async with yard.worker(grace=0):
        await eventually(lambda: len(yard.runs) == 2)
        await asyncio.sleep(0.3)

        assert yard.waiting() == [3, 4, 5, 6, 7]
        assert len(yard.custody) == 2


async def test_a_queue_that_is_paused_here_does_not_make_the_bridge_take_more(yard: Yard) -> None:
    yard.push("Sweep", *range(1, 21))
    await yard.app.apause("resque:yard")

    async with yard.worker():
        await eventually(lambda: len(yard.custody) == 2)
        await asyncio.sleep(0.4)
        assert len(yard.waiting()) == 18

        await yard.app.aresume("resque:yard")
        await yard.finish(20)


async def test_entries_that_cannot_be_read_or_have_no_task_fail_at_once(yard: Yard) -> None:
    yard.push("Nothing", 1)
    yard.client.rpush(f"{yard.namespace}:queue:yard", b"\xff{", b"[]")
    yard.push("Sweep", 1)

    async with yard.worker():
        await yard.finish(4, failed=3)

    assert len(await yard.jobs()) == 1


async def test_the_other_system_may_be_away_for_a_time(far: Yard, proxy: Proxy) -> None:
    far.push("Hold", 1, 2)
    async with far.worker():
        await eventually(lambda: len(far.runs) == 2)
        proxy.blackhole()
        far.push("Sweep", 3, 4)
        far.gate.set()
        await eventually(lambda: all_succeeded(far, 2))  # jobs in hand end
        await asyncio.sleep(0.4)
        assert far.counts == (0, 0)
        proxy.heal()
        proxy.cut()
        await far.finish(4)

    assert far.runs == Counter([1, 2, 3, 4])


async def all_succeeded(yard: Yard, number: int) -> bool:
    return [job.state for job in await yard.jobs()] == [State.SUCCEEDED] * number


async def test_a_take_whose_answer_is_lost_is_found_again(far: Yard, proxy: Proxy) -> None:
    async with far.worker():
        await asyncio.sleep(0.2)
        proxy.lose_reply(load("resque", "take").sha.encode())
        far.push("Sweep", 1, 2, 3)
        await far.finish(3)

    assert far.runs == Counter([1, 2, 3])


async def test_nothing_is_taken_while_the_own_store_is_away(yard: Yard) -> None:
    wire = Wire(yard.url)
    yard.app.internals.make_store = wire.open

    async def down(*_: Any) -> Any:
        raise StoreUnavailable("gone")

    async with yard.worker():
        yard.push("Sweep", 1)
        await yard.finish(1)
        methods = ("lease", "settle", "settle_and_lease", "enqueue", "busy_queues", "reap", "get", "claim_chore")
        wire.hooks.update(dict.fromkeys(methods, down))
        await asyncio.sleep(0.05)
        yard.push("Sweep", 2, 3, 4)
        await asyncio.sleep(0.4)
        assert (yard.waiting(), yard.custody) == ([2, 3, 4], {})
        wire.hooks.clear()
        await yard.finish(4)


async def test_a_worker_that_stops_gives_back_to_the_front_in_order(yard: Yard) -> None:
    yard.push("Hold", *range(1, 7))
    yard.push("Hold", 11, 12, queue="zoo")

    async with yard.worker("yard", "zoo", concurrency=7, grace=0, term_timeout=0.05):
        await eventually(lambda: len(yard.runs) == 7)
        assert (yard.waiting(), yard.waiting("zoo")) == ([], [12])

    assert (yard.waiting(), yard.waiting("zoo")) == ([1, 2, 3, 4, 5, 6], [11, 12])
    assert yard.custody == {}
    assert yard.counts == (0, 0)
    assert {job.state for job in await yard.jobs()} == {State.CANCELLED}


async def test_what_is_kept_waits_for_the_next_bridge(yard: Yard) -> None:
    yard.push("Hold", 1, 2)
    async with yard.worker(keep=True, grace=0, term_timeout=0.05):
        await eventually(lambda: len(yard.runs) == 2)
    assert (yard.waiting(), len(yard.custody)) == ([], 2)

    yard.gate.set()
    async with yard.worker():
        await yard.finish(2)
    assert yard.runs == Counter([1, 2, 1, 2])


async def test_a_stop_does_not_wait_long_for_a_server_that_is_gone(far: Yard, proxy: Proxy) -> None:
    far.push("Sweep", 1)
    async with far.worker() as worker:
        await far.finish(1)
        proxy.blackhole()
        began = time.monotonic()
        await worker.stop()
        assert time.monotonic() - began < 5.5
        proxy.heal()


async def test_what_waits_for_a_retry_stays_and_is_returned_only_on_request(yard: Yard) -> None:
    yard.push("Again", 1)
    async with yard.worker():
        await eventually(lambda: waiting_for_retry(yard))
    assert (yard.waiting(), len(yard.custody)) == ([], 1)

    assert await give_back_all(yard.resque) == (1, 0)
    assert (yard.waiting(), yard.custody, yard.counts) == ([1], {}, (0, 0))


async def test_what_ran_when_the_last_bridge_was_killed_is_returned_when_its_lease_has_ended(yard: Yard) -> None:
    yard.push("Hold", 1, 2)
    async with yard.worker(keep=True, grace=0, term_timeout=0.05):
        await eventually(lambda: len(yard.runs) == 2)
    store = yard.app.internals.new_store()
    await store.open()
    await store.lease(LeaseRequest(queues=("resque:yard",), limit=2, worker="killed", ttl=0.5, nonce=new_nonce()))
    await store.close()

    assert await give_back_all(yard.resque) == (0, 2)
    await asyncio.sleep(0.6)
    assert await give_back_all(yard.resque) == (2, 0)
    assert (yard.waiting(), yard.custody, yard.counts) == ([1, 2], {}, (0, 0))


async def waiting_for_retry(yard: Yard) -> bool:
    return any(job.run_at is not None for job in await yard.jobs())


async def test_two_bridges_share_a_queue_and_count_every_entry_once(yard: Yard) -> None:
    yard.push("Sweep", *range(200))

    async with yard.worker(), yard.worker():
        await yard.finish(200, failed=1)

    assert yard.runs == Counter(range(200))


async def test_the_end_of_a_job_that_another_worker_ran_is_written(yard: Yard) -> None:
    await yard.app.apause("resque:yard")
    yard.push("Sweep", 1, 0)
    async with yard.worker() as bridge:
        await eventually(lambda: len(yard.custody) == 2)
        await bridge.pause()
        await yard.app.aresume("resque:yard")
        async with yard.app.worker(["*"], beat=1):
            await yard.finish(2, failed=1)


async def test_an_operator_cancels_a_waiting_and_a_running_job(yard: Yard) -> None:
    yard.push("Hold", 1)
    async with yard.worker(concurrency=1):
        await eventually(lambda: yard.runs[1])
        [running] = await yard.jobs()
        await (await yard.app.ajob(running.id)).acancel()
        await yard.finish(1)  # it has ended, and not failed

        await yard.app.apause("resque:yard")
        yard.push("Sweep", 2)
        await eventually(lambda: yard.custody)
        [waiting] = [job for job in await yard.jobs() if job.state is State.WAITING]
        await (await yard.app.ajob(waiting.id)).acancel()
        await yard.finish(2)
    assert yard.runs == Counter([1])


async def test_a_job_that_an_operator_deletes_does_not_come_back(yard: Yard) -> None:
    await yard.app.apause("resque:yard")
    yard.push("Sweep", 1)
    async with yard.worker():
        await eventually(lambda: yard.custody)
        [waiting] = await eventually(yard.jobs)
        await (await yard.app.ajob(waiting.id)).adelete()
        await yard.finish(1)
        assert await yard.jobs() == []


async def test_jobs_that_a_store_has_lost_with_the_list_of_workers_are_stored_again(yard: Yard) -> None:
    wire = Wire(yard.url)
    yard.app.internals.make_store = wire.open
    await yard.app.apause("resque:yard")
    yard.push("Sweep", 1)

    async def forgotten(*_: Any) -> list[Any]:
        return []

    async with yard.worker():
        [waiting] = await eventually(yard.jobs)
        wire.hooks["workers"] = forgotten
        await (await yard.app.ajob(waiting.id)).adelete()
        [again] = await eventually(yard.jobs)
        assert again.id == waiting.id
        wire.hooks.clear()
        await yard.app.aresume("resque:yard")
        await yard.finish(1)

    assert yard.runs == Counter([1])


async def test_a_failed_job_that_an_operator_retries_runs_here_and_is_not_counted_again_there(yard: Yard) -> None:
    yard.push("Sweep", 0)
    async with yard.worker():
        await yard.finish(1, failed=1)
        [failed] = await yard.jobs()
        await (await yard.app.ajob(failed.id)).aretry()
        await eventually(lambda: yard.runs[0] == 2)
        await asyncio.sleep(0.2)
        assert yard.counts == (1, 1)


async def test_what_lost_its_lease_does_not_stay_in_the_record_of_a_slot(yard: Yard) -> None:
    yard.push("Hold", 1)
    async with yard.worker(grace=0, term_timeout=0.05) as worker:
        await eventually(lambda: yard.runs[1])
        [source] = worker._sources
        assert isinstance(source, BridgeSource)
        [running] = await yard.jobs()
        assert source._slots == {running.id: 1}
        await (await yard.app.ajob(running.id)).acancel()
        await eventually(lambda: not source._slots and not source._mine)


async def test_a_job_that_enqueues_there_is_not_left_behind_by_until_empty(yard: Yard) -> None:
    @yard.app.task(name="First")
    async def first(ctx: Context) -> None:
        yard.push("Sweep", 5)

    yard.client.sadd(f"{yard.namespace}:queues", "yard")
    yard.client.rpush(f"{yard.namespace}:queue:yard", json.dumps({"class": "First", "args": []}))
    worker = yard.resque.worker(poll=0.1, beat=1)
    worker._until_empty = True
    await worker.start()
    await worker._ended()

    assert (yard.runs, yard.counts) == (Counter([5]), (2, 0))


async def test_an_end_that_has_no_form_there_is_written_as_failed_and_holds_up_no_other(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ResqueForeign.record

    async def picky(self: ResqueForeign, owner: str, ends: Sequence[End], *rest: Any) -> None:
        if any(end.result == "2" for end in ends):
            raise TypeError("no form for 2")
        await record(self, owner, ends, *rest)

    monkeypatch.setattr(ResqueForeign, "record", picky)
    yard.push("Sweep", *range(1, 11))  # the result of 4 and 5 is 2

    async with yard.worker(concurrency=10):
        await yard.finish(10, failed=2)


async def test_only_the_entry_of_the_owner_that_was_seen_is_adopted(yard: Yard) -> None:
    foreign = yard.resque.connect(["*"])
    yard.push("Sweep", 1)
    try:
        await foreign.enter("one", 1)
        [taken] = await foreign.take("one", [new_id()])

        assert await foreign.adopt(taken.id, "two", "three") is False
        assert await foreign.adopt(taken.id, "one", "two") is True
        assert await foreign.adopt(taken.id, "one", "three") is False
        await foreign.mark_returning([taken.id, "unknown"])
        [entry] = (await foreign.look()).entries
        assert [entry] == await foreign.find([taken.id, "unknown"])
        assert (entry.owner, entry.queue, entry.entry, entry.returning) == ("two", "yard", taken.entry, True)
    finally:
        await foreign.close()


async def test_what_is_no_entry_in_custody_is_left_alone(yard: Yard) -> None:
    yard.client.hset(f"{yard.namespace}:tenure:custody", "odd", "from a later version")
    yard.push("Sweep", 1)

    async with yard.worker():
        await eventually(lambda: yard.counts == (1, 0))

    assert yard.custody == {b"odd": b"from a later version"}
