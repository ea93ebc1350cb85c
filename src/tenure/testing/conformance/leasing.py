"""Tests of lease: which request gets which jobs, in which order, under which token."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.job import JobRecord, State
from tenure.core.lease import Token, new_nonce
from tenure.core.lifecycle import Requeue
from tenure.stores.base import BATCH, LOOK_AHEAD, Store
from tenure.stores.values import LeaseRequest, Renewal
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    RELEASE,
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    a_suspect,
    ask,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    lease,
    lease_one,
    line,
    lose,
    record,
    settle,
)

__all__ = ["Leasing"]


class Leasing:
    async def test_a_leased_job_runs_and_its_attempt_is_counted_already(self, store: Store, clock: ManualClock) -> None:
        # G11, Q16, I7; a job that kills its worker must still run out of attempts
        [job_id] = await enqueue(store)

        leased = await lease_one(store, worker="w1", ttl=30.0, nonce=99)

        assert leased.token == Token(1, 99)
        assert (leased.ttl, leased.solo) == (30.0, False)
        for job in (leased.job, await record(store, job_id)):
            assert (job.state, job.attempt, job.fence) == (State.RUNNING, 1, 1)
            assert (job.worker, job.started_at, job.lease_left) == ("w1", clock.wall(), 30.0)
        clock.advance(31)
        assert (await record(store, job_id)).lease_left == -1.0

    async def test_a_lease_carries_all_that_is_needed_to_run_the_job(self, store: Store) -> None:
        [first] = await enqueue(store, a_job(queue="other"))
        await settle(store, await lease_one(store, "other"), SUCCEED)
        new = a_job(payload=b"[1]", after=(first,), max_attempts=4, max_losses=9, lease=7.0, tags=("x",))
        await store.enqueue([new])

        job = (await lease_one(store)).job

        assert (job.id, job.task, job.queue, job.payload) == (new.id, "t", "q", b"[1]")
        assert (job.max_attempts, job.max_losses, job.lease, job.tags) == (4, 9, 7.0, ("x",))
        assert job.results == ("42",)

    async def test_nothing_in_line_leases_nothing_and_leaves_no_trace(self, store: Store) -> None:
        # H: a phantom entry written by an idle pop; W13
        leased = await ask(store, "q", "other", limit=10)

        assert (leased.leases, leased.suspect_waiting, leased.due_in) == ([], False, None)
        assert await store.queues() == []

    async def test_no_job_is_handed_out_twice(self, store: Store, make_store: MakeStore) -> None:  # W5, I4
        ids = await enqueue(store, *[a_job() for _ in range(30)])
        other = make_store()

        answers = await asyncio.gather(*[lease(each, limit=2) for each in (store, other) * 10])

        leased = [each.job.id for answer in answers for each in answer]
        assert sorted(leased) == sorted(ids)

    async def test_first_in_first_out(self, store: Store, clock: ManualClock) -> None:  # G13, R8, I8
        ids = []
        for _ in range(5):
            ids += await enqueue(store)
            clock.advance(1)

        assert [(await lease_one(store)).job.id for _ in ids] == ids

    async def test_order_is_that_of_arrival_and_not_that_of_ids(self, store: Store) -> None:
        ids = await enqueue(store, a_job(id="zz"), a_job(id="mm"), a_job(id="aa"))

        assert [leased.job.id for leased in await lease(store)] == ids

    async def test_a_lower_priority_number_comes_first(self, store: Store) -> None:  # T17
        low, normal, high, normal2 = await enqueue(
            store, a_job(priority=5), a_job(), a_job(priority=-1), a_job(priority=0)
        )

        assert [leased.job.id for leased in await lease(store)] == [high, normal, normal2, low]

    async def test_the_first_queue_is_served_first_whatever_the_priorities(self, store: Store) -> None:  # R28, T17
        urgent, second, first = await enqueue(
            store, a_job(queue="b", priority=-9), a_job(queue="b"), a_job(queue="a", priority=9)
        )

        assert [leased.job.id for leased in await lease(store, "a", "b")] == [first, urgent, second]

    async def test_only_the_queues_that_were_asked_for_are_served(self, store: Store) -> None:
        await enqueue(store, a_job(queue="other"))

        assert await lease(store, "q", "oth", "OTHER") == []

    async def test_a_queue_asked_for_twice_is_one_queue(self, store: Store) -> None:
        ids = await enqueue(store, a_job(), a_job())

        assert [leased.job.id for leased in await lease(store, "q", "q")] == ids

    async def test_a_limit_is_kept_over_all_queues(self, store: Store) -> None:
        await enqueue(store, *[a_job(queue=queue) for queue in "aabb"])

        assert len(await lease(store, "a", "b", limit=3)) == 3
        assert len(await lease(store, "a", "b", limit=3)) == 1

    async def test_a_limit_of_none_leases_none(self, store: Store) -> None:
        await enqueue(store)

        assert (await ask(store, limit=0)).leases == []
        assert (await counts(store)).waiting == 1

    async def test_a_job_says_itself_how_long_it_is_held(self, store: Store) -> None:
        await enqueue(store, a_job(lease=5.0), a_job())

        own, default = await lease(store, ttl=60.0)

        assert (own.ttl, own.job.lease_left) == (5.0, 5.0)
        assert (default.ttl, default.job.lease_left) == (60.0, 60.0)

    async def test_tokens_of_a_job_grow_over_its_whole_life(self, store: Store, clock: ManualClock) -> None:  # I3
        await enqueue(store, a_job(max_losses=0))
        tokens: list[Token] = []
        for transition in (RELEASE, RETRY, Requeue(counts=False), None, FAIL, SUCCEED):
            leased = await lease_one(store, solo=True)
            tokens.append(leased.token)
            if transition is None:
                await lose(store, clock, leased)
            else:
                await settle(store, leased, transition)
            if transition is FAIL:
                await store.retry([leased.job.id])

        assert [token.fence for token in tokens] == [1, 2, 3, 4, 5, 6]
        assert len({token.nonce for token in tokens}) == 6

    @pytest.mark.parametrize("nonce", [0, 1, 2**63 - 1])
    async def test_a_token_holds_whatever_nonce_was_drawn(self, store: Store, nonce: int) -> None:
        await enqueue(store)

        leased = await lease_one(store, nonce=nonce)

        assert leased.token == Token(1, nonce)
        assert (await settle(store, leased, SUCCEED)).kind == "ok"

    @pytest.mark.parametrize(
        ("transition", "attempt"),
        [(RELEASE, 1), (RETRY, 2), (Requeue(counts=False), 1), (Requeue(counts=False, missed=True), 1)],
    )
    async def test_attempts_are_leases_less_those_given_back(
        self, store: Store, transition: Requeue, attempt: int
    ) -> None:
        # I7, T5
        await enqueue(store)
        await settle(store, await lease_one(store), transition)

        assert (await lease_one(store)).job.attempt == attempt

    # Scheduled jobs.

    async def test_due_jobs_join_the_back_in_the_order_of_their_times(self, store: Store, clock: ManualClock) -> None:
        # I9, I10: after those in line, whenever they were enqueued
        late, early, also_early = await enqueue(store, a_job(delay=20.0), a_job(delay=10.0), a_job(delay=10.0))
        clock.advance(15)
        [waiting] = await enqueue(store)
        clock.advance(15)

        assert [leased.job.id for leased in await lease(store)] == [waiting, early, also_early, late]

    async def test_a_priority_counts_among_the_due_as_well(self, store: Store, clock: ManualClock) -> None:
        normal, high = await enqueue(store, a_job(delay=1.0), a_job(delay=9.0, priority=-1))
        clock.advance(10)

        assert [leased.job.id for leased in await lease(store)] == [high, normal]

    async def test_a_job_that_came_due_keeps_its_place_once_promoted(self, store: Store, clock: ManualClock) -> None:
        first, delayed = await enqueue(store, a_job(), a_job(delay=1.0))
        clock.advance(2)
        assert (await lease_one(store)).job.id == first  # this lease promotes the other
        [later] = await enqueue(store)

        assert await line(store) == [delayed, later]
        assert (await record(store, delayed)).run_at is None

    async def test_at_most_a_batch_of_due_jobs_is_promoted_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:  # F24
        await enqueue(store, *[a_job(delay=1.0) for _ in range(BATCH + 5)])
        clock.advance(1)

        await ask(store, limit=0)

        assert ((await counts(store)).waiting, (await counts(store)).scheduled) == (BATCH, 5)
        assert len(await lease(store, limit=BATCH + 5)) == BATCH + 5

    async def test_an_empty_answer_says_when_the_next_job_is_due(self, store: Store, clock: ManualClock) -> None:  # Q10
        await enqueue(store, a_job(delay=20.0), a_job(queue="other", delay=5.0), a_job(queue="third", delay=1.0))

        assert (await ask(store, "q")).due_in == 20.0
        assert (await ask(store, "q", "other")).due_in == 5.0
        clock.advance(2)
        assert (await ask(store, "other")).due_in == 3.0
        assert (await ask(store, "unknown")).due_in is None
        assert (await ask(store, "third")).leases

    # Expiry.

    async def test_a_job_that_has_expired_is_cancelled_and_never_handed_out(
        self, store: Store, clock: ManualClock
    ) -> None:
        expired, fresh = await enqueue(store, a_job(expires=10.0), a_job(expires=11.0))
        clock.advance(10)

        assert [leased.job.id for leased in await lease(store)] == [fresh]
        job = await record(store, expired)
        assert (job.state, job.ended_at, job.attempt) == (State.CANCELLED, clock.wall(), 0)
        assert (await counts(store)).totals.cancelled == 1
        await assert_counters_equal_a_recount(store)

    async def test_scheduled_and_blocked_jobs_expire_too(self, store: Store, clock: ManualClock) -> None:
        [blocker] = await enqueue(store, a_job(queue="other"))
        ids = await enqueue(store, a_job(delay=99.0, expires=1.0), a_job(after=(blocker,), expires=1.0))
        clock.advance(1)

        assert await lease(store) == []
        assert [(await record(store, id_)).state for id_ in ids] == [State.CANCELLED] * 2

    async def test_a_job_that_has_started_does_not_expire(self, store: Store, clock: ManualClock) -> None:
        retried, reaped, held = await enqueue(store, *[a_job(expires=10.0, lease=100.0) for _ in range(3)])
        leases = {each.job.id: each for each in await lease(store)}
        await settle(store, leases[retried], RETRY)
        clock.advance(100)
        await store.renew([])
        await store.reap(["q"])

        again = [leased.job.id for leased in await lease(store)]

        assert sorted(again) == sorted([retried, reaped, held])

    async def test_a_job_that_was_released_without_a_start_still_expires(
        self, store: Store, clock: ManualClock
    ) -> None:
        [job_id] = await enqueue(store, a_job(expires=10.0))
        await settle(store, await lease_one(store), RELEASE)
        clock.advance(10)

        assert await lease(store) == []
        assert (await record(store, job_id)).state is State.CANCELLED

    async def test_only_the_queues_asked_for_are_rid_of_the_expired(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store, a_job(expires=1.0))
        clock.advance(1)

        await lease(store, "other")

        assert (await record(store, job_id)).state is State.WAITING

    async def test_more_expired_jobs_than_a_batch_are_not_handed_out_either(
        self, store: Store, clock: ManualClock
    ) -> None:
        await enqueue(store, *[a_job(expires=1.0) for _ in range(BATCH + 5)])
        clock.advance(1)

        assert await lease(store) == []
        assert await lease(store) == []
        assert (await counts(store)).cancelled == BATCH + 5

    # Pauses.

    async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(self, store: Store, clock: ManualClock) -> None:
        # R43
        due, scheduled = await enqueue(store, a_job(), a_job(delay=1.0))
        [other] = await enqueue(store, a_job(queue="other"))

        assert await store.pause("q")
        clock.advance(2)
        assert [leased.job.id for leased in await lease(store, "q", "other")] == [other]
        empty = await ask(store)
        assert (empty.due_in, empty.suspect_waiting) == (None, False)
        assert await store.resume("q")

        assert [leased.job.id for leased in await lease(store)] == [due, scheduled]

    async def test_what_runs_in_a_paused_queue_is_settled_renewed_and_reaped(
        self, store: Store, clock: ManualClock
    ) -> None:
        ids = await enqueue(store, a_job(), a_job())
        first, second = await lease(store)
        await store.pause("q")

        assert (await settle(store, first, SUCCEED)).kind == "ok"
        await lose(store, clock, second)

        assert await line(store) == [ids[1]]
        assert await lease(store) == []

    # Suspects.

    async def test_a_suspect_is_handed_out_only_alone(self, store: Store, clock: ManualClock) -> None:  # F6
        suspect = await a_suspect(store, clock)
        neighbours = await enqueue(store, a_job(), a_job())

        shared = await ask(store, limit=10)
        assert [leased.job.id for leased in shared.leases] == neighbours
        assert shared.suspect_waiting
        alone = await ask(store, limit=10, solo=True)

        assert [(leased.job.id, leased.solo) for leased in alone.leases] == [(suspect, True)]
        assert not alone.suspect_waiting

    async def test_a_suspect_comes_before_the_others_of_its_queue(self, store: Store, clock: ManualClock) -> None:
        suspect = await a_suspect(store, clock, priority=5)
        await enqueue(store, a_job(priority=-5))

        assert [leased.job.id for leased in await lease(store, solo=True)] == [suspect]

    async def test_suspects_go_one_by_one_in_the_order_of_their_place(self, store: Store, clock: ManualClock) -> None:
        ids = await enqueue(store, *[a_job(max_losses=0) for _ in range(3)])
        for _ in range(2):
            await lease(store)
            clock.advance(30)
            await store.reap(["q"])

        assert [[leased.job.id for leased in await lease(store, solo=True)] for _ in ids] == [[id_] for id_ in ids]

    async def test_a_suspect_is_not_kept_waiting_by_the_queues_before_its_own(
        self, store: Store, clock: ManualClock
    ) -> None:
        suspect = await a_suspect(store, clock)
        [first] = await enqueue(store, a_job(queue="first", priority=-5))

        assert [leased.job.id for leased in await lease(store, "first", "q", solo=True)] == [suspect]
        assert [leased.job.id for leased in await lease(store, "first", "q", solo=True)] == [first]

    async def test_of_suspects_in_several_queues_that_of_the_first_queue_goes_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        second = await a_suspect(store, clock, queue="b", priority=-5)
        first = await a_suspect(store, clock, queue="a")

        taken = [await lease(store, "a", "b", limit=5, solo=True) for _ in range(2)]

        assert [[leased.job.id for leased in each] for each in taken] == [[first], [second]]

    async def test_a_worker_that_isolates_the_task_gets_its_suspect_while_it_holds_other_jobs(
        self, store: Store, clock: ManualClock
    ) -> None:  # F6
        suspect = await a_suspect(store, clock, task="apart")
        neighbours = await enqueue(store, a_job(), a_job(task="apart"))

        nothing = await ask(store, limit=0, isolated=("apart",))
        alone = await ask(store, limit=10, isolated=("other", "apart"))
        shared = await ask(store, limit=10, isolated=("other", "apart"))

        assert (nothing.leases, nothing.suspect_waiting) == ([], False)
        assert [(leased.job.id, leased.solo) for leased in alone.leases] == [(suspect, True)]
        assert [(leased.job.id, leased.solo) for leased in shared.leases] == [(id_, False) for id_ in neighbours]
        assert not alone.suspect_waiting
        assert not shared.suspect_waiting

    async def test_a_suspect_of_another_task_still_waits_for_a_worker_that_holds_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        suspect = await a_suspect(store, clock)
        [neighbour] = await enqueue(store)

        shared = await ask(store, limit=10, isolated=("apart", "more"))
        alone = await ask(store, limit=10, isolated=("apart", "more"), solo=True)

        assert ([leased.job.id for leased in shared.leases], shared.suspect_waiting) == ([neighbour], True)
        assert ([leased.job.id for leased in alone.leases], alone.suspect_waiting) == ([suspect], False)

    async def test_suspects_that_may_be_had_are_found_behind_those_that_may_not(
        self, store: Store, clock: ManualClock
    ) -> None:
        apart = await a_suspect(store, clock, queue="b", task="apart")
        held = await a_suspect(store, clock, queue="a")
        later, sooner = [await a_suspect(store, clock, queue="a", task="apart", priority=each) for each in (2, 1)]

        answers = [await ask(store, "a", "b", limit=5, isolated=("apart",)) for _ in range(4)]

        assert [[leased.job.id for leased in each.leases] for each in answers] == [[sooner], [later], [apart], []]
        assert all(each.suspect_waiting for each in answers)
        assert (await lease_one(store, "a", "b", solo=True)).job.id == held

    async def test_a_solo_request_without_suspects_is_like_any_other(self, store: Store) -> None:
        ids = await enqueue(store, a_job(), a_job())

        leases = await lease(store, solo=True)

        assert [leased.job.id for leased in leases] == ids
        assert not any(leased.solo for leased in leases)

    async def test_one_loss_makes_no_suspect(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store)
        await lose(store, clock, await lease_one(store))

        leased = await ask(store, limit=10)

        assert [(each.job.id, each.solo) for each in leased.leases] == [(job_id, False)]
        assert not leased.suspect_waiting

    async def test_a_suspect_in_a_queue_that_was_not_asked_for_is_not_reported(
        self, store: Store, clock: ManualClock
    ) -> None:
        await a_suspect(store, clock)

        assert not (await ask(store, "other")).suspect_waiting

    # Skipped tasks.

    async def test_jobs_of_skipped_tasks_are_passed_over_and_keep_their_places(self, store: Store) -> None:  # Q12
        theirs, mine, urgent, last = await enqueue(
            store, a_job(task="theirs"), a_job(), a_job(task="theirs", priority=-1), a_job()
        )

        leases = await lease(store, limit=10, skip_tasks=("theirs", "others"))

        assert [leased.job.id for leased in leases] == [mine, last]
        assert await line(store) == [urgent, theirs]
        await settle(store, leases[0], RELEASE)
        assert await line(store) == [urgent, theirs, mine]
        assert [leased.job.id for leased in await lease(store)] == [urgent, theirs, mine]
        await assert_counters_equal_a_recount(store)

    async def test_what_is_passed_over_does_not_count_for_the_limit(self, store: Store) -> None:
        await enqueue(store, a_job(task="theirs"), a_job(queue="b", task="theirs"))
        first, second, third = await enqueue(store, a_job(), a_job(), a_job(queue="b"))

        taken = [await lease(store, "q", "b", limit=2, skip_tasks=("theirs",)) for _ in range(2)]

        assert [[leased.job.id for leased in each] for each in taken] == [[first, second], [third]]

    async def test_an_empty_answer_names_the_tasks_that_were_passed_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        suspect = await a_suspect(store, clock, task="suspicious", queue="b")
        await enqueue(store, a_job(task="theirs", queue="a"), a_job(task="late", queue="a", delay=9.0))
        skipped = ("late", "suspicious", "absent", "theirs")

        for alone in ({}, {"solo": True}, {"isolated": ("suspicious",)}):
            nothing = await ask(store, "a", "b", limit=5, skip_tasks=skipped, **alone)
            assert (nothing.leases, nothing.suspect_waiting, nothing.due_in) == ([], False, 9.0)
            assert nothing.passed_over == ("suspicious", "theirs")
        await store.pause("a")
        assert (await ask(store, "a", "b", skip_tasks=skipped)).passed_over == ("suspicious",)
        await enqueue(store, a_job(queue="b"))
        something = await ask(store, "a", "b", skip_tasks=skipped)
        assert (len(something.leases), something.passed_over) == (1, ())
        assert (await ask(store, "b", solo=True)).leases[0].job.id == suspect

    async def test_a_suspect_of_a_skipped_task_does_not_stand_before_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        theirs = await a_suspect(store, clock, queue="a", task="theirs")
        mine = await a_suspect(store, clock, queue="b")
        later = await a_suspect(store, clock, queue="a", priority=5)
        [neighbour] = await enqueue(store, a_job(queue="a"))

        shared = await ask(store, "a", "b", limit=5, skip_tasks=("theirs",))
        alone = [await lease(store, "a", "b", limit=5, solo=True, skip_tasks=("theirs",)) for _ in range(3)]

        assert ([leased.job.id for leased in shared.leases], shared.suspect_waiting) == ([neighbour], True)
        assert [[leased.job.id for leased in each] for each in alone] == [[later], [mine], []]
        assert [(each.job.id, each.solo) for each in await lease(store, "a", solo=True)] == [(theirs, True)]

    async def test_a_lease_looks_for_other_tasks_only_so_far_ahead(self, store: Store) -> None:
        theirs = [a_job(task="theirs") for _ in range(LOOK_AHEAD)]
        *_, mine = await enqueue(store, *theirs, a_job())

        nothing = await ask(store, limit=5, skip_tasks=("theirs",))
        await store.cancel([theirs[500].id])
        leases = await lease(store, limit=5, skip_tasks=("theirs",))

        assert (nothing.leases, nothing.passed_over) == ([], ("theirs",))
        assert [leased.job.id for leased in leases] == [mine]

    async def test_expired_and_due_jobs_are_seen_to_before_any_is_passed_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        expired, due, mine = await enqueue(
            store, a_job(task="theirs", expires=5.0), a_job(task="theirs", delay=5.0), a_job(delay=5.0)
        )
        clock.advance(5)

        leases = await lease(store, skip_tasks=("theirs",))

        assert [leased.job.id for leased in leases] == [mine]
        assert (await record(store, expired)).state is State.CANCELLED
        assert await line(store) == [due]

    async def test_settle_and_lease_passes_over_too(self, store: Store) -> None:
        theirs, mine = await enqueue(store, a_job(task="theirs"), a_job())
        held = await lease_one(store, skip_tasks=("theirs",))
        assert held.job.id == mine

        _, leased = await store.settle_and_lease(
            [(held, RELEASE)],
            LeaseRequest(queues=("q",), limit=5, worker="w", ttl=9.0, nonce=new_nonce(), skip_tasks=("theirs",)),
        )

        assert [each.job.id for each in leased.leases] == [mine]
        assert await line(store) == [theirs]

    # Length of leases.

    async def test_no_lease_is_longer_than_its_request_says(self, store: Store, clock: ManualClock) -> None:
        ids = await enqueue(store, a_job(), a_job(lease=40.0), a_job(lease=7.0), a_job(keep=9.0))

        leases = await lease(store, ttl=30.0, at_most=10.0)

        assert [(leased.job.id, leased.ttl) for leased in leases] == list(
            zip(ids, [10.0, 10.0, 7.0, 10.0], strict=True)
        )
        assert [leased.job.lease_left for leased in leases] == [10.0, 10.0, 7.0, 10.0]
        assert [leased.job.lease for leased in leases] == [None, 40.0, 7.0, None]
        clock.advance(7)
        assert [reaped.id for reaped in await store.reap(["q"])] == [ids[2]]
        assert await store.renew([Renewal(leases[1], 40.0)]) == [None]
        clock.advance(3)
        assert {reaped.id for reaped in await store.reap(["q"])} == {ids[0], ids[3]}

    # Settle and lease.

    async def test_settle_and_lease_is_one_operation(self, store: Store) -> None:
        first, second = await enqueue(store, a_job(), a_job())
        held = await lease_one(store)

        verdicts, leased = await store.settle_and_lease(
            [(held, SUCCEED), (held, RETRY)],
            LeaseRequest(queues=("q",), limit=5, worker="w", ttl=9.0, nonce=new_nonce()),
        )

        assert [verdict.kind for verdict in verdicts] == ["ok", "ok"]
        assert [(each.job.id, each.ttl) for each in leased.leases] == [(second, 9.0)]
        assert (await record(store, first)).state is State.SUCCEEDED

    async def test_settle_and_lease_may_hand_the_settled_job_out_again(self, store: Store) -> None:
        await enqueue(store)
        held = await lease_one(store)

        _, leased = await store.settle_and_lease(
            [(held, RETRY)], LeaseRequest(queues=("q",), limit=5, worker="w", ttl=9.0, nonce=new_nonce())
        )

        again: list[JobRecord] = [each.job for each in leased.leases]
        assert [(job.id, job.attempt, job.fence) for job in again] == [(held.job.id, 2, 2)]

    async def test_the_leases_of_a_request_whose_answer_was_lost_are_listed(self, store: Store) -> None:
        # I1, F16: so that the worker can release it before it counts as lost
        first, own, other = await enqueue(store, a_job(payload=b"[1]"), a_job(id="own name", lease=7.0), a_job())
        request = LeaseRequest(queues=("q",), limit=2, worker="w1", ttl=30.0, nonce=99)
        answer = await store.lease(request)
        await lease_one(store)

        held = sorted(await store.leases_of(request), key=lambda lease: lease.job.seq)

        assert [(each.job.id, each.token, each.ttl) for each in held] == [
            (first, Token(1, 99), 30.0),
            (own, Token(1, 99), 7.0),
        ]
        assert [each.job.worker for each in held] == ["w1", "w1"]
        assert held[0].job.payload == b"[1]"
        assert {each.token for each in held} == {each.token for each in answer.leases}
        verdicts = await store.settle([(each, RELEASE) for each in held])
        assert [verdict.kind for verdict in verdicts] == ["ok", "ok"]
        assert await line(store) == [first, own]
        assert [(await record(store, each)).attempt for each in (first, own)] == [0, 0]
        assert (await record(store, other)).state is State.RUNNING
        await assert_counters_equal_a_recount(store)

    async def test_what_has_ended_or_was_taken_is_held_no_more(self, store: Store, clock: ManualClock) -> None:
        settled, lost, renewed, gone = await enqueue(store, *[a_job() for _ in range(4)])
        request = LeaseRequest(queues=("q",), limit=4, worker="w1", ttl=30.0, nonce=99)
        leases = {each.job.id: each for each in (await store.lease(request)).leases}
        await settle(store, leases[settled], SUCCEED)
        await store.cancel([gone])
        await store.renew([Renewal(leases[renewed], 60.0)])
        clock.advance(31)
        assert [each.id for each in await store.reap(["q"])] == [lost]
        await lease_one(store)  # the lost one, under another nonce

        assert [each.job.id for each in await store.leases_of(request)] == [renewed]
        assert await store.leases_of(LeaseRequest(queues=("q",), limit=1, worker="w1", ttl=30.0, nonce=98)) == []
