"""Tests of settle: what becomes of a job at the end of an attempt, decided by the holder of its token."""

from __future__ import annotations

import pytest

from tenure.core.job import ErrorInfo, NewJob, State
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.stores.base import Store
from tenure.stores.values import (
    LEASE_LOST,
    NOT_FOUND,
    OK,
    BlockerGone,
    Renewal,
    UniqueHeld,
    refused,
)
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    RELEASE,
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    a_worker,
    ageless_queues,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    everything,
    lease,
    lease_one,
    line,
    lose,
    record,
    settle,
    state,
    success,
)

__all__ = ["Settling"]

TRANSITIONS: dict[str, Transition] = {
    "succeed": SUCCEED,
    "fail": FAIL,
    "break": Finish(State.BROKEN, error=BOOM),
    "retry": RETRY,
    "retry later": Requeue(10.0, error=BOOM),
    "reschedule": Requeue(10.0, counts=False),
    "miss": Requeue(10.0, counts=False, missed=True, error=BOOM),
    "release": RELEASE,
    "park": Park(),
}
every_transition = pytest.mark.parametrize("transition", TRANSITIONS.values(), ids=TRANSITIONS)


class Settling:
    # Transitions.

    async def test_a_success_is_final_with_its_result(self, store: Store, clock: ManualClock) -> None:  # H4
        await enqueue(store)
        leased = await lease_one(store)
        clock.advance(3)

        assert await settle(store, leased, Finish(State.SUCCEEDED, '{"a":"ü"}')) == OK

        job = await record(store, leased.job.id)
        assert (job.state, job.result, job.error, job.ended_at) == (State.SUCCEEDED, '{"a":"ü"}', None, clock.wall())
        assert (job.attempt, job.worker, job.lease_left) == (1, "w", None)
        assert await lease(store) == []

    @pytest.mark.parametrize("final", [State.FAILED, State.BROKEN])
    async def test_a_failed_or_broken_job_is_kept_with_its_error_and_payload(self, store: Store, final: State) -> None:
        # H4, H14, T7, F18
        await enqueue(store, a_job(payload=b"\xff\x00", raw=True))
        leased = await lease_one(store)

        assert await settle(store, leased, Finish(final, error=BOOM)) == OK

        job = await record(store, leased.job.id)
        assert (job.state, job.error, job.result, job.attempt) == (final, BOOM, None, 1)
        assert job.payload == b"\xff\x00"
        assert await lease(store) == []

    async def test_a_retry_goes_to_the_back_and_keeps_its_attempt(self, store: Store) -> None:  # H5, H12, T1, I9
        retried, other = await enqueue(store, a_job(), a_job())
        leased = await lease_one(store)

        assert await settle(store, leased, RETRY) == OK

        assert await line(store) == [other, retried]
        job = await record(store, retried)
        assert (job.state, job.attempt, job.error, job.run_at, job.label) == (State.WAITING, 1, BOOM, None, "retrying")

    async def test_a_retry_with_a_delay_goes_to_the_back_once_it_is_due(self, store: Store, clock: ManualClock) -> None:
        # Q26, I9, I10
        retried, second = await enqueue(store, a_job(), a_job())
        await settle(store, await lease_one(store), Requeue(10.0, error=BOOM))
        assert (await record(store, retried)).run_at == clock.wall() + 10
        clock.advance(9)
        assert (await lease_one(store)).job.id == second
        [third] = await enqueue(store)
        clock.advance(1)

        assert [leased.job.id for leased in await lease(store)] == [third, retried]

    async def test_a_reschedule_gives_the_attempt_back(self, store: Store, clock: ManualClock) -> None:  # Q25, T5
        await enqueue(store)
        leased = await lease_one(store)

        assert await settle(store, leased, Requeue(run_at=clock.wall() + 60, counts=False)) == OK

        job = await record(store, leased.job.id)
        assert (job.state, job.attempt, job.run_at, job.label) == (State.WAITING, 0, clock.wall() + 60, "scheduled")

    async def test_a_reschedule_to_the_past_means_now(self, store: Store, clock: ManualClock) -> None:  # Q25
        first, second = await enqueue(store, a_job(), a_job())
        await settle(store, await lease_one(store), Requeue(run_at=clock.wall() - 60, counts=False))

        assert await line(store) == [second, first]

    async def test_a_release_goes_to_the_front_as_if_nothing_had_happened(self, store: Store) -> None:
        # W3, W14, W15, T1, I9
        ids = await enqueue(store, *[a_job() for _ in range(4)])
        first, second = await lease(store, limit=2)

        assert await store.settle([(second, RELEASE), (first, RELEASE)]) == [OK, OK]

        assert await line(store) == ids
        job = await record(store, ids[0])
        assert (job.attempt, job.fence, job.error, job.state) == (0, 1, None, State.WAITING)

    async def test_a_job_that_was_delayed_is_released_to_the_place_it_had_in_line(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, delayed = await enqueue(store, a_job(), a_job(delay=1.0))
        clock.advance(1)
        leases = await lease(store)
        [later] = await enqueue(store)

        await store.settle([(each, RELEASE) for each in leases])

        assert await line(store) == [first, delayed, later]

    async def test_a_parked_job_is_blocked_until_it_is_completed(self, store: Store) -> None:  # Q60
        await enqueue(store)
        leased = await lease_one(store)

        assert await settle(store, leased, Park()) == OK

        job = await record(store, leased.job.id)
        assert (job.state, job.attempt, job.blocked_by) == (State.BLOCKED, 0, 1)
        assert await lease(store) == []
        assert await store.complete(leased.job.id, success('"by hand"')) == OK
        job = await record(store, leased.job.id)
        assert (job.state, job.result, job.blocked_by, job.attempt) == (State.SUCCEEDED, '"by hand"', 0, 0)

    async def test_a_parked_job_fails_when_its_time_is_over(self, store: Store, clock: ManualClock) -> None:
        parked, patient = await enqueue(store, a_job(), a_job())
        first, second = await lease(store)
        await store.settle([(first, Park(60.0)), (second, Park(61.0))])
        clock.advance(59)
        await store.reap(["q"])
        assert await state(store, parked) is State.BLOCKED
        clock.advance(1)
        assert await store.reap(["other"]) == []
        assert await state(store, parked) is State.BLOCKED

        assert await store.reap(["q"]) == []

        job = await record(store, parked)
        assert (job.state, job.error and job.error.type, job.blocked_by) == (State.FAILED, "WaitTimeout", 0)
        assert await state(store, patient) is State.BLOCKED
        assert (await counts(store)).totals.failed == 1
        await assert_counters_equal_a_recount(store)

    async def test_a_parked_job_does_not_expire(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store, a_job(expires=10.0))
        await settle(store, await lease_one(store), Park())
        clock.advance(11)
        await lease(store)

        assert await state(store, job_id) is State.BLOCKED

    async def test_misses_are_counted_while_one_follows_the_other(self, store: Store) -> None:  # F18
        await enqueue(store)
        found = []
        miss = Requeue(counts=False, missed=True, error=ErrorInfo("UnknownTask", "?"))
        for transition in (miss, miss, RELEASE, miss, RETRY, miss, Park()):
            leased = await lease_one(store)
            await settle(store, leased, transition)
            found.append((await record(store, leased.job.id)).misses)

        assert found == [1, 2, 2, 3, 0, 1, 0]

    async def test_an_error_stays_until_a_success(self, store: Store) -> None:  # Q28
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), RETRY)
        await settle(store, await lease_one(store), RELEASE)
        assert (await record(store, job_id)).error == BOOM

        await settle(store, await lease_one(store), SUCCEED)

        assert (await record(store, job_id)).error is None

    @pytest.mark.parametrize("message", ["", "\x00\r\n\x1b[31m", "Zoë \U0001f600 \u202e", "x" * 100_000])
    async def test_errors_and_results_come_back_as_they_were(self, store: Store, message: str) -> None:
        failed, succeeded = await enqueue(store, a_job(), a_job())
        first, second = await lease(store)
        error = ErrorInfo("E", message, message)

        await store.settle([(first, Finish(State.FAILED, error=error)), (second, Finish(State.SUCCEEDED, message))])

        assert (await record(store, failed)).error == error
        assert (await record(store, succeeded)).result == message

    # Tokens.

    @every_transition
    async def test_the_winning_settle_repeated_is_ok_and_changes_nothing(
        self, store: Store, clock: ManualClock, transition: Transition
    ) -> None:  # I6, F16
        await enqueue(store)
        leased = await lease_one(store)
        assert await settle(store, leased, transition) == OK
        before = await record(store, leased.job.id), await ageless_queues(store)
        clock.advance(5)

        assert await settle(store, leased, transition) == OK
        assert await store.settle([(leased, SUCCEED), (leased, transition)]) == [OK, OK]

        assert (await record(store, leased.job.id), await ageless_queues(store)) == before

    @every_transition
    async def test_a_reaped_holder_cannot_settle(
        self, store: Store, clock: ManualClock, transition: Transition
    ) -> None:
        # I5, F2, G: a late worker completes someone else's run
        await enqueue(store)
        stale = await lease_one(store)
        await lose(store, clock, stale)
        before = await record(store, stale.job.id)

        assert await settle(store, stale, transition) == LEASE_LOST
        assert await record(store, stale.job.id) == before

    @every_transition
    async def test_a_stale_holder_cannot_settle_what_another_one_holds(
        self, store: Store, clock: ManualClock, make_store: MakeStore, transition: Transition
    ) -> None:  # I5, F3: because of the token, not because of the state
        await enqueue(store, a_job(max_losses=0))
        stale = await lease_one(store, worker="old")
        await lose(store, clock, stale)
        fresh = await lease_one(make_store(), worker="new")
        before = await record(store, fresh.job.id)

        assert await settle(store, stale, transition) == LEASE_LOST

        assert await record(store, fresh.job.id) == before
        assert await settle(store, fresh, SUCCEED) == OK

    @every_transition
    async def test_a_stale_attempt_of_the_same_worker_is_refused(
        self, store: Store, clock: ManualClock, transition: Transition
    ) -> None:  # I5, Q: a stale attempt of the same worker passes the ownership check
        await enqueue(store, a_job(max_losses=0))
        stale = await lease_one(store, worker="same", nonce=1)
        await lose(store, clock, stale)
        fresh = await lease_one(store, worker="same", nonce=2)

        assert await settle(store, stale, transition) == LEASE_LOST
        assert await settle(store, fresh, SUCCEED) == OK

    @every_transition
    async def test_an_attempt_that_was_settled_to_run_again_has_no_say_in_the_next_one(
        self, store: Store, transition: Transition
    ) -> None:  # I5
        await enqueue(store)
        for back in (RELEASE, RETRY):
            stale = await lease_one(store)
            await settle(store, stale, back)
            fresh = await lease_one(store)

            assert await settle(store, stale, transition) == LEASE_LOST
            assert await state(store, fresh.job.id) is State.RUNNING
            assert await settle(store, fresh, RELEASE) == OK

    async def test_the_fence_alone_is_no_proof_nor_is_the_nonce(self, store: Store) -> None:  # T4
        await enqueue(store)
        leased = await lease_one(store)
        token = leased.token
        for forged in (Token(token.fence, token.nonce ^ 1), Token(token.fence + 1, token.nonce), Token(0, 0)):
            assert await settle(store, Lease(leased.job, forged, leased.ttl), SUCCEED) == LEASE_LOST

        assert await state(store, leased.job.id) is State.RUNNING

    async def test_an_expired_lease_may_be_settled_until_it_is_reaped(self, store: Store, clock: ManualClock) -> None:
        # Q22, H18
        await enqueue(store)
        leased = await lease_one(store)
        clock.advance(3600)

        assert await settle(store, leased, SUCCEED) == OK
        assert await store.reap(["q"]) == []

    @pytest.mark.parametrize("end", ["cancel", "complete"])
    @every_transition
    async def test_what_ended_from_outside_is_not_settled_any_more(
        self, store: Store, transition: Transition, end: str
    ) -> None:  # I6, Q60
        await enqueue(store)
        leased = await lease_one(store)
        if end == "cancel":
            await store.cancel([leased.job.id])
        else:
            await store.complete(leased.job.id, success("1"))
        before = await record(store, leased.job.id)

        assert await settle(store, leased, transition) == LEASE_LOST
        assert await record(store, leased.job.id) == before

    @every_transition
    async def test_a_job_that_is_gone_is_not_found(self, store: Store, transition: Transition) -> None:  # G42, Q61
        await enqueue(store)
        leased = await lease_one(store)
        await store.delete([leased.job.id])

        assert await settle(store, leased, transition) == NOT_FOUND
        assert await store.get([leased.job.id]) == [None]

    async def test_items_of_a_batch_are_independent(self, store: Store, clock: ManualClock) -> None:  # I17
        await enqueue(store, *[a_job(max_losses=0) for _ in range(4)])
        stale, gone, refused, good = await lease(store)
        await store.renew([Renewal(refused, 999.0), Renewal(good, 999.0)])
        await lose(store, clock, stale)
        await store.delete([gone.job.id])
        impossible = Finish(State.SUCCEEDED, children=(a_job(after=("missing",)),))

        verdicts = await store.settle([(stale, SUCCEED), (gone, SUCCEED), (refused, impossible), (good, SUCCEED)])

        assert [verdict.kind for verdict in verdicts] == ["lease_lost", "not_found", "refused", "ok"]
        assert await state(store, good.job.id) is State.SUCCEEDED
        assert await state(store, refused.job.id) is State.RUNNING
        await assert_counters_equal_a_recount(store)

    @pytest.mark.parametrize("keep", [None, 0.0])
    async def test_the_same_settle_twice_in_one_call_is_the_same_again(self, store: Store, keep: float | None) -> None:
        await enqueue(store, a_job(keep=keep), a_job())
        one, other = await lease(store)

        verdicts = await store.settle([(one, SUCCEED), (other, SUCCEED), (one, SUCCEED)])

        assert verdicts == [OK, OK, OK if keep is None else NOT_FOUND]

    async def test_an_empty_batch_settles_nothing(self, store: Store) -> None:
        assert await store.settle([]) == []

    async def test_a_thousand_and_more_settle_in_one_call(self, store: Store) -> None:
        await enqueue(store, *[a_job() for _ in range(1500)])
        leases = await lease(store, limit=1500)

        assert await store.settle([(each, SUCCEED) for each in leases]) == [OK] * 1500
        assert (await counts(store)).succeeded == 1500

    # Children.

    async def test_children_are_created_with_the_success(self, store: Store) -> None:  # I13
        await enqueue(store)
        parent = await lease_one(store)
        children = (a_job(), a_job(queue="other", delay=5.0))
        assert await store.get([child.id for child in children]) == [None, None]

        assert await settle(store, parent, Finish(State.SUCCEEDED, "1", children=children)) == OK

        assert await line(store) == [children[0].id]
        assert (await counts(store, "other")).scheduled == 1

    async def test_children_are_enqueued_once(self, store: Store) -> None:  # I2, I13
        await enqueue(store)
        parent = await lease_one(store)
        child = a_job()
        transition = Finish(State.SUCCEEDED, "1", children=(child, child))
        await settle(store, parent, transition)
        await settle(store, await lease_one(store), SUCCEED)

        assert await settle(store, parent, transition) == OK

        assert await state(store, child.id) is State.SUCCEEDED
        assert len(await everything(store)) == 2

    async def test_children_of_a_stale_holder_are_not_created(self, store: Store, clock: ManualClock) -> None:  # I5
        await enqueue(store)
        stale = await lease_one(store)
        await lose(store, clock, stale)
        child = a_job(queue="fresh")

        assert await settle(store, stale, Finish(State.SUCCEEDED, children=(child,))) == LEASE_LOST

        assert await store.get([child.id]) == [None]
        assert [queue.name for queue in await store.queues()] == ["q"]

    @pytest.mark.parametrize("hindrance", ["blocker", "unique"])
    async def test_a_settle_whose_children_are_impossible_is_refused_and_changes_nothing(
        self, store: Store, hindrance: str
    ) -> None:
        [holder] = await enqueue(store, a_job(queue="other", unique="k"))
        await enqueue(store)
        parent = await lease_one(store)
        good = a_job()
        bad = a_job(after=("missing",)) if hindrance == "blocker" else a_job(unique="k", unique_raises=True)
        before = await record(store, parent.job.id), await store.queues()

        verdict = await settle(store, parent, Finish(State.SUCCEEDED, "1", children=(good, bad)))

        refusal = BlockerGone("missing") if hindrance == "blocker" else UniqueHeld(holder, bad.task, "k")
        assert verdict == refused(refusal)
        assert verdict.reason
        assert await store.get([good.id, bad.id]) == [None, None]
        assert (await record(store, parent.job.id), await store.queues()) == before
        assert await settle(store, parent, SUCCEED) == OK

    async def test_a_child_may_take_the_unique_key_of_its_parent(self, store: Store) -> None:  # Q59
        await enqueue(store, a_job(unique="tick"))
        parent = await lease_one(store)
        child = a_job(unique="tick", unique_raises=True)

        assert await settle(store, parent, Finish(State.SUCCEEDED, children=(child,))) == OK

        assert await line(store) == [child.id]
        assert await enqueue(store, a_job(unique="tick")) == [child.id]

    async def test_a_child_may_wait_for_its_parent_and_for_its_siblings(self, store: Store) -> None:
        await enqueue(store, a_job(keep=0.0))
        parent = await lease_one(store)
        first = a_job(queue="other")
        last = a_job(after=(parent.job.id, first.id))

        await settle(store, parent, Finish(State.SUCCEEDED, '"p"', children=(first, last)))

        assert (await record(store, last.id)).blocked_by == 1
        await settle(store, await lease_one(store, "other"), SUCCEED)
        assert (await lease_one(store)).job.results == ('"p"', "42")

    async def test_ten_thousand_children_come_in_one_operation(self, store: Store) -> None:
        await enqueue(store)
        parent = await lease_one(store)
        children: tuple[NewJob, ...] = tuple(a_job(queue="other") for _ in range(10_000))

        assert await settle(store, parent, Finish(State.SUCCEEDED, children=children)) == OK
        assert (await counts(store, "other")).waiting == 10_000

    # Totals.

    async def test_totals_count_what_happened_each_time(self, store: Store) -> None:  # T20, R31
        await store.register(a_worker("w"))
        await enqueue(store, *[a_job() for _ in TRANSITIONS])
        for transition in TRANSITIONS.values():
            # Leases the next job each time; one that went back in line is counted again when it is leased again.
            await settle(store, await lease_one(store), transition)

        totals = (await counts(store)).totals
        assert (totals.processed, totals.succeeded, totals.failed, totals.retried) == (4, 1, 1, 2)
        assert (totals.broken, totals.cancelled, totals.lost) == (1, 0, 0)
        [worker] = await store.workers()
        assert worker.totals == totals
        await assert_counters_equal_a_recount(store)

    async def test_a_stale_settle_counts_nothing(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store)
        stale = await lease_one(store)
        await lose(store, clock, stale)
        before = await store.queues()

        await store.settle([(stale, SUCCEED), (stale, FAIL), (stale, RETRY)])

        assert await store.queues() == before

    @pytest.mark.parametrize("waited_for", [False, True])
    async def test_settling_a_job_that_the_same_call_has_removed_is_not_found(
        self, store: Store, waited_for: bool
    ) -> None:
        [unkept, other] = await enqueue(store, a_job(keep=0.0, priority=-1), a_job())
        first = await lease_one(store)
        await settle(store, first, RELEASE)
        second, last = await lease(store, limit=2)
        await enqueue(store, a_job(queue="d", after=(unkept if waited_for else other,)))

        verdicts = await store.settle(
            [(first, RETRY), (second, SUCCEED), (last, RETRY), (first, RETRY), (second, SUCCEED)]
        )

        assert [verdict.kind for verdict in verdicts] == ["lease_lost", "ok", "ok", "not_found", "not_found"]
        assert await store.get([unkept]) == [None]

    async def test_who_settles_a_job_before_it_is_removed_in_the_same_call_has_lost_it(self, store: Store) -> None:
        [unkept] = await enqueue(store, a_job(keep=0.0))
        stale = await lease_one(store)
        await settle(store, stale, RELEASE)
        held = await lease_one(store)

        verdicts = await store.settle([(stale, RETRY), (held, SUCCEED), (stale, RETRY)])

        assert verdicts == [LEASE_LOST, OK, NOT_FOUND]
        assert await store.get([unkept]) == [None]

    @pytest.mark.parametrize("waited_for", [False, True])
    async def test_a_child_may_have_the_id_of_a_job_that_was_removed_before_it_in_the_same_call(
        self, store: Store, waited_for: bool
    ) -> None:
        unkept, other, _ = await enqueue(store, a_job(keep=0.0), a_job(), a_job())
        first, second, parent = await lease(store)
        if waited_for:
            await enqueue(store, a_job(queue="d", after=(other,)))
        again = a_job(id=unkept)

        verdicts = await store.settle(
            [(first, SUCCEED), (second, SUCCEED), (parent, Finish(State.SUCCEEDED, children=(again,)))]
        )

        assert verdicts == [OK, OK, OK]
        assert await line(store) == [unkept]
        await assert_counters_equal_a_recount(store)
