"""Tests of steps that hand over: attributes, fan-out and fan-in, completion from outside, parking."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.job import BlockerPolicy, State, Writes
from tenure.core.lifecycle import Park
from tenure.stores.base import Store
from tenure.stores.values import (
    NOT_FOUND,
    OK,
    AnnouncementKind,
    AttributeMissing,
    BlockerGone,
    Change,
    Consequence,
    VerdictKind,
    refused,
)
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import (
    a_run,
    a_start,
    a_successor,
    hand_over,
    handing_over,
    run_record,
    start,
    steps,
)
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    LONG,
    RELEASE,
    RETRY,
    a_job,
    a_worker,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    lease,
    lease_one,
    line,
    listening,
    lose,
    record,
    settle,
    state,
    success,
)

__all__ = ["HandingOver"]


class HandingOver:
    async def test_a_step_succeeds_and_its_successor_is_created_atomically(self, store: Store) -> None:  # I13, G28, Q42
        run_id = await start(store)
        await enqueue(store)
        leased = await lease_one(store)
        successor = a_successor(run_id)

        assert await settle(store, leased, handing_over(successor)) == OK

        first = await record(store, run_id)
        assert (first.state, first.successor) == (State.SUCCEEDED, successor.id)
        run = await run_record(store, run_id)
        assert (run.step.id, run.step.state, run.step.attempt, run.completed_queue) == (
            successor.id, State.WAITING, 0, "q",
        )  # fmt: skip
        assert (await line(store))[-1] == successor.id  # at the back
        await assert_counters_equal_a_recount(store)

    async def test_the_successor_goes_to_the_back_of_its_own_queue(self, store: Store) -> None:  # G28, G22
        run_id = await start(store)
        [other] = await enqueue(store, a_job(queue="r"))

        successor = await hand_over(store, await lease_one(store), queue="r")

        assert await line(store, "r") == [other, successor]
        assert (await run_record(store, run_id)).step.queue == "r"

    async def test_the_steps_of_a_run_are_listed_as_they_came(self, store: Store) -> None:  # Q63
        run_id = await start(store)
        ids = [run_id, *[await hand_over(store, await lease_one(store)) for _ in range(4)]]

        assert [step.id for step in await steps(store, run_id)] == ids
        page = await store.steps(run_id, limit=2)
        assert [step.id for step in page.jobs] == ids[:2]
        page = await store.steps(run_id, limit=2, cursor=page.cursor)
        assert [step.id for step in page.jobs] == ids[2:4]
        page = await store.steps(run_id, limit=2, cursor=page.cursor)
        assert ([step.id for step in page.jobs], page.cursor) == (ids[4:], None)
        assert (await store.steps("missing")).jobs == []

    async def test_the_same_hand_over_again_is_ok_and_makes_no_second_step(self, store: Store) -> None:  # I6, I13, Q46
        run_id = await start(store)
        leased = await lease_one(store)
        transition = handing_over(a_successor(run_id), {"a": "1"})
        assert await settle(store, leased, transition) == OK

        assert await settle(store, leased, transition) == OK

        assert len(await steps(store, run_id)) == 2

    async def test_a_stale_holder_cannot_hand_over(self, store: Store, clock: ManualClock) -> None:  # I5, I13
        run_id = await start(store)
        stale = await lease_one(store)
        await lose(store, clock, stale)
        current = await lease_one(store)

        verdict = await settle(store, stale, handing_over(a_successor(run_id), {"a": "1"}))

        assert verdict.kind is VerdictKind.LEASE_LOST
        assert [step.id for step in await steps(store, run_id)] == [run_id]
        assert await store.attributes(run_id) == {}
        assert await settle(store, current, success()) == OK

    async def test_many_runs_hand_over_in_one_call(self, store: Store) -> None:
        ids = await enqueue(store, *(a_start({"n": str(n)}, reads=("n",)) for n in range(50)))
        plain = await enqueue(store, *(a_job() for _ in range(5)))
        held = await lease(store)
        settlements = [
            (one, handing_over(a_successor(one.job.id, reads=("m",)), {"m": one.job.attributes["n"]}))
            if one.job.attributes is not None
            else (one, success())
            for one in held
        ]

        assert await store.settle(settlements) == [OK] * 55

        assert [await state(store, id_) for id_ in plain] == [State.SUCCEEDED] * 5
        second = await lease(store)
        assert [one.job.run_id for one in second] == ids
        assert [one.job.attributes for one in second] == [{"m": str(n)} for n in range(50)]
        await assert_counters_equal_a_recount(store)

    async def test_settle_and_lease_gives_the_very_successor(self, store: Store) -> None:
        from tenure.core.lease import new_nonce
        from tenure.stores.values import LeaseRequest

        run_id = await start(store)
        leased = await lease_one(store)
        successor = a_successor(run_id, reads=("a",), needs=("a",))
        request = LeaseRequest(queues=("q",), limit=5, worker="w", ttl=30.0, nonce=new_nonce())

        verdicts, answer = await store.settle_and_lease([(leased, handing_over(successor, {"a": "[1]"}))], request)

        assert verdicts == [OK]
        assert [(one.job.id, one.job.attributes) for one in answer.leases] == [(successor.id, {"a": "[1]"})]

    async def test_a_run_ends_with_a_step_that_has_no_successor(self, store: Store) -> None:  # Q41
        run_id, second = await a_run(store)

        assert await settle(store, await lease_one(store), success('"end"', writes=Writes({"z": "9"}))) == OK

        run = await run_record(store, run_id)
        assert (run.step.id, run.step.state, run.step.result) == (second, State.SUCCEEDED, '"end"')
        assert await store.attributes(run_id) == {"z": "9"}

    async def test_a_failed_step_is_the_failure_of_the_run(self, store: Store) -> None:  # G34
        run_id, second = await a_run(store)

        await settle(store, await lease_one(store), FAIL)

        run = await run_record(store, run_id)
        assert (run.step.id, run.step.state, run.step.error) == (second, State.FAILED, BOOM)
        assert run.completed_queue == "q"

    async def test_a_retried_or_released_step_is_the_same_step(self, store: Store) -> None:
        run_id, second = await a_run(store)
        for transition in (RETRY, RELEASE):
            await settle(store, await lease_one(store), transition)
        assert [step.id for step in await steps(store, run_id)] == [run_id, second]

    async def test_the_successor_may_be_scheduled_and_have_a_priority(self, store: Store, clock: ManualClock) -> None:
        run_id = await start(store)
        await hand_over(store, await lease_one(store), delay=60.0, priority=-5)

        assert await lease(store) == []
        clock.advance(60)
        leased = await lease_one(store)
        assert (leased.job.run_id, leased.job.priority) == (run_id, -5)

    # Attributes.

    async def test_a_lease_gives_the_attributes_that_the_step_reads_and_no_others(self, store: Store) -> None:  # G18
        run_id = await start(store, {"a": "1", "b": '"x"', "big": '"' + "y" * 100_000 + '"'}, reads=("b", "missing"))

        leased = await lease_one(store)

        assert leased.job.attributes == {"b": '"x"'}
        assert leased.job.reads == ("b", "missing")
        assert (await record(store, run_id)).attributes is None

    async def test_a_job_that_is_no_step_has_no_attributes(self, store: Store) -> None:
        await enqueue(store)
        assert (await lease_one(store)).job.attributes is None

    async def test_what_a_step_writes_is_merged(self, store: Store) -> None:  # G26
        run_id = await start(store, {"a": "1", "b": "2"})
        leased = await lease_one(store)
        await settle(store, leased, handing_over(a_successor(run_id, reads=("a", "b", "c")), {"b": "3", "c": "null"}))

        assert (await lease_one(store)).job.attributes == {"a": "1", "b": "3", "c": "null"}
        assert await store.attributes(run_id) == {"a": "1", "b": "3", "c": "null"}
        assert await store.attributes(run_id, ["c", "a", "nothing"]) == {"c": "null", "a": "1"}
        assert await store.attributes("missing") == {}

    async def test_an_attempt_that_does_not_succeed_writes_nothing(self, store: Store) -> None:
        run_id = await start(store, {"a": "1"})
        await settle(store, await lease_one(store), RETRY)
        await settle(store, await lease_one(store), FAIL)
        assert await store.attributes(run_id) == {"a": "1"}

    @pytest.mark.parametrize("text", ['"ä€😀\\u0000"', '{"$a": [1, 2.5, null]}', '""', "0", "[]"])
    async def test_attributes_come_back_exactly(self, store: Store, text: str) -> None:
        run_id = await start(store, {"a": text}, reads=("a",))
        assert (await lease_one(store)).job.attributes == {"a": text}
        assert await store.attributes(run_id) == {"a": text}

    async def test_a_successor_that_needs_what_the_run_has_not_is_refused(self, store: Store) -> None:  # G19
        run_id = await start(store, {"a": "1"})
        leased = await lease_one(store)
        needy = a_successor(run_id, needs=("a", "b", "c"), task="f.two")

        verdict = await settle(store, leased, handing_over(needy, {"b": "2"}))

        assert verdict == refused(AttributeMissing("f.two", "c"))
        assert await state(store, run_id) is State.RUNNING
        assert await store.attributes(run_id) == {"a": "1"}
        assert len(await steps(store, run_id)) == 1
        assert await settle(store, leased, handing_over(needy, {"b": "2", "c": "3"})) == OK

    async def test_one_refused_hand_over_is_no_matter_to_the_others(self, store: Store) -> None:
        ids = await enqueue(store, *(a_start() for _ in range(3)))
        held = await lease(store)
        needs: list[tuple[str, ...]] = [(), ("x",), ()]

        verdicts = await store.settle(
            [(one, handing_over(a_successor(one.job.id, needs=need))) for one, need in zip(held, needs, strict=True)]
        )

        assert [verdict.kind for verdict in verdicts] == [VerdictKind.OK, VerdictKind.REFUSED, VerdictKind.OK]
        assert [len(await steps(store, run_id)) for run_id in ids] == [2, 1, 2]

    # Fan-out and fan-in.

    async def test_a_successor_waits_for_the_children_of_the_step_before(self, store: Store) -> None:  # G46, Q55
        run_id = await start(store)
        leased = await lease_one(store)
        children = tuple(a_job(queue="c") for _ in range(3))
        join = a_successor(run_id, after=tuple(child.id for child in children))

        assert await settle(store, leased, handing_over(join, children=children)) == OK

        run = await run_record(store, run_id)
        assert (run.step.id, run.step.state, run.step.blocked_by) == (join.id, State.BLOCKED, 3)
        for number, child in enumerate(await lease(store, "c")):
            await settle(store, child, success(str(number)))
        assert (await lease_one(store)).job.results == ("0", "1", "2")
        await assert_counters_equal_a_recount(store)

    @pytest.mark.parametrize("at", [1, 2], ids=["first step", "second step"])
    async def test_a_join_waits_for_a_run_that_hands_over_in_the_same_call(
        self, store: Store, at: int
    ) -> None:  # I13, Q52
        joining, other = await enqueue(store, a_start(), a_start())
        if at == 2:
            for one in await lease(store):
                await hand_over(store, one)
        held = await lease(store)
        join = a_successor(joining, after=(other,))

        verdicts = await store.settle(
            [(held[0], handing_over(join)), (held[1], handing_over(a_successor(other, queue="c")))]
        )

        assert verdicts == [OK, OK]
        assert await store.blockers(join.id) == [other]
        await settle(store, await lease_one(store, "c"), success('"over"'))
        assert (await lease_one(store)).job.results == ('"over"',)
        await assert_counters_equal_a_recount(store)

    # The items of one call are settled in their order, also if one waits for another.

    @pytest.mark.parametrize("as_run", [False, True], ids=["job", "run"])
    async def test_a_join_keeps_a_blocker_that_ends_after_it_in_the_same_call(
        self, store: Store, as_run: bool
    ) -> None:  # I13
        joining, other = await enqueue(store, a_start(), (a_start if as_run else a_job)(keep=0.0))
        joins, ends = await lease(store)
        if as_run:
            await hand_over(store, ends, keep=0.0)
            ends = await lease_one(store)
        join = a_successor(joining, after=(other,), if_blocker_fails=BlockerPolicy.WAIT)

        assert await store.settle([(joins, handing_over(join)), (ends, FAIL)]) == [OK, OK]

        assert await state(store, ends.job.id) is State.FAILED
        assert await store.blockers(join.id) == [other]
        await store.retry([other])
        await settle(store, await lease_one(store), success('"at last"'))
        assert (await lease_one(store)).job.results == ('"at last"',)
        await assert_counters_equal_a_recount(store)

    @pytest.mark.parametrize("end", ["job", "run", "dependent"])
    async def test_a_join_cannot_wait_for_what_was_removed_before_it_in_the_same_call(
        self, store: Store, end: str
    ) -> None:  # I13, I17
        joining, other = await enqueue(store, a_start(), (a_start if end == "run" else a_job)(keep=0.0))
        joins, ends = await lease(store)
        if end == "run":
            await hand_over(store, ends, keep=0.0)
            ends = await lease_one(store)
        [dependent] = await enqueue(store, a_job(queue="d", after=(other,), keep=0.0))
        blocker = dependent if end == "dependent" else other
        join = a_successor(joining, after=(blocker,), if_blocker_fails=BlockerPolicy.WAIT)

        done, verdict = await store.settle([(ends, FAIL), (joins, handing_over(join))])

        assert (done, verdict) == (OK, refused(BlockerGone(blocker)))
        assert await state(store, joining) is State.RUNNING
        assert await store.get([other, dependent, join.id]) == [None, None, None]
        await assert_counters_equal_a_recount(store)

    @pytest.mark.parametrize("keep", [None, 0.0])
    async def test_a_join_comes_in_line_when_a_later_item_of_the_call_unblocks_it(
        self, store: Store, keep: float | None
    ) -> None:  # Q54, I9
        joining, first, second = await enqueue(store, a_start(), a_job(), a_job(keep=keep))
        [dependent] = await enqueue(store, a_job(after=(first,)))
        held = await lease(store)
        join = a_successor(joining, after=(second,))
        told: list[Consequence] = []
        store.on_consequences = told.extend

        verdicts = await store.settle([(held[0], handing_over(join)), (held[1], success("1")), (held[2], success("2"))])

        assert verdicts == [OK, OK, OK]
        assert await line(store) == [dependent, join.id]
        assert told == [
            Consequence(Change.UNBLOCKED, dependent, "t", "q"),
            Consequence(Change.UNBLOCKED, join.id, "f.two", "q"),
        ]
        await assert_counters_equal_a_recount(store)

    async def test_a_failed_child_fails_the_run_that_waits_for_it(self, store: Store) -> None:  # F25
        run_id = await start(store)
        child = a_job(queue="c")
        join = a_successor(run_id, after=(child.id,))
        await settle(store, await lease_one(store), handing_over(join, children=(child,)))

        await settle(store, await lease_one(store, "c"), FAIL)

        run = await run_record(store, run_id)
        assert run.step.state is State.FAILED
        assert run.step.error is not None
        assert run.step.error.type == "BlockerFailed"

    async def test_a_join_that_fails_as_soon_as_it_comes_is_the_end_of_the_run(self, store: Store) -> None:  # F25
        [failed] = await enqueue(store, a_job(queue="c"))
        await settle(store, await lease_one(store, "c"), FAIL)
        run_id = await start(store, unique="k")
        [dependent] = await enqueue(store, a_job(queue="d", after=(run_id,)))
        assert await store.wait([run_id]) == {}
        await listening(store)

        await hand_over(store, await lease_one(store), after=(failed,))

        assert (await run_record(store, run_id)).step.state is State.FAILED
        assert await state(store, dependent) is State.FAILED
        async with asyncio.timeout(LONG):
            async for signal in store.announcements():
                assert (signal.kind, signal.job_id) == (AnnouncementKind.DONE, run_id)
                break
        [answer] = await store.enqueue([a_start(unique="k")])
        assert not answer.duplicate
        await assert_counters_equal_a_recount(store)

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            (BlockerPolicy.FAIL, State.FAILED),
            (BlockerPolicy.PROCEED, State.WAITING),
            (BlockerPolicy.WAIT, State.BLOCKED),
        ],
    )
    async def test_a_child_learns_that_its_sibling_has_ended_the_run(
        self, store: Store, policy: BlockerPolicy, expected: State
    ) -> None:  # F25
        # The join fails as soon as it comes. That ends the run, fails `older`, and so reaches the child that came before the join.
        [failed] = await enqueue(store, a_job(queue="c"))
        await settle(store, await lease_one(store, "c"), FAIL)
        run_id = await start(store)
        [older] = await enqueue(store, a_job(queue="d", after=(run_id,)))
        child = a_job(queue="e", after=(older,), if_blocker_fails=policy)
        grandchild = a_job(queue="e", after=(child.id,), if_blocker_fails=policy)
        join = a_successor(run_id, after=(failed,))

        await settle(store, await lease_one(store), handing_over(join, children=(child, grandchild)))

        assert [await state(store, id_) for id_ in (join.id, older)] == [State.FAILED, State.FAILED]
        assert await state(store, child.id) is expected
        assert await state(store, grandchild.id) is (State.FAILED if expected is State.FAILED else State.BLOCKED)
        await assert_counters_equal_a_recount(store)

    async def test_an_unknown_blocker_refuses_the_hand_over(self, store: Store) -> None:
        run_id = await start(store)
        leased = await lease_one(store)

        verdict = await settle(store, leased, handing_over(a_successor(run_id, after=("missing",))))

        assert verdict == refused(BlockerGone("missing"))
        assert (await run_record(store, run_id)).step.state is State.RUNNING

    # Completion from outside.

    async def test_completing_a_step_from_outside_hands_over_as_usual(self, store: Store) -> None:  # Q60
        run_id = await start(store)
        leased = await lease_one(store)
        await settle(store, leased, Park())
        successor = a_successor(run_id, reads=("ok",), needs=("ok",))

        assert await store.complete(run_id, handing_over(successor, {"ok": "true"})) == OK

        assert await state(store, run_id) is State.SUCCEEDED
        assert (await lease_one(store)).job.attributes == {"ok": "true"}

    async def test_completing_the_last_step_ends_the_run_and_notifies_the_holder(self, store: Store) -> None:  # Q60
        await store.register(a_worker())
        await listening(store)
        run_id, second = await a_run(store)
        leased = await lease_one(store)

        assert await store.complete(second, success('"by hand"')) == OK

        async with asyncio.timeout(LONG):
            async for signal in store.announcements():
                assert (signal.kind, signal.job_id) == (AnnouncementKind.COMPLETED, second)
                break
        assert (await settle(store, leased, success())).kind is VerdictKind.LEASE_LOST
        assert (await run_record(store, run_id)).step.result == '"by hand"'
        verdict = await store.complete(second, success())
        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, State.SUCCEEDED)
        assert await store.complete("missing", success()) == NOT_FOUND

    async def test_a_completion_made_for_a_step_that_has_handed_over_does_not_end_the_next(self, store: Store) -> None:
        run_id, second = await a_run(store)

        verdict = await store.complete(run_id, handing_over(a_successor(run_id), {"a": "1"}))

        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, State.SUCCEEDED)
        assert await state(store, second) is State.WAITING
        assert [step.id for step in await steps(store, run_id)] == [run_id, second]
        assert await store.attributes(run_id) == {}

    async def test_a_completion_that_is_refused_changes_nothing(self, store: Store) -> None:
        run_id = await start(store)
        leased = await lease_one(store)

        verdict = await store.complete(run_id, handing_over(a_successor(run_id, needs=("x",))))

        assert (type(verdict.refusal), verdict.state) == (AttributeMissing, None)
        assert await settle(store, leased, success()) == OK

    # Parking.

    async def test_a_step_parked_with_a_way_out_comes_in_line_when_its_time_is_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        run_id = await start(store)
        leased = await lease_one(store)
        await settle(store, leased, Park(60.0, "three"))
        assert (await record(store, run_id)).on_timeout is None
        await enqueue(store)

        clock.advance(59)
        await store.reap(["q"])
        assert await state(store, run_id) is State.BLOCKED
        clock.advance(1)
        assert await store.reap(["q"]) == []

        assert (await line(store))[-1] == run_id
        assert (await counts(store)).blocked == 0
        [_, leased] = await lease(store)
        assert (leased.job.id, leased.job.on_timeout, leased.job.attempt) == (run_id, "three", 1)
        await settle(store, leased, RELEASE)
        leased = next(one for one in await lease(store) if one.job.id == run_id)
        assert leased.job.on_timeout == "three"
        await hand_over(store, leased)
        assert (await record(store, run_id)).on_timeout is None
        await assert_counters_equal_a_recount(store)

    async def test_a_step_parked_with_a_way_out_can_be_completed_before(self, store: Store, clock: ManualClock) -> None:
        run_id = await start(store)
        await settle(store, await lease_one(store), Park(60.0, "three"))
        assert await store.complete(run_id, success("1")) == OK
        clock.advance(100)
        await store.reap(["q"])
        job = await record(store, run_id)
        assert (job.state, job.on_timeout) == (State.SUCCEEDED, None)

    async def test_an_operators_retry_forgets_the_way_out(self, store: Store, clock: ManualClock) -> None:
        run_id = await start(store)
        await settle(store, await lease_one(store), Park(60.0, "three"))
        clock.advance(60)
        await store.reap(["q"])
        await store.cancel([run_id])
        await store.retry([run_id])
        assert (await lease_one(store)).job.on_timeout is None
