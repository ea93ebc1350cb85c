"""Tests of consequences, blockers and event messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tenure.core.job import BlockerPolicy, RunStep, State, new_id
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Park
from tenure.stores.base import MESSAGE_BYTES, Store
from tenure.stores.values import OK, Change, Consequence, LeaseRequest
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    SUCCEED,
    MakeStore,
    PutIn,
    a_job,
    enqueue,
    lease,
    lease_one,
    lose,
    settle,
    state,
    success,
)

__all__ = ["Consequences"]


def consequences_of(store: Store) -> list[Consequence]:
    """A list that receives the consequences that the store reports from now on."""
    reported: list[Consequence] = []
    store.on_consequences = reported.extend
    return reported


async def receive(messages: AsyncIterator[str], number: int) -> list[str]:
    async with asyncio.timeout(10):
        return [await anext(messages) for _ in range(number)]


async def until(store: Store, watched: bool) -> None:
    async with asyncio.timeout(10):
        while await store.watched() is not watched:  # noqa: ASYNC110  (no event to wait for)
            await asyncio.sleep(0.01)


class Consequences:
    """Part of the suite."""

    async def test_an_unblocked_job_is_reported(self, store: Store) -> None:
        [blocker] = await enqueue(store, a_job(queue="b"))
        [first, second] = await enqueue(
            store, a_job(after=(blocker,)), a_job(task="u", queue="r", after=(blocker,), delay=60.0)
        )
        reported = consequences_of(store)
        await settle(store, await lease_one(store, "b"), SUCCEED)
        assert sorted(reported, key=lambda each: each.queue) == [
            Consequence(Change.UNBLOCKED, first, "t", "q"),
            Consequence(Change.UNBLOCKED, second, "u", "r"),
        ]

    async def test_an_unblocked_job_is_reported_when_its_last_blocker_has_ended(self, store: Store) -> None:
        blockers = await enqueue(store, a_job(queue="b"), a_job(queue="b"))
        [waiting] = await enqueue(store, a_job(after=tuple(blockers)))
        reported = consequences_of(store)
        one, other = await lease(store, "b")
        await settle(store, one, SUCCEED)
        assert reported == []
        await settle(store, other, SUCCEED)
        assert reported == [Consequence(Change.UNBLOCKED, waiting, "t", "q")]

    @pytest.mark.parametrize("end", ["settled", "cancelled", "completed", "lost", "retired", "expired", "purged"])
    async def test_an_unblocked_job_is_reported_for_every_way_to_end(
        self, store: Store, clock: ManualClock, end: str
    ) -> None:
        [blocker] = await enqueue(store, a_job(queue="b", max_losses=1, expires=100.0))
        [waiting] = await enqueue(store, a_job(after=(blocker,), if_blocker_fails=BlockerPolicy.PROCEED))
        reported = consequences_of(store)
        match end:
            case "settled":
                leased = await lease_one(store, "b")
                request = LeaseRequest(queues=("q",), limit=0, worker="w", ttl=30.0, nonce=new_nonce())
                await store.settle_and_lease([(leased, FAIL)], request)
            case "cancelled":
                await store.cancel([blocker])
            case "completed":
                await store.complete(blocker, SUCCEED)
            case "lost":
                await lose(store, clock, await lease_one(store, "b"))
            case "retired":
                await lease_one(store, "b")
                await store.retire("w")
            case "expired":
                clock.advance(100)
                await lease(store, "b")
            case "purged":
                await store.purge("b")
        assert Consequence(Change.UNBLOCKED, waiting, "t", "q") in reported

    async def test_jobs_that_fail_with_their_blocker_are_reported_level_by_level(self, store: Store) -> None:
        [blocker] = await enqueue(store, a_job(queue="b"))
        [child] = await enqueue(store, a_job(after=(blocker,)))
        [grandchild] = await enqueue(store, a_job(after=(child,)))
        reported = consequences_of(store)
        await settle(store, await lease_one(store, "b"), FAIL)
        assert reported == [
            Consequence(Change.FAILED, child, "t", "q"),
            Consequence(Change.FAILED, grandchild, "t", "q"),
        ]

    async def test_a_job_whose_blocker_has_ended_before_is_reported_only_if_it_fails(self, store: Store) -> None:
        good, bad = await enqueue(store, a_job(queue="b"), a_job(queue="b"))
        one, other = await lease(store, "b")
        await store.settle([(one, SUCCEED), (other, FAIL)])
        reported = consequences_of(store)
        await enqueue(store, a_job(after=(good,)))
        [failed] = await enqueue(store, a_job(after=(bad,)))
        assert reported == [Consequence(Change.FAILED, failed, "t", "q")]

    async def test_a_child_that_fails_at_once_is_reported(self, store: Store) -> None:
        [bad] = await enqueue(store, a_job(queue="b"))
        await settle(store, await lease_one(store, "b"), FAIL)
        await enqueue(store)
        reported = consequences_of(store)
        child = a_job(queue="c", after=(bad,))
        await settle(store, await lease_one(store), success(children=(child,)))
        assert reported == [Consequence(Change.FAILED, child.id, "t", "c")]

    async def test_an_expired_job_is_reported(self, store: Store, clock: ManualClock) -> None:
        [kept, dropped] = await enqueue(store, a_job(expires=10.0), a_job(expires=10.0, keep=0.0, task="u"))
        reported = consequences_of(store)
        clock.advance(10)
        assert await lease(store) == []
        assert sorted(reported, key=lambda each: each.task) == [
            Consequence(Change.EXPIRED, kept, "t", "q"),
            Consequence(Change.EXPIRED, dropped, "u", "q"),
        ]

    async def test_a_parked_job_that_fails_is_reported(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), Park(timeout=10.0))
        reported = consequences_of(store)
        clock.advance(10)
        await store.reap(["q"])
        assert reported == [Consequence(Change.FAILED, job_id, "t", "q")]

    async def test_a_parked_step_that_is_overdue_is_reported(self, store: Store, clock: ManualClock) -> None:
        job_id = new_id()
        await enqueue(store, a_job(id=job_id, task="f.s", step=RunStep(run_id=job_id, flow="f")))
        await settle(store, await lease_one(store), Park(timeout=10.0, on_timeout="other"))
        reported = consequences_of(store)
        clock.advance(10)
        await store.reap(["q"])
        assert reported == [Consequence(Change.OVERDUE, job_id, "f.s", "q")]

    async def test_a_job_that_is_taken_in_is_reported(self, store: Store, put_in: PutIn) -> None:
        job_id = new_id()
        entry = b'{"id": "%s", "task": "u"}' % job_id.encode()
        for each in (entry, entry, b"no JSON"):
            await put_in("q", each)
        reported = consequences_of(store)
        assert await store.take_in(["q"]) == 3
        assert [each.change for each in reported] == [Change.ENQUEUED, Change.BROKEN]
        assert reported[0] == Consequence(Change.ENQUEUED, job_id, "u", "q")
        assert await state(store, reported[1].job_id) is State.BROKEN

    async def test_nothing_is_reported_once_the_callback_is_removed(self, store: Store) -> None:
        [blocker] = await enqueue(store, a_job(queue="b"))
        await enqueue(store, a_job(after=(blocker,)))
        leased = await lease_one(store, "b")
        consequences_of(store)
        settling = asyncio.create_task(settle(store, leased, SUCCEED))
        await asyncio.sleep(0)  # the call is under way
        store.on_consequences = None
        assert await settling == OK

    async def test_what_was_named_is_no_consequence(self, store: Store) -> None:
        reported = consequences_of(store)
        [one, other] = await enqueue(store, a_job(), a_job(delay=5.0))
        await settle(store, await lease_one(store), success(children=(a_job(queue="c"),)))
        await store.retry([one])
        await store.trigger([other])
        await store.cancel([one, other])
        await store.delete([one, other])
        assert reported == []

    async def test_what_a_job_waits_for_is_named_in_order(self, store: Store) -> None:
        one, two, three = await enqueue(store, *[a_job(queue="b") for _ in range(3)])
        [job_id] = await enqueue(store, a_job(after=(three, one, two)))
        assert await store.blockers(job_id) == [three, one, two]
        assert await store.blockers(job_id, limit=2) == [three, one]
        await settle(store, await lease_one(store, "b"), SUCCEED)
        assert await store.blockers(job_id) == [three, two]

    async def test_a_job_that_waits_for_no_other_has_no_blockers(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        assert await store.blockers(job_id) == []
        assert await store.blockers(new_id()) == []
        await settle(store, await lease_one(store), Park())
        assert await store.blockers(job_id) == []
        [blocker] = await enqueue(store, a_job(queue="b"))
        [failed] = await enqueue(store, a_job(after=(blocker,)))
        await settle(store, await lease_one(store, "b"), FAIL)
        assert await store.blockers(failed) == []

    async def test_every_watcher_receives_every_message_in_order(self, store: Store, make_store: MakeStore) -> None:
        messages = [f"message {number}" for number in range(100)]
        async with make_store().watch() as one, make_store().watch() as other:
            await store.publish(messages[:60])
            await store.publish(messages[60:])
            assert await receive(one, 100) == messages
            assert await receive(other, 100) == messages

    async def test_one_store_object_may_watch_what_it_publishes(self, store: Store) -> None:
        async with store.watch() as messages:
            await store.publish(["a", "b"])
            assert await receive(messages, 2) == ["a", "b"]

    async def test_messages_may_be_long_and_of_any_text(self, store: Store, make_store: MakeStore) -> None:
        long: Sequence[str] = ["x" * MESSAGE_BYTES, "ü" * (MESSAGE_BYTES // 2), '{"a": "\\"\'\n\t"}', ""] * 5
        async with make_store().watch() as messages:
            await store.publish(long)
            assert await receive(messages, 20) == long

    async def test_a_store_is_watched_while_a_watcher_exists(self, store: Store, make_store: MakeStore) -> None:
        assert not await store.watched()
        async with make_store().watch():
            await until(store, watched=True)
        await until(store, watched=False)

    async def test_a_message_without_a_watcher_is_no_error(self, store: Store, make_store: MakeStore) -> None:
        await store.publish(["lost"])
        async with make_store().watch() as messages:
            await store.publish([])
            await store.publish(["received"])
            assert await receive(messages, 1) == ["received"]

    async def test_a_watch_ends_with_its_store(self, make_store: MakeStore) -> None:
        store = make_store()
        async with store.watch() as messages:
            await store.publish(["last"])
            assert await receive(messages, 1) == ["last"]
            await store.close()
            async with asyncio.timeout(10):
                assert [message async for message in messages] == []
