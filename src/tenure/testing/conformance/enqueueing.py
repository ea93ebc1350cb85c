"""Tests of enqueueing: all or none, once per id, every byte unchanged."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.job import State
from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.stores.base import Store
from tenure.stores.values import Enqueued
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
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

__all__ = ["Enqueueing"]

AWKWARD = [
    b"",
    b"{}",
    b"\x00",
    b"\xff\xfe\x00\x80 no text at all",
    b"\r\n\t\x1b[31m'\"; DROP TABLE jobs; --",
    '{"name": "Zoë ✓ \U0001f600 \u202e"}'.encode(),
    bytes(range(256)) * 4096,
]


class Enqueueing:
    async def test_a_new_job_waits_in_line_with_nothing_counted(self, store: Store, clock: ManualClock) -> None:
        new = a_job(priority=3, tags=("a", "b"), keep=60.0, lease=5.0, max_attempts=7, max_losses=2)

        [answer] = await store.enqueue([new])

        assert answer == Enqueued(new.id, State.WAITING)
        job = await record(store, new.id)
        assert (job.state, job.run_at, job.attempt, job.losses, job.fence, job.misses) == (
            State.WAITING,
            None,
            0,
            0,
            0,
            0,
        )
        assert (job.task, job.queue, job.priority, job.tags) == ("t", "q", 3, ("a", "b"))
        assert (job.keep, job.lease, job.max_attempts, job.max_losses) == (60.0, 5.0, 7, 2)
        assert job.created_at == clock.wall()
        assert (job.started_at, job.ended_at, job.worker, job.lease_left, job.result, job.error) == (None,) * 6
        assert (job.blocked_by, job.results, job.progress, job.unique, job.expires_at) == (0, (), None, None, None)

    @pytest.mark.parametrize("payload", AWKWARD, ids=range(len(AWKWARD)))
    async def test_a_raw_payload_comes_back_byte_for_byte(self, store: Store, payload: bytes) -> None:  # W6
        [job_id] = await enqueue(store, a_job(payload=payload, raw=True))

        leased = await lease_one(store)

        assert leased.job.payload == payload
        assert leased.job.raw
        assert (await record(store, job_id)).payload == payload

    @pytest.mark.parametrize(
        "payload", [b'{"a":[1]}', '["Zoë \U0001f600 \\u0000"]'.encode(), b'["' + b"x" * 1_000_000 + b'"]'], ids=range(3)
    )
    async def test_a_json_payload_comes_back_byte_for_byte(self, store: Store, payload: bytes) -> None:
        [job_id] = await enqueue(store, a_job(payload=payload))

        found = await record(store, job_id)

        assert (found.payload, found.raw) == (payload, False)
        assert (await lease_one(store)).job.payload == payload

    async def test_text_of_every_kind_comes_back_as_it_was(self, store: Store) -> None:
        odd = "Zoë \U0001f600 \u202e \x1b[31m ' \" ; %s {} \\"
        [job_id] = await enqueue(store, a_job(unique=odd, tags=(odd, "")))

        found = await record(store, job_id)

        assert (found.unique, found.tags) == (odd, (odd, ""))

    @pytest.mark.parametrize("priority", [-(2**31), -1, 0, 2**31 - 1])
    async def test_priorities_of_any_size_are_kept(self, store: Store, priority: int) -> None:
        [job_id] = await enqueue(store, a_job(priority=priority))

        assert (await record(store, job_id)).priority == priority

    async def test_jobs_of_one_call_are_handed_out_in_the_order_of_the_call(self, store: Store) -> None:  # W11, I8
        ids = await enqueue(store, *[a_job() for _ in range(20)])

        assert [leased.job.id for leased in await lease(store)] == ids

    async def test_an_empty_call_does_nothing(self, store: Store) -> None:
        assert await store.enqueue([]) == []
        assert await store.queues() == []

    async def test_thousands_of_jobs_fit_in_one_call(self, store: Store) -> None:
        ids = await enqueue(store, *[a_job() for _ in range(2500)])

        assert (await counts(store)).waiting == 2500
        assert [leased.job.id for leased in await lease(store, limit=2500)] == ids

    async def test_the_same_enqueue_again_is_the_same_job(self, store: Store) -> None:  # I2
        new = a_job()
        await store.enqueue([new])

        again = await store.enqueue([new])

        assert again == [Enqueued(new.id, State.WAITING)]
        assert (await counts(store)).waiting == 1

    async def test_an_id_twice_in_one_call_is_one_job(self, store: Store) -> None:  # I2
        new = a_job()

        assert await enqueue(store, new, new) == [new.id, new.id]
        assert (await counts(store)).waiting == 1

    async def test_an_enqueue_repeated_late_leaves_the_job_as_it_has_become(self, store: Store) -> None:  # I2
        new = a_job()
        await store.enqueue([new])
        await settle(store, await lease_one(store), SUCCEED)

        assert await store.enqueue([new]) == [Enqueued(new.id, State.SUCCEEDED)]
        assert (await record(store, new.id)).result == "42"
        assert await lease(store) == []

    @pytest.mark.parametrize("late", [0.001, 5.0, 86400.0])
    async def test_a_delayed_job_is_not_leased_before_its_time(
        self, store: Store, clock: ManualClock, late: float
    ) -> None:
        # I10, Q57
        [job_id] = await enqueue(store, a_job(delay=late))
        assert (await record(store, job_id)).run_at == clock.wall() + late
        assert (await record(store, job_id)).state is State.WAITING
        clock.advance(late / 2)
        assert await lease(store) == []

        clock.advance(late)

        assert [leased.job.id for leased in await lease(store)] == [job_id]

    async def test_a_job_with_a_time_is_due_at_that_time(self, store: Store, clock: ManualClock) -> None:  # I10
        [job_id] = await enqueue(store, a_job(run_at=clock.wall() + 10, delay=99.0))
        clock.advance(9)
        assert await lease(store) == []
        clock.advance(1)
        assert [leased.job.id for leased in await lease(store)] == [job_id]

    async def test_a_time_in_the_past_means_now(self, store: Store, clock: ManualClock) -> None:  # Q57
        ids = await enqueue(store, a_job(run_at=clock.wall() - 1000), a_job(), a_job(run_at=clock.wall()))

        assert await line(store) == ids

    async def test_a_call_that_raises_has_stored_nothing(self, store: Store) -> None:  # W2
        holder = a_job(unique="k")
        await store.enqueue([holder])
        good, conflicting = a_job(queue="fresh"), a_job(unique="k", unique_raises=True)

        with pytest.raises(UniqueConflict) as raised:
            await store.enqueue([good, conflicting])
        with pytest.raises(BlockerNotFound) as missing:
            await store.enqueue([good, a_job(queue="fresh", after=("missing",))])

        assert (raised.value.task, raised.value.key, raised.value.holder) == ("t", "k", holder.id)
        assert missing.value.blocker == "missing"
        assert [job.id for job in await everything(store)] == [holder.id]
        assert await store.get([good.id]) == [None]
        assert [queue.name for queue in await store.queues()] == ["q"]
        await assert_counters_equal_a_recount(store)

    async def test_a_thread_without_a_loop_may_enqueue_if_the_store_has_a_way_for_it(self, store: Store) -> None:
        new = a_job(unique="k")
        await store.open()

        answer = await asyncio.to_thread(store.enqueue_now, [new])

        if answer is None:
            assert await store.get([new.id]) == [None]
        else:
            assert answer == [Enqueued(new.id, State.WAITING)]
            assert await line(store) == [new.id]
            with pytest.raises(UniqueConflict):
                await asyncio.to_thread(store.enqueue_now, [a_job(), a_job(unique="k", unique_raises=True)])
            assert await line(store) == [new.id]

    async def test_another_store_object_sees_the_job_at_once(self, store: Store, make_store: MakeStore) -> None:
        [job_id] = await enqueue(store)

        assert (await lease_one(make_store())).job.id == job_id

    async def test_a_job_deleted_and_enqueued_again_is_a_new_one_whose_tokens_are_not_the_old_ones(
        self, store: Store
    ) -> None:  # I5
        new = a_job()
        await store.enqueue([new])
        stale = await lease_one(store)
        await store.delete([new.id])
        await store.enqueue([new])
        fresh = await lease_one(store)

        assert (await settle(store, stale, RETRY)).kind == "lease_lost"
        assert (await settle(store, fresh, SUCCEED)).kind == "ok"
