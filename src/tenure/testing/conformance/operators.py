"""Tests of operators' calls: cancel, complete, retry, trigger, release, delete, pause, resume, purge."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure.core.job import BlockerPolicy, Progress, State
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import RELEASE, Finish, Park, Requeue, Transition
from tenure.errors import HasDependents
from tenure.stores.base import Store
from tenure.stores.values import LEASE_LOST, NOT_FOUND, OK, Renewal, VerdictKind
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    a_suspect,
    a_worker,
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
    state,
    success,
)

__all__ = ["Operators"]

PLACES = ["in line", "scheduled", "blocked", "running", "parked", "retrying"]
every_place = pytest.mark.parametrize("place", PLACES)
ENDS = [State.SUCCEEDED, State.FAILED, State.BROKEN, State.CANCELLED]
every_end = pytest.mark.parametrize("end", ENDS)


async def a_job_that_is(place: str, store: Store) -> str:
    """A job in queue `q` that is not final: waiting, scheduled, blocked, parked or running."""
    match place:
        case "scheduled":
            [job_id] = await enqueue(store, a_job(delay=60.0))
        case "blocked":
            [blocker] = await enqueue(store, a_job(queue="blockers"))
            [job_id] = await enqueue(store, a_job(after=(blocker,)))
        case _:
            [job_id] = await enqueue(store)
    match place:
        case "running":
            await lease_one(store)
        case "parked":
            await settle(store, await lease_one(store), Park())
        case "retrying":
            await settle(store, await lease_one(store), RETRY)
    return job_id


async def an_ended_job(end: State, store: Store, **changes: Any) -> Lease:
    """The last lease of a job in queue `q` that has ended in this state."""
    await enqueue(store, a_job(**changes))
    leased = await lease_one(store)
    if end is State.CANCELLED:
        await store.cancel([leased.job.id])
    else:
        await settle(store, leased, Finish(end, "1" if end is State.SUCCEEDED else None, BOOM))
    assert await state(store, leased.job.id) is end
    return leased


class Operators:
    # Cancel.

    @every_place
    async def test_a_job_is_cancelled_wherever_it_is(
        self, store: Store, clock: ManualClock, place: str
    ) -> None:  # W18, T14
        job_id = await a_job_that_is(place, store)

        assert await store.cancel([job_id]) == [OK]

        job = await record(store, job_id)
        assert (job.state, job.ended_at, job.run_at, job.lease_left) == (State.CANCELLED, clock.wall(), None, None)
        clock.advance(3600)
        assert await lease(store) == []
        assert await store.reap(["q"]) == []
        assert ((await counts(store)).cancelled, (await counts(store)).totals.cancelled) == (1, 1)
        await assert_counters_equal_a_recount(store)

    @every_end
    async def test_a_final_job_is_not_cancelled(self, store: Store, end: State) -> None:  # I6
        leased = await an_ended_job(end, store)
        before = await record(store, leased.job.id), await store.queues()

        [verdict] = await store.cancel([leased.job.id])

        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, end)
        assert (await record(store, leased.job.id), await store.queues()) == before

    async def test_cancel_answers_for_each_id(self, store: Store) -> None:
        [job_id] = await enqueue(store)

        verdicts = await store.cancel([job_id, "missing", job_id])

        assert [verdict.kind for verdict in verdicts] == ["ok", "not_found", "refused"]
        assert await store.cancel([]) == []

    async def test_a_thousand_jobs_are_cancelled_in_one_call(self, store: Store) -> None:
        ids = await enqueue(store, *[a_job() for _ in range(1000)])

        assert await store.cancel(ids) == [OK] * 1000
        assert (await counts(store)).cancelled == 1000

    async def test_cancel_and_settle_never_both_win(self, store: Store, make_store: MakeStore) -> None:  # F8, I6
        await enqueue(store, *[a_job() for _ in range(20)])
        leases = await lease(store)
        other = make_store()

        answers = await asyncio.gather(
            *[other.cancel([each.job.id]) for each in leases], *[store.settle([(each, SUCCEED)]) for each in leases]
        )

        for leased, [cancelled], [settled] in zip(leases, answers[:20], answers[20:], strict=True):
            assert (cancelled == OK) != (settled == OK)
            expected = State.CANCELLED if cancelled == OK else State.SUCCEEDED
            assert await state(store, leased.job.id) is expected

    # Complete.

    @every_place
    async def test_a_job_is_completed_wherever_it_is(self, store: Store, clock: ManualClock, place: str) -> None:  # Q60
        job_id = await a_job_that_is(place, store)

        assert await store.complete(job_id, success('"by hand"')) == OK

        job = await record(store, job_id)
        assert (job.state, job.result, job.error) == (State.SUCCEEDED, '"by hand"', None)
        assert (job.ended_at, job.run_at, job.lease_left) == (clock.wall(), None, None)
        clock.advance(3600)
        assert await lease(store) == []
        assert await store.reap(["q"]) == []
        totals = (await counts(store)).totals
        assert (totals.succeeded, totals.processed) == (1, 1 if place == "retrying" else 0)
        await assert_counters_equal_a_recount(store)

    @every_end
    async def test_a_final_job_is_not_completed(self, store: Store, end: State) -> None:  # Q60
        leased = await an_ended_job(end, store)
        before = await record(store, leased.job.id)

        verdict = await store.complete(leased.job.id, success("2"))

        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, end)
        assert await record(store, leased.job.id) == before

    async def test_a_job_that_does_not_exist_is_not_completed(self, store: Store) -> None:
        assert await store.complete("missing", success("1")) == NOT_FOUND

    # Retry.

    @every_end
    async def test_a_final_job_is_put_at_the_back_as_if_it_were_new(
        self, store: Store, clock: ManualClock, end: State
    ) -> None:  # T7, I9, R50
        leased = await an_ended_job(end, store, max_losses=9)
        ended = await record(store, leased.job.id)
        [other] = await enqueue(store)
        clock.advance(1)

        assert await store.retry([leased.job.id]) == [OK]

        assert await line(store) == [other, leased.job.id]
        job = await record(store, leased.job.id)
        assert (job.attempt, job.losses, job.misses, job.fence) == (0, 0, 0, 1)
        assert (job.result, job.ended_at, job.progress, job.error) == (None, None, None, ended.error)
        assert (await counts(store)).totals.succeeded == (end is State.SUCCEEDED)
        await assert_counters_equal_a_recount(store)

    async def test_a_retried_job_is_no_suspect_any_more(self, store: Store, clock: ManualClock) -> None:
        suspect = await a_suspect(store, clock, max_losses=3)
        await lease_one(store, solo=True)
        clock.advance(30)
        await store.reap(["q"])

        await store.retry([suspect])

        [leased] = await lease(store)
        assert (leased.job.id, leased.job.losses, leased.job.attempt, leased.token.fence) == (suspect, 0, 1, 4)

    @every_place
    async def test_a_job_that_is_not_final_is_not_retried(self, store: Store, place: str) -> None:
        job_id = await a_job_that_is(place, store)
        before = await record(store, job_id), await store.queues()

        [verdict] = await store.retry([job_id])

        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, before[0].state)
        assert (await record(store, job_id), await store.queues()) == before

    async def test_retry_answers_for_each_id(self, store: Store) -> None:
        leased = await an_ended_job(State.FAILED, store)

        verdicts = await store.retry([leased.job.id, "missing", leased.job.id])

        assert [verdict.kind for verdict in verdicts] == ["ok", "not_found", "refused"]
        assert await store.retry([]) == []

    async def test_an_old_token_has_no_say_after_an_operators_retry(self, store: Store) -> None:  # I3, I5, I6
        stale = await an_ended_job(State.CANCELLED, store)
        await store.retry([stale.job.id])

        assert (await settle(store, stale, SUCCEED)).kind == "lease_lost"
        fresh = await lease_one(store)
        assert fresh.token.fence == stale.token.fence + 1
        assert (await settle(store, stale, SUCCEED)).kind == "lease_lost"
        assert await settle(store, fresh, SUCCEED) == OK

    async def test_a_job_that_had_expired_runs_after_a_retry(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store, a_job(expires=1.0))
        clock.advance(1)
        assert await lease(store) == []

        await store.retry([job_id])

        assert [leased.job.id for leased in await lease(store)] == [job_id]

    # Trigger.

    @pytest.mark.parametrize(
        "transition", [None, Requeue(60.0), Requeue(60.0, counts=False)], ids=["new", "retry", "later"]
    )
    async def test_a_scheduled_job_is_put_at_the_back_now(
        self, store: Store, transition: Requeue | None
    ) -> None:  # Q58
        [scheduled] = await enqueue(store, a_job(delay=0.0 if transition else 60.0))
        if transition:
            await settle(store, await lease_one(store), transition)
        attempt = (await record(store, scheduled)).attempt
        [other] = await enqueue(store)

        assert await store.trigger([scheduled]) == [OK]

        assert await line(store) == [other, scheduled]
        job = await record(store, scheduled)
        assert (job.run_at, job.attempt) == (None, attempt)
        await assert_counters_equal_a_recount(store)

    @pytest.mark.parametrize("place", [place for place in PLACES if place != "scheduled"])
    async def test_a_job_that_is_not_scheduled_is_not_triggered(self, store: Store, place: str) -> None:  # Q58
        job_id = await a_job_that_is(place, store)
        before = await record(store, job_id)

        [verdict] = await store.trigger([job_id])

        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, before.state)
        assert await record(store, job_id) == before

    async def test_trigger_answers_for_each_id(self, store: Store) -> None:
        ended = await an_ended_job(State.FAILED, store)
        [scheduled] = await enqueue(store, a_job(delay=9.0))

        verdicts = await store.trigger([ended.job.id, scheduled, "missing", scheduled])

        assert [verdict.kind for verdict in verdicts] == ["refused", "ok", "not_found", "refused"]

    # Release.

    async def test_a_running_job_is_released_to_its_place_as_if_it_had_not_been_leased(
        self, store: Store
    ) -> None:  # W14
        ids = await enqueue(store, *[a_job() for _ in range(3)])
        await store.register(a_worker("w"))
        first, second = await lease(store, limit=2, worker="w")
        await store.renew([Renewal(first, 30.0, Progress(1))])
        before = (await counts(store)).totals, (await store.workers())[0].totals

        assert await store.release([second.job.id, first.job.id]) == [OK, OK]

        assert await line(store) == ids
        job = await record(store, ids[0])
        assert (job.state, job.attempt, job.losses, job.fence, job.misses) == (State.WAITING, 0, 0, 1, 0)
        assert (job.error, job.attempts, job.progress, job.lease_left) == (None, (), None, None)
        assert ((await counts(store)).totals, (await store.workers())[0].totals) == before
        await assert_counters_equal_a_recount(store)

    async def test_a_release_keeps_what_earlier_attempts_have_left(self, store: Store, clock: ManualClock) -> None:
        suspect = await a_suspect(store, clock)
        before = await record(store, suspect)
        await lease_one(store, solo=True)

        assert await store.release([suspect]) == [OK]

        job = await record(store, suspect)
        assert (job.attempt, job.losses, job.error, job.attempts) == (
            before.attempt, before.losses, before.error, before.attempts,
        )  # fmt: skip
        assert (await ask(store)).suspect_waiting
        assert (await lease_one(store, solo=True)).job.id == suspect

    @pytest.mark.parametrize("transition", [SUCCEED, FAIL, RETRY, RELEASE], ids=["succeed", "fail", "retry", "release"])
    async def test_the_token_of_a_released_job_is_dead(self, store: Store, transition: Transition) -> None:  # W6, I5
        await enqueue(store)
        stale = await lease_one(store)
        await store.release([stale.job.id])
        before = await record(store, stale.job.id)

        assert await settle(store, stale, transition) == LEASE_LOST
        assert await store.renew([Renewal(stale, 30.0)]) == [AbortReason.TAKEN]
        assert await record(store, stale.job.id) == before

        again = await lease_one(store)
        assert again.token > stale.token
        assert await settle(store, stale, transition) == LEASE_LOST
        assert await store.renew([Renewal(stale, 30.0)]) == [AbortReason.TAKEN]
        assert await settle(store, again, SUCCEED) == OK
        assert (await record(store, stale.job.id)).attempt == 1

    @pytest.mark.parametrize("place", [*(place for place in PLACES if place != "running"), *ENDS])
    async def test_a_job_that_is_not_running_is_not_released(self, store: Store, place: str) -> None:
        if isinstance(place, State):
            job_id = (await an_ended_job(place, store)).job.id
        else:
            job_id = await a_job_that_is(place, store)
        before = await record(store, job_id), await store.queues()

        [verdict] = await store.release([job_id])

        assert (verdict.kind, verdict.state, verdict.reason) == (
            VerdictKind.REFUSED, before[0].state, "it is not running",
        )  # fmt: skip
        assert (await record(store, job_id), await store.queues()) == before

    async def test_release_answers_for_each_id(self, store: Store) -> None:
        await enqueue(store)
        held = await lease_one(store)

        verdicts = await store.release([held.job.id, "missing", held.job.id])

        assert [verdict.kind for verdict in verdicts] == ["ok", "not_found", "refused"]

    async def test_a_job_that_was_released_before_its_first_attempt_ended_still_expires(
        self, store: Store, clock: ManualClock
    ) -> None:
        [job_id] = await enqueue(store, a_job(expires=10.0))
        await lease_one(store)
        await store.release([job_id])

        clock.advance(10)

        assert await lease(store) == []
        assert await state(store, job_id) is State.CANCELLED

    @pytest.mark.parametrize("text", ["", "\0", "x'; --", "\u2603" * 300])
    async def test_any_text_may_be_asked_for(self, store: Store, text: str) -> None:
        assert await store.get([text]) == [None]
        assert await store.wait([text]) == {text: None}
        assert await store.complete(text, success("1")) == NOT_FOUND
        assert await store.delete([text]) == []
        for act in (store.cancel, store.retry, store.trigger, store.release):
            assert await act([text]) == [NOT_FOUND]

    # Delete.

    @pytest.mark.parametrize("place", [*PLACES, *ENDS])
    async def test_a_job_is_deleted_wherever_it_is(
        self, store: Store, clock: ManualClock, place: str
    ) -> None:  # Q61, G42
        if isinstance(place, State):
            job_id = (await an_ended_job(place, store)).job.id
        else:
            job_id = await a_job_that_is(place, store)
        before = (await counts(store)).totals

        assert await store.delete([job_id, "missing"]) == [job_id]

        assert await store.get([job_id]) == [None]
        clock.advance(3600)
        assert await lease(store) == []
        assert await store.reap(["q"]) == []
        assert (await counts(store)).totals == before
        assert await store.delete([job_id]) == []
        await assert_counters_equal_a_recount(store)

    async def test_delete_names_those_that_went_in_the_order_asked_for_and_each_once(self, store: Store) -> None:
        ids = await enqueue(store, *(a_job() for _ in range(20)))
        expected = ids[::-2] + ids[::2]

        assert await store.delete([*expected, "missing", *ids]) == expected

    async def test_a_job_that_another_waits_for_is_not_deleted(self, store: Store) -> None:  # Q61
        blocker, other = await enqueue(store, a_job(), a_job())
        [dependent] = await enqueue(store, a_job(after=(blocker,)))

        with pytest.raises(HasDependents) as raised:
            await store.delete([other, blocker])

        assert (raised.value.job_id, raised.value.dependents) == (blocker, (dependent,))
        assert await line(store) == [blocker, other]
        assert await state(store, dependent) is State.BLOCKED

    async def test_a_job_is_deleted_together_with_those_that_wait_for_it(self, store: Store) -> None:
        [blocker] = await enqueue(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))

        assert await store.delete([blocker, dependent]) == [blocker, dependent]
        await assert_counters_equal_a_recount(store)

    async def test_cascade_deletes_those_that_wait_and_those_that_wait_for_them(self, store: Store) -> None:  # Q61
        first, second, third, other = await enqueue(
            store, a_job(id="1"), a_job(id="2", after=("1",)), a_job(id="3", after=("2",)), a_job(id="4")
        )

        assert sorted(await store.delete([first], cascade=True)) == [first, second, third]

        assert await line(store) == [other]
        await assert_counters_equal_a_recount(store)

    async def test_a_dependent_may_be_deleted_and_its_blocker_goes_on(self, store: Store) -> None:
        [blocker] = await enqueue(store)
        [dependent] = await enqueue(store, a_job(after=(blocker,)))

        assert await store.delete([dependent]) == [dependent]

        assert await settle(store, await lease_one(store), SUCCEED) == OK
        assert await store.delete([blocker]) == [blocker]

    async def test_a_blocker_whose_dependents_have_ended_or_gone_on_may_be_deleted(self, store: Store) -> None:
        done, failed = await enqueue(store, a_job(queue="b"), a_job(queue="b"))
        freed, hit = await enqueue(store, a_job(after=(done,)), a_job(after=(failed,)))
        first, second = await lease(store, "b")
        await store.settle([(first, SUCCEED), (second, FAIL)])

        assert await store.delete([done, failed]) == [done, failed]

        assert (await record(store, freed)).results == ("42",)
        assert await state(store, hit) is State.FAILED

    # Pause and resume.

    async def test_pause_and_resume_say_whether_they_changed_anything(self, store: Store) -> None:
        assert await store.pause("new")
        assert not await store.pause("new")
        assert [(queue.name, queue.paused) for queue in await store.queues()] == [("new", True)]
        assert await store.resume("new")
        assert not await store.resume("new")
        assert not await store.resume("never seen")
        assert [(queue.name, queue.paused) for queue in await store.queues()] == [("new", False)]

    async def test_jobs_may_be_enqueued_to_a_paused_queue(self, store: Store) -> None:
        await store.pause("q")
        [job_id] = await enqueue(store)

        assert await line(store) == [job_id]
        assert (await counts(store)).waiting == 1

    # Purge.

    async def test_purge_removes_what_is_not_held(self, store: Store, clock: ManualClock) -> None:  # W33, R11
        suspect = await a_suspect(store, clock)
        ended = await an_ended_job(State.FAILED, store)
        running = await a_job_that_is("running", store)
        gone = [suspect] + [
            await a_job_that_is(place, store) for place in ("parked", "retrying", "blocked", "scheduled")
        ]
        await enqueue(store, a_job(queue="other"))

        assert await store.purge("q") == 5

        assert await store.get(gone) == [None] * 5
        assert await state(store, running) is State.RUNNING
        assert await state(store, ended.job.id) is State.FAILED
        assert (await counts(store, "other")).waiting == 1
        assert await store.purge("q") == 0
        assert await store.purge("never seen") == 0
        assert "never seen" not in {queue.name for queue in await store.queues()}
        await assert_counters_equal_a_recount(store)

    async def test_purge_is_bounded(self, store: Store) -> None:
        await enqueue(store, *[a_job() for _ in range(1005)])

        assert await store.purge("q", limit=3) == 3
        assert await store.purge("q") == 1000
        assert await store.purge("q") == 2
        assert [queue.name for queue in await store.queues()] == ["q"]

    async def test_purge_takes_dependents_before_what_they_wait_for(self, store: Store) -> None:
        await enqueue(store, a_job(id="1"), a_job(id="2", after=("1",)), a_job(id="3", after=("2",)))

        left = []
        while await store.purge("q", limit=1):
            left.append([job and job.state for job in await store.get(["1", "2", "3"])])

        assert left == [[State.WAITING, State.BLOCKED, None], [State.WAITING, None, None], [None, None, None]]

    async def test_dependents_of_purged_jobs_see_a_failed_blocker(self, store: Store) -> None:
        [blocker] = await enqueue(store)
        failing, waiting, proceeding = await enqueue(
            store,
            *[
                a_job(queue="other", after=(blocker,), if_blocker_fails=policy)
                for policy in (BlockerPolicy.FAIL, BlockerPolicy.WAIT, BlockerPolicy.PROCEED)
            ],
        )

        assert await store.purge("q") == 1

        for hit in (failing, waiting):
            job = await record(store, hit)
            assert (job.state, job.error and job.error.type) == (State.FAILED, "BlockerFailed")
        assert await line(store, "other") == [proceeding]
        await assert_counters_equal_a_recount(store)

    async def test_purge_takes_dependents_first_whatever_their_priority(self, store: Store) -> None:
        await enqueue(
            store,
            a_job(id="1", priority=1),
            a_job(id="2", priority=9, after=("1",)),
            a_job(id="3", priority=-9, after=("2",)),
            a_job(id="4", priority=5, after=("3",)),
        )
        left = []
        while await store.purge("q", limit=1):
            left.append([job.id for job in await everything(store)])

        assert left == [["3", "2", "1"], ["2", "1"], ["1"], []]
