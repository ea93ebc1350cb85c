"""Tests of retention: how long final jobs and empty queues are kept."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tenure.core.job import BlockerPolicy, State
from tenure.core.lifecycle import Finish, Park
from tenure.core.options import Retention
from tenure.stores.base import QUIET, Store
from tenure.stores.values import NOT_FOUND, OK
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    RETRY,
    SUCCEED,
    MakeStore,
    PutIn,
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


async def queues(store: Store) -> set[str]:
    """The names of all queues."""
    return {queue.name for queue in await store.queues()}


async def forget_queues(store: Store, clock: ManualClock) -> None:
    """Let `QUIET` seconds pass between two prunes, so that empty queues are forgotten."""
    await store.prune(NOTHING, {})
    clock.advance(QUIET)
    await store.prune(NOTHING, {})


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

    async def test_records_that_must_stay_do_not_keep_others_from_being_pruned(
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

    # Empty queues.

    async def test_a_queue_that_stays_empty_is_forgotten(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, a_job(), a_job(queue="other"), a_job(queue="third", delay=1e9))
        await store.settle([(each, SUCCEED) for each in await lease(store, "q", "other")])
        await store.prune(Retention(succeeded=0.0), {"other": FOREVER})
        await store.purge("third")  # prune finds it empty only now

        clock.advance(QUIET - 1)
        await store.prune(FOREVER, {})
        assert (await counts(store)).totals.succeeded == 1
        clock.advance(1)
        assert await store.prune(FOREVER, {}) == 0
        assert await queues(store) == {"other", "third"}
        clock.advance(QUIET - 1)
        await store.prune(FOREVER, {})
        assert await queues(store) == {"other"}

    async def test_the_next_job_makes_a_forgotten_queue_anew(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store)
        await settle(store, await lease_one(store), SUCCEED)
        await forget_queues(store, clock)
        assert await queues(store) == set()

        [job_id] = await enqueue(store)

        assert await queues(store) == {"q"}
        assert (await store.busy_queues(("*",))).queues == ("q",)
        leased = await lease_one(store)
        assert leased.job.id == job_id
        await settle(store, leased, FAIL)
        found = await counts(store)
        assert (found.failed, found.totals.processed, found.totals.failed, found.totals.succeeded) == (1, 1, 1, 0)
        await assert_counters_equal_a_recount(store)

    @pytest.mark.parametrize(
        "what", ["waiting", "scheduled", "blocked", "parked", "running", "kept", "failed", "paused", "inbox"]
    )
    async def test_a_queue_with_something_in_it_is_not_forgotten(
        self, store: Store, clock: ManualClock, put_in: PutIn, what: str
    ) -> None:
        await enqueue(store)
        await settle(store, await lease_one(store), SUCCEED)
        await store.prune(NOTHING, {})
        [blocker] = await enqueue(store, a_job(queue="elsewhere", delay=1e9))
        match what:
            case "waiting" | "running" | "failed" | "parked":
                await enqueue(store, a_job(lease=1e9))
            case "scheduled":
                await enqueue(store, a_job(delay=1e9))
            case "blocked":
                await enqueue(store, a_job(after=(blocker,)))
            case "kept":
                await enqueue(store, a_job(keep=1e9))
                await settle(store, await lease_one(store), SUCCEED)
            case "paused":
                await store.pause("q")
            case "inbox":
                await put_in("q", b'{"task": "t"}')
        if what in {"running", "failed", "parked"}:
            leased = await lease_one(store)
            if what != "running":
                await settle(store, leased, FAIL if what == "failed" else Park(timeout=1e9))
        before = replace(await counts(store), oldest=None)

        clock.advance(QUIET)
        await store.prune(FOREVER, {})
        clock.advance(QUIET)
        await store.prune(FOREVER, {})

        assert replace(await counts(store), oldest=None) == before
        assert before.totals.succeeded >= 1

    async def test_a_queue_is_not_forgotten_if_a_job_came_and_went(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, a_job(keep=0.0))
        await settle(store, await lease_one(store), SUCCEED)
        await store.prune(NOTHING, {})
        clock.advance(QUIET / 2)
        await enqueue(store, a_job(keep=0.0))
        await settle(store, await lease_one(store), SUCCEED)

        clock.advance(QUIET / 2)
        await store.prune(NOTHING, {})
        assert (await counts(store)).totals.succeeded == 2
        clock.advance(QUIET)
        await store.prune(NOTHING, {})
        assert await queues(store) == set()

    async def test_a_paused_queue_is_forgotten_once_it_is_resumed(self, store: Store, clock: ManualClock) -> None:
        await store.pause("q")
        await forget_queues(store, clock)
        assert await queues(store) == {"q"}

        assert await store.resume("q")
        await forget_queues(store, clock)
        assert await queues(store) == set()
        assert await store.pause("q")
        assert await queues(store) == {"q"}

    async def test_thousands_of_queues_are_forgotten(self, store: Store, clock: ManualClock) -> None:
        names = [f"q{number}" for number in range(2500)]
        await enqueue(store, *[a_job(queue=name, keep=0.0) for name in names])
        for first in range(0, len(names), 500):
            leases = await lease(store, *names[first : first + 500], limit=500)
            await store.settle([(each, SUCCEED) for each in leases])
        for _ in range(5):
            await store.prune(NOTHING, {})
        clock.advance(QUIET)
        for _ in range(5):
            await store.prune(NOTHING, {})

        assert await queues(store) == set()

    async def test_jobs_that_come_while_queues_are_forgotten_are_all_there(
        self, store: Store, clock: ManualClock, make_store: MakeStore
    ) -> None:
        names, other = [f"q{number}" for number in range(20)], make_store()
        for _ in range(5):
            await enqueue(store, *[a_job(queue=name, keep=0.0) for name in names])
            await store.settle([(each, SUCCEED) for each in await lease(store, *names, limit=20)])
            await store.prune(NOTHING, {})
            clock.advance(QUIET)
            ids, *_ = await asyncio.gather(
                asyncio.gather(*[enqueue(store, a_job(queue=name)) for name in names]),
                other.prune(NOTHING, {}),
                other.prune(NOTHING, {}),
            )

            assert await queues(store) == set(names)
            await assert_counters_equal_a_recount(store)
            leases = await lease(store, *(await store.busy_queues(("*",))).queues, limit=20)
            assert {each.job.id for each in leases} == {job_id for [job_id] in ids}
            await store.settle([(each, SUCCEED) for each in leases])

    # Jobs that are not kept.

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

    # Waiters.

    @pytest.mark.parametrize("keep", [0.0, None], ids=["keep=0", "retention"])
    async def test_a_result_that_has_a_waiter_is_kept_for_a_minute(
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

    async def test_pruning_looks_past_more_records_that_must_stay_than_a_batch(self, store: Store) -> None:  # I16
        await enqueue(store, *[a_job(unique=f"{n}", window=1e6) for n in range(1100)], a_job())
        while leases := await lease(store, limit=1000):
            await store.settle([(each, SUCCEED) for each in leases])

        assert await store.prune(NOTHING, {}) == 1
