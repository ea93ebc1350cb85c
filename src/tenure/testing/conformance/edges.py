"""Tests of edges: jobs that wait for others and own their results."""

from __future__ import annotations

import asyncio
import json

import pytest

from tenure.core.job import BlockerPolicy, State
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Park
from tenure.errors import BlockerNotFound
from tenure.stores.base import Store
from tenure.stores.values import (
    OK,
    BlockerGone,
    EdgeInfo,
    Enqueued,
    Search,
    refused,
)
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
    lease,
    lease_one,
    line,
    record,
    settle,
    state,
    success,
)

__all__ = ["Edges"]

FAIL_TOO, PROCEED, WAIT = BlockerPolicy.FAIL, BlockerPolicy.PROCEED, BlockerPolicy.WAIT

ILL_ENDS = ["failed", "broken", "cancelled", "lost", "expired", "wait timeout"]
every_ill_end = pytest.mark.parametrize("ill_end", ILL_ENDS)


async def blockers(store: Store, number: int = 1) -> list[str]:
    return await enqueue(store, *[a_job(queue="b", max_losses=1, expires=1000.0) for _ in range(number)])


async def end_badly(store: Store, clock: ManualClock, ill_end: str) -> None:
    """End the next job of queue `b` without success."""
    if ill_end == "expired":
        clock.advance(1000)
        assert await lease(store, "b") == []
        return
    leased = await lease_one(store, "b")
    match ill_end:
        case "failed":
            await settle(store, leased, FAIL)
        case "broken":
            await settle(store, leased, Finish(State.BROKEN, error=BOOM))
        case "cancelled":
            await store.cancel([leased.job.id])
        case "lost":
            clock.advance(30)
            await store.reap(["b"])
        case "wait timeout":
            await settle(store, leased, Park(5.0))
            clock.advance(5)
            await store.reap(["b"])


class Edges:
    async def test_a_job_is_blocked_until_all_it_waits_for_has_succeeded(self, store: Store) -> None:  # Q52, Q53
        ids = await blockers(store, 3)
        [answer] = await store.enqueue([a_job(after=tuple(ids))])
        assert answer.state is State.BLOCKED
        seen = []
        for number in range(3):
            seen.append(((await record(store, answer.id)).blocked_by, await lease(store)))
            await settle(store, await lease_one(store, "b"), Finish(State.SUCCEEDED, f'"{number}"'))

        assert seen == [(3, []), (2, []), (1, [])]
        leased = await lease_one(store)
        assert (leased.job.id, leased.job.results, leased.job.blocked_by) == (answer.id, ('"0"', '"1"', '"2"'), 0)
        assert (await record(store, answer.id)).results == ('"0"', '"1"', '"2"')

    async def test_results_stand_in_the_order_of_after_and_not_of_ending(self, store: Store) -> None:  # Q53
        first, second = await blockers(store, 2)
        await enqueue(store, a_job(after=(second, first, second)))
        for result in ('"first"', '"second"'):
            await settle(store, await lease_one(store, "b"), Finish(State.SUCCEEDED, result))

        assert (await lease_one(store)).job.results == ('"second"', '"first"', '"second"')

    async def test_blockers_that_have_succeeded_already_do_not_block(self, store: Store) -> None:  # Q52
        [blocker] = await blockers(store)
        await settle(store, await lease_one(store, "b"), SUCCEED)

        [answer] = await store.enqueue([a_job(after=(blocker,))])

        assert answer.state is State.WAITING
        assert (await lease_one(store)).job.results == ("42",)

    async def test_jobs_of_one_call_may_wait_for_those_before_them(self, store: Store) -> None:
        answers = await store.enqueue([a_job(id="1"), a_job(id="2", after=("1",)), a_job(id="3", after=("1", "2"))])

        assert [answer.state for answer in answers] == [State.WAITING, State.BLOCKED, State.BLOCKED]
        for expected in ("1", "2", "3"):
            leased = await lease_one(store)
            assert leased.job.id == expected
            await settle(store, leased, SUCCEED)

    @pytest.mark.parametrize("missing", ["missing", "itself", "later"])
    async def test_a_blocker_must_exist_before(self, store: Store, missing: str) -> None:
        jobs = [a_job(id="itself", after=(missing,)), a_job(id="later")]

        with pytest.raises(BlockerNotFound) as raised:
            await store.enqueue(jobs)

        assert raised.value.blocker == missing
        assert await store.get(["itself", "later"]) == [None, None]

    async def test_an_unblocked_job_joins_at_the_back(self, store: Store) -> None:  # Q54, I9
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))
        [other] = await enqueue(store)
        await settle(store, await lease_one(store, "b"), SUCCEED)
        [later] = await enqueue(store)

        assert await line(store) == [other, dependent, later]

    async def test_those_that_are_unblocked_together_keep_their_order(self, store: Store) -> None:
        [blocker] = await blockers(store)
        ids = await enqueue(store, *[a_job(id=id_, after=(blocker,)) for id_ in ("z", "m", "a")])
        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert await line(store) == ids

    async def test_an_unblocked_job_still_waits_for_its_time(self, store: Store, clock: ManualClock) -> None:  # Q54
        [blocker] = await blockers(store)
        later, due = await enqueue(store, a_job(after=(blocker,), delay=100.0), a_job(after=(blocker,), delay=5.0))
        clock.advance(10)
        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert await line(store) == [due]
        job = await record(store, later)
        assert (job.state, job.run_at) == (State.WAITING, clock.wall() + 90)
        clock.advance(90)
        assert [leased.job.id for leased in await lease(store)] == [due, later]
        await assert_counters_equal_a_recount(store)

    async def test_one_blocker_may_block_many(self, store: Store) -> None:  # Q55
        [blocker] = await blockers(store)
        ids = await enqueue(store, *[a_job(after=(blocker,)) for _ in range(1200)])
        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert await line(store) == ids
        assert (await counts(store)).blocked == 0

    async def test_one_job_may_wait_for_a_thousand(self, store: Store) -> None:
        ids = await blockers(store, 1000)
        [dependent] = await enqueue(store, a_job(after=tuple(ids)))
        leases = await lease(store, "b", limit=1000)
        await store.settle([(each, SUCCEED) for each in leases[:999]])
        assert (await record(store, dependent)).blocked_by == 1

        await store.settle([(leases[999], SUCCEED)])

        assert len((await lease_one(store)).job.results) == 1000

    async def test_two_blockers_that_complete_at_once_free_the_dependent_once(
        self, store: Store, make_store: MakeStore
    ) -> None:  # I13, F25, Q: two blockers completing at once leave the dependent blocked for ever
        other = make_store()
        for _ in range(10):
            ids = await blockers(store, 2)
            [dependent] = await enqueue(store, a_job(after=tuple(ids)))
            first, second = await lease(store, "b")

            await asyncio.gather(store.settle([(first, SUCCEED)]), other.settle([(second, SUCCEED)]))

            assert [leased.job.id for leased in await lease(store)] == [dependent]

    async def test_a_blocker_completed_twice_closes_one_edge(self, store: Store) -> None:  # F25
        first, second = await blockers(store, 2)
        [dependent] = await enqueue(store, a_job(after=(first, second)))
        leased = await lease_one(store, "b")
        for _ in range(2):
            await settle(store, leased, SUCCEED)
        await store.retry([first])
        await store.complete(first, success("43"))

        job = await record(store, dependent)
        assert (job.state, job.blocked_by, job.results) == (State.BLOCKED, 1, ("42", None))

    async def test_a_blocker_that_runs_again_still_blocks(self, store: Store) -> None:
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))
        await settle(store, await lease_one(store, "b"), RETRY)

        assert await state(store, dependent) is State.BLOCKED

    async def test_completion_from_outside_closes_edges(self, store: Store) -> None:
        [blocker] = await blockers(store)
        await enqueue(store, a_job(after=(blocker,)))
        await store.complete(blocker, success('"x"'))

        assert (await lease_one(store)).job.results == ('"x"',)

    async def test_the_dependent_owns_the_result_when_its_blocker_is_gone(self, store: Store) -> None:
        await enqueue(store, a_job(id="b", queue="b", keep=0.0))
        [dependent] = await enqueue(store, a_job(after=("b",)))
        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert await store.get(["b"]) == [None]
        assert (await record(store, dependent)).results == ("42",)

    # Blockers that end without success.

    @every_ill_end
    async def test_a_dependent_fails_with_its_blocker(self, store: Store, clock: ManualClock, ill_end: str) -> None:
        # F25, T9
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))

        await end_badly(store, clock, ill_end)

        job = await record(store, dependent)
        assert (job.state, job.error and job.error.type, job.ended_at) == (State.FAILED, "BlockerFailed", clock.wall())
        assert job.error
        assert blocker in job.error.message
        totals = (await counts(store)).totals
        assert (totals.failed, totals.processed) == (1, 0)
        await assert_counters_equal_a_recount(store)

    @every_ill_end
    async def test_a_dependent_may_proceed_with_a_failure_in_place_of_the_result(
        self, store: Store, clock: ManualClock, ill_end: str
    ) -> None:  # T9
        [first] = await blockers(store)
        [second] = await enqueue(store, a_job(queue="good"))
        [dependent] = await enqueue(store, a_job(after=(first, second), if_blocker_fails=PROCEED))
        await settle(store, await lease_one(store, "good"), SUCCEED)

        await end_badly(store, clock, ill_end)

        leased = await lease_one(store)
        assert leased.job.id == dependent
        failure, result = (json.loads(text or "") for text in leased.job.results)
        assert failure["$failure"]["job"] == first
        assert failure["$failure"]["state"] == await state(store, first)
        assert result == 42

    @every_ill_end
    async def test_a_dependent_may_wait_until_its_blocker_succeeds_after_a_retry(
        self, store: Store, clock: ManualClock, ill_end: str
    ) -> None:  # T9
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,), if_blocker_fails=WAIT))

        await end_badly(store, clock, ill_end)
        assert await state(store, dependent) is State.BLOCKED
        await store.retry([blocker])
        assert await state(store, dependent) is State.BLOCKED
        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert (await lease_one(store)).job.results == ("42",)

    @pytest.mark.parametrize(
        ("policy", "expected"), [(FAIL_TOO, State.FAILED), (PROCEED, State.WAITING), (WAIT, State.BLOCKED)]
    )
    async def test_a_blocker_that_had_failed_before_acts_at_the_enqueue(
        self, store: Store, policy: BlockerPolicy, expected: State
    ) -> None:
        [blocker] = await blockers(store)
        await settle(store, await lease_one(store, "b"), FAIL)
        new = a_job(after=(blocker,), if_blocker_fails=policy)

        assert await store.enqueue([new]) == [Enqueued(new.id, expected)]

        assert await state(store, new.id) is expected
        assert (await counts(store)).totals.failed == (policy is FAIL_TOO)
        await assert_counters_equal_a_recount(store)

    async def test_failure_goes_down_a_long_chain(self, store: Store) -> None:  # F25
        jobs = [a_job(id="0", queue="b")]
        jobs += [a_job(id=str(number), after=(str(number - 1),)) for number in range(1, 1500)]
        await store.enqueue(jobs)

        await settle(store, await lease_one(store, "b"), FAIL)

        found = await counts(store)
        assert (found.blocked, found.failed, found.totals.failed) == (0, 1499, 1499)

    async def test_a_failing_chain_reaches_those_that_proceed(self, store: Store) -> None:
        await enqueue(store, a_job(id="1", queue="b"), a_job(id="2", after=("1",)))
        [last] = await enqueue(store, a_job(after=("2",), if_blocker_fails=PROCEED))

        await settle(store, await lease_one(store, "b"), FAIL)

        assert await line(store) == [last]

    async def test_a_dependent_that_ended_otherwise_is_left_alone(self, store: Store) -> None:
        [blocker] = await blockers(store)
        cancelled, completed = await enqueue(store, a_job(after=(blocker,)), a_job(after=(blocker,)))
        await store.cancel([cancelled])
        await store.complete(completed, success("1"))

        await settle(store, await lease_one(store, "b"), FAIL)

        assert [await state(store, id_) for id_ in (cancelled, completed)] == [State.CANCELLED, State.SUCCEEDED]
        assert (await counts(store)).totals.failed == 0

    # Retries by an operator.

    async def test_a_dependent_retried_before_its_blocker_is_blocked_again(self, store: Store) -> None:
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))
        await settle(store, await lease_one(store, "b"), FAIL)

        assert await store.retry([dependent]) == [OK]
        job = await record(store, dependent)
        assert (job.state, job.blocked_by) == (State.BLOCKED, 1)
        await store.retry([blocker])
        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert (await lease_one(store)).job.results == ("42",)
        await assert_counters_equal_a_recount(store)

    async def test_a_dependent_retried_before_its_blocker_fails_again_with_it(self, store: Store) -> None:
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))
        for _ in range(2):
            await settle(store, await lease_one(store, "b"), FAIL)
            assert await state(store, dependent) is State.FAILED
            await store.retry([dependent, blocker])

    async def test_a_dependent_retried_after_its_blocker_has_succeeded_has_its_result(self, store: Store) -> None:
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))
        await settle(store, await lease_one(store, "b"), FAIL)
        await store.retry([blocker])
        await settle(store, await lease_one(store, "b"), SUCCEED)
        assert await state(store, dependent) is State.FAILED

        assert await store.retry([dependent]) == [OK]

        assert (await lease_one(store)).job.results == ("42",)

    async def test_a_dependent_whose_blocker_is_gone_cannot_be_retried(self, store: Store) -> None:
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))
        await settle(store, await lease_one(store, "b"), FAIL)
        await store.delete([blocker])

        [verdict] = await store.retry([dependent])

        assert verdict == refused(BlockerGone(blocker), state=State.FAILED)
        assert await state(store, dependent) is State.FAILED

    async def test_a_dependent_waits_for_a_blocker_that_was_enqueued_again_after_it_had_gone(
        self, store: Store
    ) -> None:
        blocker = a_job(queue="b")
        await store.enqueue([blocker])
        [dependent] = await enqueue(store, a_job(after=(blocker.id,)))
        await settle(store, await lease_one(store, "b"), FAIL)
        await store.delete([blocker.id])
        await store.enqueue([blocker])

        assert await store.retry([dependent]) == [OK]
        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert (await lease_one(store)).job.results == ("42",)

    async def test_what_a_job_was_given_survives_its_own_retries(self, store: Store) -> None:
        [blocker] = await blockers(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))
        await settle(store, await lease_one(store, "b"), SUCCEED)
        leased: Lease = await lease_one(store)
        await settle(store, leased, FAIL)

        await store.retry([dependent])

        assert (await lease_one(store)).job.results == ("42",)

    async def test_a_blocker_that_was_enqueued_again_closes_edges_of_dependents_that_have_ended(
        self, store: Store
    ) -> None:
        blocker = a_job(id="blocker", queue="b")
        await store.enqueue([blocker])
        [dependent] = await enqueue(store, a_job(after=("blocker",)))
        await settle(store, await lease_one(store, "b"), FAIL)
        await store.delete(["blocker"])
        await store.enqueue([blocker])
        await settle(store, await lease_one(store, "b"), SUCCEED)

        await store.retry([dependent])

        assert (await lease_one(store)).job.results == ("42",)

    async def test_a_parked_job_differs_from_one_that_waits_for_jobs(self, store: Store) -> None:
        [first, second] = await blockers(store, 2)
        [dependent, alone] = await enqueue(store, a_job(after=(first, second)), a_job())
        await settle(store, await lease_one(store), Park())
        await settle(store, await lease_one(store, "b"), success("1"))

        async def parked() -> set[str]:
            found = {each.id for each in (await store.search(Search(state=State.BLOCKED))).jobs if each.parked}
            assert found == {each for each in (dependent, alone) if (await record(store, each)).parked}
            return found

        assert await parked() == {alone}
        await settle(store, await lease_one(store, "b"), success("2"))
        await settle(store, await lease_one(store), Park())
        assert await parked() == {alone, dependent}
        await store.complete(dependent, Finish(State.SUCCEEDED, "3"))
        assert await parked() == {alone}

    # Reading edges.

    async def test_a_job_knows_what_it_was_told_to_wait_for(self, store: Store) -> None:
        one, two = await blockers(store, 2)
        [run_id] = await enqueue(store, a_job(queue="c"))
        [waits] = await enqueue(store, a_job(after=(two, run_id, one, two)))
        assert await store.edges(waits) == [EdgeInfo(each, open=True) for each in (two, run_id, one, two)]
        assert await store.edges(one) == await store.edges("never seen") == []

        await settle(store, await lease_one(store, "b"), SUCCEED)

        assert [(each.blocker, each.open) for each in await store.edges(waits)] == [
            (two, True),
            (run_id, True),
            (one, False),
            (two, True),
        ]
        await settle(store, await lease_one(store, "b"), SUCCEED)
        await settle(store, await lease_one(store, "c"), FAIL)
        assert await state(store, waits) is State.FAILED
        assert [(each.blocker, each.open) for each in await store.edges(waits)] == [
            (two, False),
            (run_id, True),
            (one, False),
            (two, False),
        ]

    @pytest.mark.parametrize("keep", [0.0, None])
    async def test_edges_are_known_after_the_blocker_has_gone(self, store: Store, keep: float | None) -> None:
        one, two = await enqueue(store, a_job(queue="b", keep=keep), a_job(queue="c"))
        [waits] = await enqueue(store, a_job(after=(one, two)))
        await settle(store, await lease_one(store, "b"), SUCCEED)
        if keep is None:
            await store.delete([one])

        assert await store.edges(waits) == [EdgeInfo(one, open=False), EdgeInfo(two, open=True)]

        await settle(store, await lease_one(store, "c"), SUCCEED)
        await settle(store, await lease_one(store), RETRY)
        await settle(store, await lease_one(store), SUCCEED)
        assert await store.edges(waits) == [EdgeInfo(one, open=False), EdgeInfo(two, open=False)]
        await store.delete([waits])
        assert await store.edges(waits) == []

    async def test_no_more_edges_are_given_than_were_asked_for(self, store: Store) -> None:
        ids = await blockers(store, 250)
        [waits] = await enqueue(store, a_job(after=tuple(ids)))

        assert [each.blocker for each in await store.edges(waits)] == ids[:200]
        assert [each.blocker for each in await store.edges(waits, 3)] == ids[:3]
