"""Retention: what is finished is kept for as long as was asked, and for whoever has a claim on it."""

from __future__ import annotations

import pytest

from tenure.core.job import BlockerPolicy, State
from tenure.core.lifecycle import Finish
from tenure.core.options import Retention
from tenure.stores.base import Store
from tenure.stores.values import NOT_FOUND, OK
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
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
    settle,
    state,
    success,
)

__all__ = ["Keeping"]

HOUR = Retention(succeeded=3600.0, failed=7200.0, count=1000)
NOTHING = Retention(succeeded=0.0, failed=0.0, count=0)
FOREVER = Retention(succeeded=1e9, failed=1e9, count=10**9)


class Keeping:
    async def test_finished_jobs_are_kept_for_their_time(self, store: Store, clock: ManualClock) -> None:  # T7, T11
        await enqueue(store, *[a_job() for _ in range(4)])
        first, second, third, fourth = await lease(store)
        await store.settle([(first, SUCCEED), (second, FAIL), (third, Finish(State.BROKEN, error=BOOM))])
        await store.cancel([fourth.job.id])
        short, long = {first.job.id, fourth.job.id}, {second.job.id, third.job.id}

        clock.advance(3599)
        assert await store.prune(HOUR, {}) == 0
        clock.advance(1)
        assert await store.prune(HOUR, {}) == 2
        assert {job.id for job in await everything(store)} == long
        clock.advance(3600)
        assert await store.prune(HOUR, {}) == 2

        assert short.isdisjoint({job.id for job in await everything(store)})
        assert await store.prune(HOUR, {}) == 0

    async def test_each_queue_keeps_a_number_of_jobs_the_newest(
        self, store: Store, clock: ManualClock
    ) -> None:  # H15, H19
        ids = await enqueue(store, *[a_job() for _ in range(6)])
        for end in (SUCCEED, "cancel", FAIL, SUCCEED, Finish(State.BROKEN, error=BOOM), FAIL):
            leased = await lease_one(store)
            clock.advance(1)
            if end == "cancel":
                await store.cancel([leased.job.id])
            else:
                assert isinstance(end, Finish)
                await settle(store, leased, end)

        assert await store.prune(Retention(count=2), {}) == 2

        assert [job.id for job in await everything(store)] == [ids[5], ids[4], ids[3], ids[1]]
        await assert_counters_equal_a_recount(store)

    async def test_a_queue_may_have_a_retention_of_its_own(self, store: Store) -> None:
        await enqueue(store, a_job(), a_job(queue="short"), a_job(queue="other"))
        leases = await lease(store, "q", "short", "other")
        await store.settle([(each, SUCCEED) for each in leases])

        assert await store.prune(FOREVER, {"short": NOTHING, "unknown": NOTHING}) == 1

        assert {job.queue for job in await everything(store)} == {"q", "other"}
        assert "unknown" not in {queue.name for queue in await store.queues()}

    async def test_a_job_may_have_a_time_of_its_own(self, store: Store, clock: ManualClock) -> None:
        shorter, longer = await enqueue(store, a_job(keep=10.0), a_job(keep=10_000.0))
        await store.settle([(each, SUCCEED) for each in await lease(store)])

        clock.advance(9)
        assert await store.prune(HOUR, {}) == 0
        clock.advance(1)
        assert await store.prune(HOUR, {}) == 1
        assert await store.get([shorter]) == [None]
        assert await store.prune(NOTHING, {}) == 0
        clock.advance(9990)
        assert await store.prune(FOREVER, {}) == 1
        assert await store.get([longer]) == [None]

    async def test_jobs_with_a_time_of_their_own_do_not_count_among_the_others(self, store: Store) -> None:
        await enqueue(store, *[a_job(keep=60.0) for _ in range(3)], a_job(), a_job())
        await store.settle([(each, SUCCEED) for each in await lease(store)])

        assert await store.prune(Retention(count=2), {}) == 0

    async def test_only_finished_jobs_are_pruned(self, store: Store, clock: ManualClock) -> None:
        [blocker] = await enqueue(store, a_job(lease=1e9))
        await enqueue(store, a_job(), a_job(), a_job(delay=1e9), a_job(after=(blocker,)))
        await lease_one(store)
        await settle(store, await lease_one(store), RETRY)
        clock.advance(1e8)

        assert await store.prune(NOTHING, {}) == 0
        assert len(await everything(store)) == 5

    async def test_pruning_is_bounded(self, store: Store) -> None:
        await enqueue(store, *[a_job() for _ in range(1005)])
        await store.settle([(each, SUCCEED) for each in await lease(store, limit=1005)])

        assert await store.prune(NOTHING, {}, limit=3) == 3
        assert await store.prune(NOTHING, {}) == 1000
        assert await store.prune(NOTHING, {}) == 2
        assert await store.prune(NOTHING, {}) == 0

    async def test_totals_survive_retention(self, store: Store) -> None:  # T20
        await enqueue(store)
        await settle(store, await lease_one(store), SUCCEED)
        await store.prune(NOTHING, {})

        found = await counts(store)
        assert (found.succeeded, found.totals.succeeded, found.totals.processed) == (0, 1, 1)

    async def test_what_a_blocked_job_waits_for_is_not_pruned(self, store: Store) -> None:
        [blocker] = await enqueue(store, a_job(queue="b"))
        [unkept] = await enqueue(store, a_job(queue="b", keep=0.0))
        dependents = await enqueue(
            store, *[a_job(after=(id_,), if_blocker_fails=BlockerPolicy.WAIT) for id_ in (blocker, unkept)]
        )
        await store.settle([(each, FAIL) for each in await lease(store, "b")])

        assert await store.prune(NOTHING, {}) == 0
        assert [await state(store, id_) for id_ in (blocker, unkept)] == [State.FAILED] * 2
        await store.cancel(dependents)

        assert await store.prune(NOTHING, {}) == 4

    async def test_records_that_somebody_has_a_claim_on_do_not_keep_others_from_being_pruned(
        self, store: Store, clock: ManualClock
    ) -> None:  # I16
        for keep in (None, 0.0):
            await enqueue(store, *[a_job(unique=f"{keep}{n}", window=1e6, keep=keep) for n in range(5)])
            await store.settle([(each, SUCCEED) for each in await lease(store)])
            clock.advance(1)
        await enqueue(store, a_job(), a_job(keep=1.0))
        await store.settle([(each, SUCCEED) for each in await lease(store)])
        clock.advance(1)

        assert sum([await store.prune(NOTHING, {}, limit=2) for _ in range(3)]) == 2

    # Nothing kept at all.

    @pytest.mark.parametrize("end", ["succeeded", "failed", "broken", "cancelled", "completed", "lost", "expired"])
    async def test_nothing_is_kept_of_a_job_that_says_so(
        self, store: Store, clock: ManualClock, end: str
    ) -> None:  # W4, T11
        [job_id] = await enqueue(store, a_job(keep=0.0, max_losses=1, expires=10.0))
        if end == "expired":
            clock.advance(10)
            assert await lease(store) == []
        else:
            leased = await lease_one(store)
        match end:
            case "succeeded":
                assert await settle(store, leased, SUCCEED) == OK
                assert await settle(store, leased, SUCCEED) == NOT_FOUND
            case "failed":
                await settle(store, leased, FAIL)
            case "broken":
                await settle(store, leased, Finish(State.BROKEN, error=BOOM))
            case "cancelled":
                assert await store.cancel([job_id]) == [OK]
            case "completed":
                assert await store.complete(job_id, success("1")) == OK
            case "lost":
                clock.advance(30)
                assert [reaped.failed for reaped in await store.reap(["q"])] == [True]

        assert await store.get([job_id]) == [None]
        found = await counts(store)
        assert (found.succeeded, found.failed, found.cancelled, found.broken) == (0, 0, 0, 0)
        totals = found.totals
        assert totals.succeeded + totals.failed + totals.cancelled + totals.broken == 1
        await assert_counters_equal_a_recount(store)

    async def test_a_job_that_keeps_nothing_stays_while_it_is_retried(self, store: Store) -> None:
        [job_id] = await enqueue(store, a_job(keep=0.0))
        await settle(store, await lease_one(store), RETRY)

        assert await state(store, job_id) is State.WAITING

    async def test_a_dependent_that_fails_with_its_blocker_keeps_nothing_either(self, store: Store) -> None:
        [blocker] = await enqueue(store, a_job(keep=0.0))
        [dependent] = await enqueue(store, a_job(after=(blocker,), keep=0.0, queue="other"))

        await settle(store, await lease_one(store), FAIL)

        assert await store.get([blocker, dependent]) == [None, None]
        assert (await counts(store, "other")).totals.failed == 1
        await assert_counters_equal_a_recount(store)

    # Those who wait for a result.

    @pytest.mark.parametrize("keep", [0.0, None], ids=["keep=0", "retention"])
    async def test_a_result_that_somebody_waits_for_is_kept_for_a_minute(
        self, store: Store, clock: ManualClock, make_store: MakeStore, keep: float | None
    ) -> None:
        [job_id] = await enqueue(store, a_job(keep=keep))
        await make_store().wait([job_id])
        await settle(store, await lease_one(store), SUCCEED)
        clock.advance(59)
        assert await store.prune(NOTHING, {}) == 0

        assert await state(store, job_id) is State.SUCCEEDED
        clock.advance(1)
        assert await store.prune(NOTHING, {}) == 1
        assert await store.get([job_id]) == [None]

    async def test_pruning_looks_past_more_jobs_with_a_claim_than_a_step(self, store: Store) -> None:  # I16
        await enqueue(store, *[a_job(unique=f"{n}", window=1e6) for n in range(1100)], a_job())
        while leases := await lease(store, limit=1000):
            await store.settle([(each, SUCCEED) for each in leases])

        assert await store.prune(NOTHING, {}) == 1
