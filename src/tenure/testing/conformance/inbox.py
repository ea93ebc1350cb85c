"""Tests of the inbox: each entry of another program becomes one job, and none is lost."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.core.job import NewJob, State
from tenure.core.lease import new_nonce
from tenure.stores.base import Store
from tenure.stores.values import Health, LeaseRequest
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    SUCCEED,
    MakeStore,
    PutIn,
    a_job,
    ask,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    everything,
    lease,
    lease_one,
    line,
    record,
    settle,
)

__all__ = ["Inbox"]


def an_entry(**fields: Any) -> bytes:
    """An entry for task `t`."""
    return json.dumps({"task": "t"} | fields).encode()


class Inbox:
    async def test_an_entry_becomes_a_job_like_any_other(
        self, store: Store, put_in: PutIn, clock: ManualClock
    ) -> None:  # H1
        await put_in("q", b'{"task": "send", "args": [42, 1.50], "kwargs": {"language": "d\xc3\xa9"}}')

        assert await store.take_in(["q"]) == 1

        leased = await lease_one(store)
        job = await record(store, leased.job.id)
        assert (job.task, job.queue, job.created_at, job.attempt) == ("send", "q", clock.wall(), 1)
        assert (job.payload, job.raw) == (b'{"args":[42, 1.50],"kwargs":{"language": "d\xc3\xa9"}}', False)
        assert leased.job.payload == job.payload
        assert (await settle(store, leased, SUCCEED)).kind == "ok"
        await assert_counters_equal_a_recount(store)

    async def test_an_entry_says_what_a_producer_may_say(self, store: Store, put_in: PutIn, clock: ManualClock) -> None:
        fields = {"id": "order-7", "priority": -3, "delay": 5, "expires": 60, "unique": "k", "tags": ["a", "b"]}
        await put_in("q", an_entry(**fields, keep=9.5, max_attempts=4))
        clock.advance(100)

        await store.take_in(["q"])

        job = await record(store, "order-7")
        assert (job.priority, job.unique, job.tags, job.keep, job.max_attempts) == (-3, "k", ("a", "b"), 9.5, 4)
        # Durations count from the take-in: until then the store does not know the entry.
        assert (job.run_at, job.expires_at) == (clock.wall() + 5, clock.wall() + 60)

    async def test_an_instant_is_one_whenever_the_entry_is_taken_in(
        self, store: Store, put_in: PutIn, clock: ManualClock
    ) -> None:
        due = datetime.fromtimestamp(clock.wall() + 30, UTC)
        await put_in("q", an_entry(run_at=due.isoformat()))
        clock.advance(10)
        await store.take_in(["q"])

        assert (await ask(store)).due_in == 20.0
        clock.advance(20)
        assert len(await lease(store)) == 1

    async def test_entries_join_the_line_at_the_back_in_the_order_of_their_arrival(
        self, store: Store, put_in: PutIn
    ) -> None:
        [before] = await enqueue(store)
        for number in range(3):
            await put_in("q", an_entry(id=f"e{number}"))
        [meanwhile] = await enqueue(store)
        await store.take_in(["q"])
        [after] = await enqueue(store)

        assert await line(store) == [before, meanwhile, "e0", "e1", "e2", after]

    async def test_an_entry_of_a_raw_inbox_is_the_payload_of_its_task_whatever_it_looks_like(
        self, store: Store, put_in: PutIn
    ) -> None:
        like = NewJob(id="", task="resize", queue="q", raw=True, priority=3, max_losses=1)
        entries = [b"\xff\x00", b"plain text", an_entry(id="order-7")]
        for entry in entries:
            await put_in("q", entry)
        await put_in("json", an_entry(id="order-8"))

        assert await store.take_in(["q", "json"], raw={"q": like}) == 4

        jobs = [await record(store, job_id) for job_id in await line(store)]
        assert [(job.task, job.payload, job.raw, job.priority, job.max_losses) for job in jobs] == [
            ("resize", entry, True, 3, 1) for entry in entries
        ]
        assert (await record(store, "order-8")).raw is False
        await assert_counters_equal_a_recount(store)

    async def test_an_entry_of_a_raw_inbox_may_be_too_long(self, store: Store, put_in: PutIn) -> None:
        await put_in("q", b"12345")

        await store.take_in(["q"], entry_limit=4, raw={"q": NewJob(id="", task="resize", queue="q", raw=True)})

        [job] = await everything(store)
        assert (job.state, job.payload) == (State.BROKEN, b"12345")

    async def test_equal_entries_are_distinct_jobs(self, store: Store, put_in: PutIn) -> None:  # H22
        for _ in range(3):
            await put_in("q", b'{"task":"t"}')

        assert await store.take_in(["q"]) == 3

        assert len(set(await line(store))) == 3

    async def test_an_id_makes_a_push_that_is_repeated_one_job(self, store: Store, put_in: PutIn) -> None:  # I2
        await put_in("q", an_entry(id="order-7"))
        await put_in("q", an_entry(id="order-7"))
        await store.take_in(["q"])
        await settle(store, await lease_one(store), SUCCEED)
        await put_in("q", an_entry(id="order-7", args=["again"]))

        assert await store.take_in(["q"]) == 1

        [job] = await everything(store)
        assert (job.id, job.state, job.payload) == ("order-7", State.SUCCEEDED, b"{}")
        await assert_counters_equal_a_recount(store)

    async def test_entries_of_one_id_follow_each_other_however_they_differ(self, store: Store, put_in: PutIn) -> None:
        await put_in("q", an_entry(id="order-7"))
        await put_in("q", an_entry(id="order-7", unique="k"))
        await put_in("q", an_entry(id="order-8", unique="k"))

        assert await store.take_in(["q"]) == 3

        assert [(job.id, job.unique) for job in await everything(store)] == [("order-8", "k"), ("order-7", None)]

    async def test_an_entry_whose_unique_key_is_held_just_goes(
        self, store: Store, put_in: PutIn, clock: ManualClock
    ) -> None:  # I14
        [holder] = await enqueue(store, a_job(unique="k"))
        await put_in("q", an_entry(unique="k"))
        await put_in("q", an_entry(id="windowed", unique="l", window=10))
        await put_in("q", an_entry(unique="l"))

        assert await store.take_in(["q"]) == 3

        assert await line(store) == [holder, "windowed"]
        clock.advance(10)
        [answer] = await store.enqueue([a_job(unique="l")])
        assert not answer.duplicate

    @pytest.mark.parametrize(
        ("entry", "why"),
        [
            (b"", "PayloadError: the entry is not a call of a task"),
            (b"\xff\x00\x80", "PayloadError: the entry is not a call of a task"),
            (b'{"task": "t"', "PayloadError: the entry is not a call of a task"),
            (b'["t", 1]', "PayloadError: the entry is not a call of a task"),
            (b'{"args": [1]}', "PayloadError: the entry is not a call of a task: Object missing required field `task`"),
            (an_entry(args={"x": 1}), "PayloadError: the entry is not a call of a task"),
            (b'{"task": "t", "args": ["\xff"]}', "PayloadError: the entry is not a call of a task"),
            (an_entry(prioritty=1), "PayloadError: the entry is not a call of a task"),
            (an_entry(task="no such\nname"), "InvalidName: "),
            (an_entry(id=""), "InvalidName: "),
            (an_entry(delay=-1), "InvalidOption: delay must be at least 0 s"),
            (an_entry(max_attempts=2**70), "InvalidOption: max_attempts"),
            (an_entry(delay=1, run_at="2027-01-01T00:00:00Z"), "InvalidOption: a job has either"),
            (an_entry(run_at="2027-01-01T00:00:00"), "InvalidOption: run_at must have a time zone"),
            (an_entry(args=[2**64]), "PayloadError: an integer has more than 64 bits"),
            (
                b'{"task":"t","args":' + b"[" * 70 + b"]" * 70 + b"}",
                "PayloadError: lists and objects are nested more than 64",
            ),
        ],
    )
    async def test_what_cannot_be_read_is_broken_and_keeps_its_bytes(
        self, store: Store, put_in: PutIn, clock: ManualClock, entry: bytes, why: str
    ) -> None:  # H14, F18
        await put_in("q", entry)
        await put_in("q", an_entry(id="good"))

        assert await store.take_in(["q"]) == 2

        [job] = await everything(store, state=State.BROKEN, queue="q")
        assert (job.payload, job.raw, job.attempt, job.ended_at) == (entry, True, 0, clock.wall())
        assert job.error is not None
        assert f"{job.error.type}: {job.error.message}".startswith(why)
        assert [each.job.id for each in await lease(store)] == ["good"]
        info = await counts(store)
        assert (info.broken, info.totals.broken, info.totals.processed) == (1, 1, 0)
        await assert_counters_equal_a_recount(store)

    async def test_an_entry_over_the_limit_is_broken(self, store: Store, put_in: PutIn) -> None:
        entry = an_entry(args=["x" * 2_000_000])
        await put_in("q", entry)
        await put_in("q", entry)

        assert await store.take_in(["q"], 1) == 1
        assert await store.take_in(["q"], 1, entry_limit=3_000_000) == 1

        [broken] = await everything(store, state=State.BROKEN)
        assert broken.payload == entry
        assert broken.error is not None
        assert broken.error.type == "PayloadTooLarge"
        assert len((await lease_one(store)).job.payload) > 2_000_000

    async def test_a_broken_entry_is_an_operators_business(self, store: Store, put_in: PutIn) -> None:
        await put_in("q", b"nonsense")
        await store.take_in(["q"])
        [job] = await everything(store)

        await store.retry([job.id])
        assert (await lease_one(store)).job.task == job.task == "(inbox)"
        assert await store.delete([job.id]) == [job.id]
        await assert_counters_equal_a_recount(store)

    async def test_a_lease_says_that_something_lies_in_an_inbox(self, store: Store, put_in: PutIn) -> None:
        await enqueue(store, a_job(), a_job())
        assert not (await ask(store, "q", "other")).inbox

        await put_in("other", an_entry())

        busy = await ask(store, "q", "other")
        assert (len(busy.leases), busy.inbox) == (1, True)
        assert (await ask(store, "q", "other")).inbox
        assert not (await ask(store, "q")).inbox
        request = LeaseRequest(queues=("other",), limit=1, worker="w", ttl=30.0, nonce=new_nonce())
        _, both = await store.settle_and_lease([(busy.leases[0], SUCCEED)], request)
        assert both.inbox
        await store.take_in(["other"])
        assert not (await ask(store, "q", "other")).inbox

    async def test_no_more_than_the_limit_is_taken_in_and_the_first_queue_comes_first(
        self, store: Store, put_in: PutIn
    ) -> None:
        for queue in ("b", "a", "b", "a"):
            await put_in(queue, an_entry())

        assert await store.take_in(["a", "b"], 3) == 3

        assert [(await counts(store, queue)).waiting for queue in "ab"] == [2, 1]
        assert (await ask(store, "b")).inbox
        assert await store.take_in(["a", "b"], 3) == 1
        assert await store.take_in(["a", "b"], 3) == 0
        assert not (await ask(store, "a", "b")).inbox

    async def test_only_the_inboxes_of_these_queues_are_emptied(self, store: Store, put_in: PutIn) -> None:
        await put_in("q", an_entry())
        await put_in("other", an_entry())

        assert await store.take_in(["q", "nowhere"]) == 1

        assert (await ask(store, "other")).inbox
        assert (await counts(store, "nowhere")).waiting == 0

    async def test_a_paused_queue_takes_in_and_hands_out_nothing(self, store: Store, put_in: PutIn) -> None:
        await store.pause("q")
        await put_in("q", an_entry())

        assert (await ask(store)).inbox
        await store.take_in(["q"])

        leased = await ask(store)
        assert (leased.leases, leased.inbox) == ([], False)
        assert (await counts(store)).waiting == 1

    async def test_takers_at_once_make_each_entry_a_job_once(
        self, store: Store, make_store: MakeStore, put_in: PutIn
    ) -> None:
        for number in range(40):
            await put_in("q", an_entry(args=[number]))
        other = make_store()

        taken = await asyncio.gather(*[each.take_in(["q"], 7) for each in (store, other) * 5])

        assert sum(taken) == 40
        assert sorted(job.payload for job in await everything(store)) == sorted(
            b'{"args":[%d]}' % number for number in range(40)
        )

    async def test_a_taken_in_job_wakes_an_idle_worker(
        self, store: Store, make_store: MakeStore, put_in: PutIn
    ) -> None:  # I11
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(make_store().wait_for_work(["q"], 60.0))
            await put_in("q", an_entry())
            await store.take_in(["q"])

    async def test_examine_gives_facts(self, store: Store) -> None:
        found = await store.examine()

        assert found
        assert len({fact.name for fact in found}) == len(found)
        for fact in found:
            assert "\n" not in fact.name + fact.value + fact.advice
            assert bool(fact.advice) is (fact.health is not Health.OK)
