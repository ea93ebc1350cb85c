"""Tests of renew, reap and retire: how long a job is held, and what becomes of it when its holder is gone."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.job import Progress, State
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Park, Transition, lost
from tenure.stores.base import Store
from tenure.stores.values import LEASE_LOST, OK, Pulse, Reaped, Renewal
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    RELEASE,
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    a_suspect,
    a_worker,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    lease,
    lease_one,
    line,
    lose,
    record,
    settle,
    state,
)

__all__ = ["Reaping"]


class Reaping:
    # Renewal.

    async def test_a_renewed_job_is_not_reaped(self, store: Store, clock: ManualClock) -> None:  # F4, Q18
        await enqueue(store)
        leased = await lease_one(store)
        for _ in range(10):
            clock.advance(20)
            assert await store.renew([Renewal(leased, 30.0)]) == [None]
            assert await store.reap(["q"]) == []

        assert (await record(store, leased.job.id)).lease_left == 30.0
        assert await settle(store, leased, SUCCEED) == OK

    async def test_many_leases_are_renewed_in_one_call(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, *[a_job() for _ in range(1200)])
        leases = await lease(store, limit=1200)
        clock.advance(29)

        assert await store.renew([Renewal(each, 30.0) for each in leases]) == [None] * 1200

        clock.advance(29)
        assert await store.reap(["q"], limit=2000) == []

    async def test_an_expired_lease_may_be_renewed_until_it_is_reaped(self, store: Store, clock: ManualClock) -> None:
        # Q22
        await enqueue(store)
        leased = await lease_one(store)
        clock.advance(100)

        assert await store.renew([Renewal(leased, 30.0)]) == [None]
        assert await store.reap(["q"]) == []

    async def test_progress_is_stored_without_holding_the_job_for_longer(
        self, store: Store, clock: ManualClock
    ) -> None:
        await enqueue(store)
        leased = await lease_one(store)
        clock.advance(10)

        assert await store.renew([Renewal(leased, progress=Progress(3, 10, "Zoë"))]) == [None]

        job = await record(store, leased.job.id)
        assert (job.progress, job.lease_left) == (Progress(3, 10, "Zoë"), 20.0)

    async def test_a_renewal_without_progress_leaves_the_progress(self, store: Store) -> None:
        await enqueue(store)
        leased = await lease_one(store)
        await store.renew([Renewal(leased, 30.0, Progress(1))])
        await store.renew([Renewal(leased, 30.0)])

        assert (await record(store, leased.job.id)).progress == Progress(1)

    @pytest.mark.parametrize(
        "transition", [RETRY, RELEASE, SUCCEED, Park()], ids=["retry", "release", "success", "park"]
    )
    async def test_progress_ends_with_the_lease(self, store: Store, transition: Transition) -> None:
        await enqueue(store)
        leased = await lease_one(store)
        await store.renew([Renewal(leased, 30.0, Progress(1))])
        await settle(store, leased, transition)

        assert (await record(store, leased.job.id)).progress is None
        assert [each.job.progress for each in await lease(store)] in ([], [None])

    async def test_renewing_a_job_that_another_worker_holds_is_answered_taken(
        self, store: Store, clock: ManualClock
    ) -> None:  # I5, Q21, F7
        await enqueue(store, a_job(max_losses=0))
        stale = await lease_one(store)
        await lose(store, clock, stale)

        assert await store.renew([Renewal(stale, 30.0, Progress(1))]) == [AbortReason.TAKEN]
        fresh = await lease_one(store)
        clock.advance(29)
        assert await store.renew([Renewal(stale, 30.0, Progress(1))]) == [AbortReason.TAKEN]

        job = await record(store, fresh.job.id)
        assert (job.progress, job.lease_left) == (None, 1.0)

    async def test_renewing_a_job_that_has_ended_is_answered_how_it_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        # Q21, Q60, Q61
        await enqueue(store, *[a_job() for _ in range(5)])
        cancelled, completed, deleted, finished, _ = leases = await lease(store)
        await store.cancel([cancelled.job.id])
        await store.complete(completed.job.id, SUCCEED)
        await store.delete([deleted.job.id])
        await store.renew([Renewal(finished, 100.0)])
        clock.advance(30)
        await store.reap(["q"])
        await settle(store, await lease_one(store), FAIL)
        await settle(store, finished, SUCCEED)

        assert await store.renew([Renewal(each, 30.0) for each in leases]) == [
            AbortReason.CANCELLED,
            AbortReason.COMPLETED,
            AbortReason.NOT_FOUND,
            AbortReason.COMPLETED,
            AbortReason.COMPLETED,
        ]

    async def test_an_attempt_that_was_settled_is_not_renewed(self, store: Store) -> None:
        await enqueue(store)
        leased = await lease_one(store)
        await settle(store, leased, RELEASE)

        assert await store.renew([Renewal(leased, 30.0, Progress(1))]) == [AbortReason.TAKEN]
        assert (await record(store, leased.job.id)).progress is None

    async def test_an_empty_renewal_renews_nothing(self, store: Store) -> None:
        assert await store.renew([]) == []

    # Reaping.

    async def test_an_expired_job_goes_to_the_front_with_a_loss(self, store: Store, clock: ManualClock) -> None:
        # W3, H5, H13, Q29, Q32, T1, I9, I12
        ids = await enqueue(store, *[a_job() for _ in range(4)])
        await lease(store, limit=2, worker="dead")
        clock.advance(30)

        reaped = await store.reap(["q"])

        assert reaped == [Reaped(id_, "q", "t", "dead", 1, failed=False) for id_ in ids[:2]]
        assert await line(store) == ids
        job = await record(store, ids[0])
        assert (job.state, job.attempt, job.losses, job.fence, job.lease_left) == (State.WAITING, 1, 1, 1, None)
        assert (await counts(store)).totals.lost == 2

    async def test_a_lease_that_has_not_expired_is_left_alone(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, a_job(lease=29.0), a_job())
        short, _ = await lease(store)
        clock.advance(29.5)

        assert [reaped.id for reaped in await store.reap(["q"])] == [short.job.id]

    async def test_only_the_queues_asked_for_are_reaped(self, store: Store, clock: ManualClock) -> None:  # T15
        await enqueue(store, a_job(), a_job(queue="other"))
        await lease(store, "q", "other")
        clock.advance(30)

        assert [reaped.queue for reaped in await store.reap(["other", "unknown"])] == ["other"]
        assert await store.reap([]) == []
        assert [queue.name for queue in await store.queues()] == ["other", "q"]

    async def test_a_reap_is_bounded_and_takes_the_longest_expired_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        # F24
        ids = await enqueue(store, *[a_job() for _ in range(5)])
        for _ in ids:
            await lease_one(store)
            clock.advance(1)
        clock.advance(100)

        assert [reaped.id for reaped in await store.reap(["q"], limit=3)] == ids[:3]
        assert [reaped.id for reaped in await store.reap(["q"], limit=3)] == ids[3:]
        assert await store.reap(["q"], limit=3) == []

    async def test_thousands_of_leases_that_expire_together_come_back_in_batches(
        self, store: Store, clock: ManualClock
    ) -> None:  # F24
        ids = await enqueue(store, *[a_job() for _ in range(2500)])
        await lease(store, limit=2500)
        clock.advance(30)

        assert [len(await store.reap(["q"])) for _ in range(4)] == [1000, 1000, 500, 0]
        assert await line(store) == ids

    async def test_two_reapers_do_not_both_take_a_job(
        self, store: Store, clock: ManualClock, make_store: MakeStore
    ) -> None:  # F8, H17, G: worker and monitor both retry
        await enqueue(store, *[a_job(max_losses=0) for _ in range(50)])
        await lease(store)
        clock.advance(30)

        answers = await asyncio.gather(*[each.reap(["q"], limit=20) for each in (store, make_store()) * 3])

        reaped = [each.id for answer in answers for each in answer]
        assert len(reaped) == len(set(reaped)) == 50
        assert (await counts(store)).totals.lost == 50

    async def test_reap_and_settle_never_both_win(
        self, store: Store, clock: ManualClock, make_store: MakeStore
    ) -> None:
        # F8, I6, G54
        await enqueue(store, *[a_job() for _ in range(40)])
        leases = await lease(store)
        clock.advance(30)
        other = make_store()

        reaping = asyncio.create_task(other.reap(["q"], limit=20))
        verdicts = await asyncio.gather(*[store.settle([(each, SUCCEED)]) for each in leases])

        lost = {each.id for each in await reaping}
        for leased, [verdict] in zip(leases, verdicts, strict=True):
            assert verdict == (LEASE_LOST if leased.job.id in lost else OK)
            expected = State.WAITING if leased.job.id in lost else State.SUCCEEDED
            assert await state(store, leased.job.id) is expected
        await assert_counters_equal_a_recount(store)

    async def test_recovery_needs_no_registered_worker(
        self, store: Store, clock: ManualClock, make_store: MakeStore
    ) -> None:
        # I12, R: recovery only at start-up; R21
        await enqueue(store)
        await lease_one(store, worker="never registered")
        clock.advance(30)

        assert len(await make_store().reap(["q"])) == 1

    async def test_a_beating_worker_loses_a_job_that_it_does_not_renew_and_a_silent_one_keeps_what_is_renewed(
        self, store: Store, clock: ManualClock
    ) -> None:  # T2: only the lease decides
        await store.register(a_worker("beats"))
        await enqueue(store, a_job(), a_job())
        unrenewed = await lease_one(store, worker="beats")
        renewed = await lease_one(store, worker="silent")
        clock.advance(30)
        await store.beat("beats", Pulse(held=1))
        await store.renew([Renewal(renewed, 30.0)])

        assert [reaped.id for reaped in await store.reap(["q"])] == [unrenewed.job.id]

    # Clocks that are set back.

    @pytest.mark.parametrize("renewed", [False, True], ids=["leased", "renewed"])
    @pytest.mark.parametrize("ahead", [3600.0, 365 * 86400.0], ids=["hour", "year"])
    async def test_no_lease_outlives_its_length_because_the_clock_was_set_back(
        self, store: Store, clock: ManualClock, ahead: float, renewed: bool
    ) -> None:
        await enqueue(store, a_job(), a_job(queue="own", lease=5.0))
        leases = [] if not renewed else [await lease_one(store), await lease_one(store, "own")]
        clock.set_wall(ahead)
        if renewed:
            await store.renew([Renewal(each, each.ttl) for each in leases])
        else:
            leases = [await lease_one(store), await lease_one(store, "own")]
        clock.set_wall(-ahead)

        assert await store.reap(["q", "own"]) == []  # the holder may be alive: it keeps its full lease

        assert [(await record(store, each.job.id)).lease_left for each in leases] == [30.0, 5.0]
        clock.advance(5)
        assert [reaped.id for reaped in await store.reap(["q", "own"])] == [leases[1].job.id]
        clock.advance(25)
        assert [reaped.id for reaped in await store.reap(["q", "own"])] == [leases[0].job.id]

    async def test_a_holder_that_renews_keeps_its_job_when_the_clock_is_set(
        self, store: Store, clock: ManualClock
    ) -> None:
        await enqueue(store)
        leased = await lease_one(store)
        clock.set_wall(-3600)

        assert await store.reap(["q"]) == []

        clock.advance(20)
        assert await store.renew([Renewal(leased, 30.0)]) == [None]
        clock.advance(20)
        assert await store.reap(["q"]) == []
        assert await settle(store, leased, SUCCEED) == OK

    # The budget of losses.

    async def test_losses_do_not_use_up_attempts(self, store: Store, clock: ManualClock) -> None:  # I7
        await enqueue(store, a_job(max_losses=0, max_attempts=1))
        for _ in range(5):
            await lose(store, clock, await lease_one(store, solo=True))

        job = (await lease_one(store, solo=True)).job
        assert (job.attempt, job.losses, job.attempt - job.losses) == (6, 5, 1)

    async def test_a_job_fails_as_lost_when_its_last_loss_happened_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        # F6, I7
        await store.register(a_worker("w"))
        suspect = await a_suspect(store, clock, max_losses=3)
        alone = await lease_one(store, solo=True)
        clock.advance(30)

        assert await store.reap(["q"]) == [Reaped(suspect, "q", "t", "w", 3, failed=True)]

        job = await record(store, suspect)
        assert (job.state, job.losses, job.attempt, job.error and job.error.type) == (State.FAILED, 3, 3, "Lost")
        assert job.ended_at == clock.wall()
        totals = (await counts(store)).totals
        assert (totals.lost, totals.failed, totals.processed) == (3, 1, 0)
        assert (await store.workers())[0].totals == totals
        assert await settle(store, alone, SUCCEED) == LEASE_LOST
        await assert_counters_equal_a_recount(store)

    async def test_the_neighbours_of_a_poison_job_are_not_blamed(self, store: Store, clock: ManualClock) -> None:  # F6
        poison, *neighbours = await enqueue(store, *[a_job(max_losses=3) for _ in range(10)])
        for _ in range(2):
            await lease(store)
            clock.advance(30)
            await store.reap(["q"])
        for _ in range(10):
            leased = await lease_one(store, solo=True)
            if leased.job.id == poison:
                await lose(store, clock, leased)
            else:
                await settle(store, leased, SUCCEED)

        assert await state(store, poison) is State.FAILED
        assert {await state(store, id_) for id_ in neighbours} == {State.SUCCEEDED}

    async def test_a_suspect_that_had_a_process_of_its_own_fails_when_it_is_lost_again_and_its_neighbours_do_not(
        self, store: Store, clock: ManualClock
    ) -> None:  # F6
        suspect = await a_suspect(store, clock, task="apart", max_losses=3)
        [neighbour] = await enqueue(store)
        await lease(store)
        await lease(store, isolated=("apart",))
        clock.advance(30)

        assert {reaped.id: reaped.failed for reaped in await store.reap(["q"])} == {suspect: True, neighbour: False}

    async def test_a_limit_of_one_fails_at_the_first_loss_however_the_job_was_held(
        self, store: Store, clock: ManualClock
    ) -> None:  # G17
        await enqueue(store, a_job(max_losses=1), a_job())
        once, _ = await lease(store)
        clock.advance(30)
        await store.reap(["q"])

        assert await state(store, once.job.id) is State.FAILED

    async def test_no_limit_never_fails_a_job_for_its_losses(self, store: Store, clock: ManualClock) -> None:  # T1, H5
        [job_id] = await enqueue(store, a_job(max_losses=0))
        for _ in range(20):
            await lose(store, clock, await lease_one(store, solo=True))

        job = await record(store, job_id)
        assert (job.state, job.losses) == (State.WAITING, 20)

    async def test_a_released_suspect_is_still_one(self, store: Store, clock: ManualClock) -> None:
        suspect = await a_suspect(store, clock, max_losses=3)
        await settle(store, await lease_one(store, solo=True), RELEASE)

        assert await lease(store) == []
        assert [leased.job.id for leased in await lease(store, solo=True)] == [suspect]

    # Retirement.

    async def test_a_retired_worker_loses_its_jobs_at_once_and_only_its_own(self, store: Store) -> None:
        # W29, T2; W: failing one worker requeues a live peer's tasks
        ids = await enqueue(store, a_job(), a_job(queue="other"), a_job())
        await store.register(a_worker("dead"))
        await store.register(a_worker("alive"))
        await lease(store, "q", limit=1, worker="dead")
        await lease(store, "other", limit=1, worker="dead")
        alive = await lease_one(store, worker="alive")

        reaped = await store.retire("dead")

        assert sorted(each.id for each in reaped) == sorted(ids[:2])
        assert {(each.worker, each.losses, each.failed) for each in reaped} == {("dead", 1, False)}
        assert [worker.id for worker in await store.workers()] == ["alive"]
        assert await state(store, alive.job.id) is State.RUNNING
        assert await line(store) == [ids[0]]
        assert await store.retire("dead") == []

    async def test_the_jobs_of_a_retired_worker_go_to_the_front_in_their_order(self, store: Store) -> None:  # I9
        ids = await enqueue(store, *[a_job() for _ in range(6)])
        await lease(store, limit=4, worker="dead")
        await store.retire("dead")

        assert await line(store) == ids

    async def test_a_worker_need_not_be_registered_to_be_retired(self, store: Store) -> None:
        await enqueue(store)
        leased = await lease_one(store, worker="unknown")

        assert [reaped.id for reaped in await store.retire("unknown")] == [leased.job.id]
        assert await settle(store, leased, SUCCEED) == LEASE_LOST

    async def test_retirement_is_bounded_and_repeated_until_nothing_is_left(self, store: Store) -> None:
        await enqueue(store, *[a_job() for _ in range(5)])
        await lease(store, worker="dead")

        assert [len(await store.retire("dead", limit=2)) for _ in range(4)] == [2, 2, 1, 0]

    @pytest.mark.parametrize(
        ("reason", "kept"),
        [
            (None, None),
            ("killed by SIGKILL", "killed by SIGKILL"),
            (" lost 7  \U0001f389\n", "lost 7  \U0001f389"),
            ("a\0b\ud800", "a\\x00b\\ud800"),
            ("x" * 10_000, "x" * 200),
        ],
        ids=["none", "signal", "odd", "not text", "long"],
    )
    async def test_the_reason_of_a_retirement_is_in_the_error_of_each_job(
        self, store: Store, clock: ManualClock, reason: str | None, kept: str | None
    ) -> None:  # R23, R33
        back, failed = await enqueue(store, a_job(), a_job(max_losses=1))
        await lease(store, worker="dead")

        await store.retire("dead", reason=reason)

        assert (await record(store, back)).error == lost(1, kept)
        assert (await record(store, failed)).error == lost(1, kept)
        again = await lease_one(store)
        assert again.job.error == lost(1, kept)
        await lose(store, clock, again)
        assert (await record(store, back)).error == lost(2)
        await settle(store, await lease_one(store, solo=True), SUCCEED)
        assert (await record(store, back)).error is None

    async def test_retirement_counts_against_the_budget_of_losses(self, store: Store) -> None:
        await enqueue(store, a_job(max_losses=1))
        leased: Lease = await lease_one(store, worker="dead")

        [reaped] = await store.retire("dead")

        assert (reaped.losses, reaped.failed) == (1, True)
        assert await state(store, leased.job.id) is State.FAILED

    @pytest.mark.parametrize("transition", [SUCCEED, RETRY, RELEASE])
    async def test_what_a_worker_has_settled_is_not_taken_from_it(self, store: Store, transition: Transition) -> None:
        await enqueue(store)
        leased = await lease_one(store, worker="w")
        await settle(store, leased, transition)

        assert await store.retire("w") == []
