"""Runs: steps that hand over to each other, and share attributes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenure.errors import BlockerNotFound, HasDependents, UniqueConflict
from tenure.job import BlockerPolicy, JobRecord, NewJob, RunStep, State, Writes, new_id
from tenure.lease import Lease
from tenure.lifecycle import Finish, Park
from tenure.options import Retention
from tenure.stores.base import NOT_FOUND, OK, RunRecord, RunSearch, SignalKind, Store, VerdictKind
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    RELEASE,
    RETRY,
    MakeStore,
    a_job,
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
    success,
)

__all__ = ["Runs", "a_start", "a_successor", "hand_over"]

NOTHING_KEPT = Retention(succeeded=0, failed=0, count=1)


def a_start(
    attributes: dict[str, str] | None = None, lookups: dict[str, tuple[str, ...]] | None = None, **changes: Any
) -> NewJob:
    """The first step of a run of flow `f`."""
    id_ = changes.pop("id", None) or new_id()
    reads, flow = changes.pop("reads", ()), changes.pop("flow", "f")
    step = RunStep(run_id=id_, flow=flow, reads=reads, writes=Writes(attributes or {}, lookups or {}))
    return a_job(**{"id": id_, "task": "f.one", "step": step} | changes)


def a_successor(run_id: str, **changes: Any) -> NewJob:
    """A further step of that run."""
    reads, needs, flow = changes.pop("reads", ()), changes.pop("needs", ()), changes.pop("flow", "f")
    step = RunStep(run_id=run_id, flow=flow, reads=reads, needs=needs)
    return a_job(**{"task": "f.two", "step": step} | changes)


def handing_over(to: NewJob, attributes: dict[str, str] | None = None, **more: Any) -> Finish:
    writes = Writes(attributes or {}, more.pop("lookups", {}))
    return success("null", successor=to, writes=writes, **more)


async def hand_over(store: Store, leased: Lease, **changes: Any) -> str:
    """Let a step hand over to the next one; the id of that."""
    assert leased.job.run_id is not None
    successor = a_successor(leased.job.run_id, **changes)
    assert await settle(store, leased, handing_over(successor)) == OK
    return successor.id


async def start(store: Store, *args: Any, **changes: Any) -> str:
    [run_id] = await enqueue(store, a_start(*args, **changes))
    return run_id


async def a_run(store: Store, clock: ManualClock | None = None, **changes: Any) -> tuple[str, str]:
    """A run whose first step has handed over: the ids of both steps."""
    run_id = await start(store, **changes)
    return run_id, await hand_over(store, await lease_one(store))


async def run_record(store: Store, run_id: str) -> RunRecord:
    found = await store.run(run_id)
    assert found is not None, f"there is no run {run_id}"
    return found


async def steps(store: Store, run_id: str) -> list[JobRecord]:
    return (await store.steps(run_id, limit=100)).jobs


async def found(store: Store, **search: Any) -> list[str]:
    """The ids of the runs in all pages of a listing."""
    ids: list[str] = []
    cursor = None
    while True:
        page = await store.runs(RunSearch(**{"limit": 100} | search, cursor=cursor))
        ids += [run.id for run in page.runs]
        if (cursor := page.cursor) is None:
            return ids


class Runs:
    # Handing over.

    async def test_the_first_step_begins_the_run_and_gives_it_its_id(self, store: Store) -> None:  # Q40, G38
        run_id = await start(store, {"a": "1"}, queue="q")

        run = await run_record(store, run_id)
        assert (run.id, run.flow, run.step.id, run.completed_queue) == (run_id, "f", run_id, None)
        assert (run.step.run_id, run.step.state, run.step.successor) == (run_id, State.WAITING, None)
        assert run.created_at == run.step.created_at
        assert await store.attributes(run_id) == {"a": "1"}

    async def test_a_step_that_succeeds_and_its_successor_are_one_step(self, store: Store) -> None:  # I13, G28, Q42
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
        assert (await store.steps("nobody")).jobs == []

    async def test_the_same_hand_over_again_is_ok_and_makes_no_second_step(self, store: Store) -> None:  # I6, I13, Q46
        run_id = await start(store)
        leased = await lease_one(store)
        step = handing_over(a_successor(run_id), {"a": "1"})
        assert await settle(store, leased, step) == OK

        assert await settle(store, leased, step) == OK

        assert len(await steps(store, run_id)) == 2

    async def test_a_stale_holder_hands_over_to_nobody(self, store: Store, clock: ManualClock) -> None:  # I5, I13
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
        from tenure.lease import new_nonce
        from tenure.stores.base import LeaseRequest

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
        for step in (RETRY, RELEASE):
            await settle(store, await lease_one(store), step)
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
        assert await store.attributes("nobody") == {}

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

        assert (verdict.kind, verdict.other) == (VerdictKind.REFUSED, None)
        assert "'f.two'" in verdict.reason
        assert "'c'" in verdict.reason
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

        await hand_over(store, await lease_one(store), after=(failed,))

        assert (await run_record(store, run_id)).step.state is State.FAILED
        assert await state(store, dependent) is State.FAILED
        async with asyncio.timeout(5):
            async for signal in store.signals():
                assert (signal.kind, signal.job_id) == (SignalKind.DONE, run_id)
                break
        [answer] = await store.enqueue([a_start(unique="k")])
        assert not answer.duplicate
        await assert_counters_equal_a_recount(store)

    async def test_an_unknown_blocker_refuses_the_hand_over(self, store: Store) -> None:
        run_id = await start(store)
        leased = await lease_one(store)

        verdict = await settle(store, leased, handing_over(a_successor(run_id, after=("nobody",))))

        assert (verdict.kind, verdict.other) == (VerdictKind.REFUSED, "nobody")
        assert (await run_record(store, run_id)).step.state is State.RUNNING

    async def test_a_job_waits_for_the_run_not_for_its_first_step(self, store: Store) -> None:  # Q52
        run_id = await start(store)
        [dependent] = await enqueue(store, a_job(queue="d", after=(run_id,)))
        second = await hand_over(store, await lease_one(store))
        assert await state(store, dependent) is State.BLOCKED
        [late] = await enqueue(store, a_job(queue="d", after=(run_id, second)))

        await settle(store, await lease_one(store), success('"done"'))

        assert [one.job.results for one in await lease(store, "d")] == [('"done"',), ('"done"', '"done"')]
        [later] = await enqueue(store, a_job(queue="d", after=(run_id,)))
        assert (await lease_one(store, "d")).job.results == ('"done"',)
        assert await state(store, late) is State.RUNNING
        assert await state(store, later) is State.RUNNING

    @pytest.mark.parametrize("policy", list(BlockerPolicy))
    async def test_a_run_that_fails_acts_by_the_policy_of_who_waits(self, store: Store, policy: BlockerPolicy) -> None:
        run_id = await start(store)
        [dependent] = await enqueue(store, a_job(queue="d", after=(run_id,), if_blocker_fails=policy))
        await hand_over(store, await lease_one(store))

        await settle(store, await lease_one(store), FAIL)

        found = await record(store, dependent)
        match policy:
            case BlockerPolicy.FAIL:
                assert found.state is State.FAILED
                assert found.error is not None
                assert run_id in found.error.message
            case BlockerPolicy.PROCEED:
                assert found.state is State.WAITING
                assert run_id in (found.results[0] or "")
            case BlockerPolicy.WAIT:
                assert found.state is State.BLOCKED
                await store.retry([run_id])
                await settle(store, await lease_one(store), success("7"))
                assert (await record(store, dependent)).results == ("7",)

    async def test_a_step_alone_can_be_waited_for_too(self, store: Store) -> None:
        _, second = await a_run(store)
        [dependent] = await enqueue(store, a_job(queue="d", after=(second,)))

        await settle(store, await lease_one(store), handing_over(a_successor(_), children=()))

        assert await state(store, dependent) is State.WAITING

    # What an id of a run means.

    async def test_cancelling_a_run_cancels_its_current_step(self, store: Store) -> None:
        run_id, second = await a_run(store)

        assert await store.cancel([run_id]) == [OK]

        assert await state(store, second) is State.CANCELLED
        assert await state(store, run_id) is State.SUCCEEDED
        [verdict] = await store.cancel([run_id])
        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, State.CANCELLED)

    async def test_a_step_that_has_handed_over_is_not_retried(self, store: Store) -> None:
        run_id = await start(store)
        second = await hand_over(store, await lease_one(store))
        third = await hand_over(store, await lease_one(store))

        [verdict] = await store.retry([second])

        assert verdict.kind is VerdictKind.REFUSED
        assert third in verdict.reason
        assert verdict.other is None
        [verdict] = await store.retry([run_id])  # which means the third, and that has not ended
        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, State.WAITING)

    async def test_retrying_a_run_goes_on_from_the_failed_step(self, store: Store) -> None:
        run_id, second = await a_run(store)
        await settle(store, await lease_one(store), FAIL)

        assert await store.retry([run_id]) == [OK]

        leased = await lease_one(store)
        assert (leased.job.id, leased.job.attempt) == (second, 1)
        await hand_over(store, leased)
        assert len(await steps(store, run_id)) == 3

    async def test_triggering_a_run_lets_its_scheduled_step_run_now(self, store: Store) -> None:  # Q58
        run_id = await start(store)
        second = await hand_over(store, await lease_one(store), delay=1000.0)

        assert await store.trigger([run_id]) == [OK]

        assert (await lease_one(store)).job.id == second

    # Completion from outside.

    async def test_completing_a_step_from_outside_hands_over_as_usual(self, store: Store) -> None:  # Q60
        run_id = await start(store)
        leased = await lease_one(store)
        await settle(store, leased, Park())
        successor = a_successor(run_id, reads=("ok",), needs=("ok",))

        assert await store.complete(run_id, handing_over(successor, {"ok": "true"})) == OK

        assert await state(store, run_id) is State.SUCCEEDED
        assert (await lease_one(store)).job.attributes == {"ok": "true"}

    async def test_completing_the_last_step_ends_the_run_and_tells_the_holder(self, store: Store) -> None:  # Q60
        await store.register(a_worker())
        run_id, second = await a_run(store)
        leased = await lease_one(store)

        assert await store.complete(second, success('"by hand"')) == OK

        async with asyncio.timeout(5):
            async for signal in store.signals():
                assert (signal.kind, signal.job_id) == (SignalKind.COMPLETED, second)
                break
        assert (await settle(store, leased, success())).kind is VerdictKind.LEASE_LOST
        assert (await run_record(store, run_id)).step.result == '"by hand"'
        verdict = await store.complete(second, success())
        assert (verdict.kind, verdict.state) == (VerdictKind.REFUSED, State.SUCCEEDED)
        assert await store.complete("nobody", success()) == NOT_FOUND

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

        assert (verdict.kind, verdict.other, verdict.state) == (VerdictKind.REFUSED, None, None)
        assert await settle(store, leased, success()) == OK

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

    # Waiting.

    async def test_waiting_for_a_run_waits_for_its_last_step(self, store: Store) -> None:  # Q62
        run_id = await start(store)
        assert await store.wait([run_id]) == {}
        second = await hand_over(store, await lease_one(store))
        assert await store.wait([run_id]) == {}

        await settle(store, await lease_one(store), success("5"))

        async with asyncio.timeout(5):
            async for signal in store.signals():
                assert (signal.kind, signal.job_id) == (SignalKind.DONE, run_id)
                break
        final = await store.wait([run_id])
        last = final[run_id]
        assert last is not None
        assert (last.id, last.state, last.result) == (second, State.SUCCEEDED, "5")

    async def test_who_waits_for_a_run_hears_nothing_of_a_hand_over(self, store: Store) -> None:  # Q62
        run_id = await start(store)
        [other] = await enqueue(store, a_job(queue="o"))
        assert await store.wait([run_id, other]) == {}
        await hand_over(store, await lease_one(store))
        await settle(store, await lease_one(store, "o"), success())
        await settle(store, await lease_one(store), success())

        heard: list[str] = []
        async with asyncio.timeout(5):
            async for signal in store.signals():
                heard += [signal.job_id] if signal.job_id not in heard else []
                if len(heard) == 2:
                    break
        assert heard == [other, run_id]

    @pytest.mark.parametrize("end", ["fail", "cancel", "lost"])
    async def test_whoever_waits_for_a_run_hears_of_its_ill_end(
        self, store: Store, clock: ManualClock, end: str
    ) -> None:
        run_id = await start(store)
        await hand_over(store, await lease_one(store), max_losses=1)
        assert await store.wait([run_id]) == {}

        match end:
            case "fail":
                await settle(store, await lease_one(store), FAIL)
            case "cancel":
                await store.cancel([run_id])
            case "lost":
                await lose(store, clock, await lease_one(store))

        async with asyncio.timeout(5):
            async for signal in store.signals():
                assert signal.job_id == run_id
                break
        last = (await store.wait([run_id]))[run_id]
        assert last is not None
        assert last.state is (State.CANCELLED if end == "cancel" else State.FAILED)

    # Unique.

    async def test_the_unique_key_of_a_start_is_held_until_the_run_ends(self, store: Store) -> None:  # Q56, I14
        run_id = await start(store, unique="k")
        await hand_over(store, await lease_one(store))

        [answer] = await store.enqueue([a_start(unique="k")])
        assert (answer.id, answer.duplicate) == (run_id, True)
        with pytest.raises(UniqueConflict):
            await store.enqueue([a_start(unique="k", unique_raises=True)])
        await settle(store, await lease_one(store), success())

        [answer] = await store.enqueue([a_start(unique="k")])
        assert not answer.duplicate

    @pytest.mark.parametrize("end", ["fail", "cancel", "delete", "complete", "lost"])
    async def test_every_end_of_a_run_frees_its_key(self, store: Store, clock: ManualClock, end: str) -> None:  # F26
        run_id = await start(store, unique="k")
        second = await hand_over(store, await lease_one(store), max_losses=1)
        match end:
            case "fail":
                await settle(store, await lease_one(store), FAIL)
            case "cancel":
                await store.cancel([run_id])
            case "delete":
                await store.delete([run_id])
            case "complete":
                await store.complete(second, success())
            case "lost":
                await lose(store, clock, await lease_one(store))

        [answer] = await store.enqueue([a_start(unique="k")])

        assert not answer.duplicate

    async def test_a_retried_run_takes_its_key_again_or_is_refused(self, store: Store) -> None:
        run_id, _ = await a_run(store, unique="k")
        await settle(store, await lease_one(store), FAIL)
        [other] = await enqueue(store, a_start(unique="k"))

        [verdict] = await store.retry([run_id])
        assert (verdict.kind, verdict.other) == (VerdictKind.REFUSED, other)
        await store.delete([other])
        assert await store.retry([run_id]) == [OK]

        [answer] = await store.enqueue([a_start(unique="k")])
        assert (answer.id, answer.duplicate) == (run_id, True)

    async def test_a_start_that_leads_to_a_run_says_in_which_state_the_run_is(self, store: Store) -> None:
        new = a_start(unique="k")
        await store.enqueue([new])
        await hand_over(store, await lease_one(store))

        [again, duplicate] = await store.enqueue([new, a_start(unique="k")])

        assert (again.state, again.duplicate) == (State.WAITING, False)
        assert (duplicate.id, duplicate.state, duplicate.duplicate) == (new.id, State.WAITING, True)

    async def test_a_duplicate_start_begins_no_run(self, store: Store) -> None:
        run_id = await start(store, {"a": "1"}, unique="k")
        duplicate = a_start({"a": "2"}, unique="k")
        await store.enqueue([duplicate])
        assert await store.run(duplicate.id) is None
        assert await store.attributes(run_id) == {"a": "1"}
        assert await found(store) == [run_id]

    # Finding.

    async def test_runs_are_listed_newest_first_a_page_at_a_time(self, store: Store) -> None:
        ids = [await start(store) for _ in range(5)]
        await start(store, flow="g", queue="g")
        await enqueue(store)

        assert await found(store, flow="f") == ids[::-1]
        assert await found(store, flow="f", limit=2) == ids[::-1]
        assert len(await found(store)) == 6
        assert await found(store, flow="nothing") == []

    async def test_runs_are_listed_by_the_state_of_their_current_step(self, store: Store) -> None:
        one, two, three = [await start(store) for _ in range(3)]
        held = await lease(store)
        await settle(store, held[0], success())
        await settle(store, held[1], FAIL)
        await hand_over(store, held[2])

        assert await found(store, state=State.SUCCEEDED) == [one]
        assert await found(store, state=State.FAILED) == [two]
        assert await found(store, state=State.WAITING) == [three]
        assert await found(store, state=State.RUNNING) == []

    async def test_runs_are_found_by_what_they_can_be_looked_up_by(self, store: Store) -> None:  # G40, G41
        one = await start(store, lookups={"customer": ('"c1"',), "tag": ('"a"', '"b"')})
        two = await start(store, lookups={"customer": ('"c1"',)})
        await start(store, lookups={"customer": ('"c1"',)}, flow="g", queue="g")

        assert await found(store, flow="f", lookup=("customer", '"c1"')) == [two, one]
        assert await found(store, flow="f", lookup=("customer", '"c1"'), limit=1) == [two, one]
        assert await found(store, flow="f", lookup=("tag", '"b"')) == [one]
        assert await found(store, flow="f", lookup=("tag", '"c"')) == []
        assert await found(store, flow="f", lookup=("customer", "c1")) == []

    async def test_a_step_may_change_what_its_run_is_found_by(self, store: Store) -> None:
        run_id = await start(store, lookups={"a": ("1", "2"), "b": ("1",)})
        step = handing_over(a_successor(run_id), lookups={"a": ("2", "3")})
        await settle(store, await lease_one(store), step)

        assert await found(store, flow="f", lookup=("a", "1")) == []
        assert await found(store, flow="f", lookup=("a", "2")) == [run_id]
        assert await found(store, flow="f", lookup=("a", "3")) == [run_id]
        assert await found(store, flow="f", lookup=("b", "1")) == [run_id]

    # Going.

    @pytest.mark.parametrize("by", ["run", "step"])
    async def test_a_run_is_deleted_as_a_whole(self, store: Store, by: str) -> None:  # Q61, G42
        run_id = await start(store, {"a": "1"}, {"a": ("1",)})
        second = await hand_over(store, await lease_one(store))
        third = await hand_over(store, await lease_one(store))

        went = await store.delete([run_id if by == "run" else second])

        assert went == ([run_id, second, third] if by == "run" else [second, run_id, third])
        assert await store.get([run_id, second, third]) == [None] * 3
        assert await store.run(run_id) is None
        assert await store.attributes(run_id) == {}
        assert await found(store, flow="f", lookup=("a", "1")) == []
        assert await found(store) == []
        await assert_counters_equal_a_recount(store)

    async def test_several_runs_are_deleted_together_or_not_at_all(self, store: Store) -> None:  # Q61
        one, _ = await a_run(store)
        await settle(store, await lease_one(store), success())
        two = await start(store)
        [dependent] = await enqueue(store, a_job(queue="d", after=(two,)))

        with pytest.raises(HasDependents):
            await store.delete([one, two])
        assert await store.run(one) is not None
        went = await store.delete([one, two], cascade=True)

        assert went[-1] == dependent
        assert await found(store) == []

    async def test_a_run_that_waits_goes_whole_with_a_cascade(self, store: Store) -> None:
        [blocker] = await enqueue(store, a_job(queue="b"))
        run_id = await start(store)
        await hand_over(store, await lease_one(store), after=(blocker,))

        await store.delete([blocker], cascade=True)

        assert await store.run(run_id) is None
        assert await steps(store, run_id) == []

    async def test_deleting_the_run_in_whose_place_somebody_runs_tells_the_holder(self, store: Store) -> None:
        run_id, _ = await a_run(store)
        leased = await lease_one(store)
        await store.delete([run_id])
        assert (await settle(store, leased, handing_over(a_successor(run_id)))).kind is VerdictKind.NOT_FOUND
        assert await found(store) == []

    async def test_purging_a_queue_takes_the_runs_that_wait_there(self, store: Store) -> None:
        run_id = await start(store)
        await hand_over(store, await lease_one(store), queue="r")
        await enqueue(store, a_job(queue="r"))

        assert await store.purge("r") == 2

        assert await store.run(run_id) is None
        await assert_counters_equal_a_recount(store)

    async def test_steps_of_a_live_run_are_never_pruned(self, store: Store, clock: ManualClock) -> None:  # I16
        run_id, second = await a_run(store)
        for _ in range(3):
            await enqueue(store, a_job(queue="o"))
            await settle(store, await lease_one(store, "o"), success())
        clock.advance(100_000)

        await store.prune(NOTHING_KEPT, {})

        assert [step.id for step in await steps(store, run_id)] == [run_id, second]

    async def test_a_finished_run_is_pruned_as_a_whole(self, store: Store, clock: ManualClock) -> None:
        run_id = await start(store, {"a": "1"}, {"a": ("1",)})
        await hand_over(store, await lease_one(store))
        await settle(store, await lease_one(store), success())
        clock.advance(10)

        assert await store.prune(NOTHING_KEPT, {}) == 1

        assert await store.run(run_id) is None
        assert await steps(store, run_id) == []
        assert await store.attributes(run_id) == {}
        assert await found(store, flow="f", lookup=("a", "1")) == []
        await assert_counters_equal_a_recount(store)

    async def test_retention_counts_a_run_once(self, store: Store, clock: ManualClock) -> None:
        runs = []
        for _ in range(4):
            run_id, _ = await a_run(store)
            await settle(store, await lease_one(store), success())
            runs.append(run_id)
            clock.advance(1)

        await store.prune(Retention(succeeded=1000, failed=1000, count=2), {})

        assert await found(store) == runs[:1:-1]

    async def test_a_run_that_keeps_nothing_goes_with_its_end(self, store: Store) -> None:
        run_id = await start(store, {"a": "1"}, keep=0.0)
        await hand_over(store, await lease_one(store), keep=0.0)
        assert (await run_record(store, run_id)).step.state is State.WAITING

        await settle(store, await lease_one(store), success())

        assert await store.run(run_id) is None
        assert await store.get([run_id]) == [None]
        assert await store.attributes(run_id) == {}

    async def test_a_run_that_somebody_waits_for_is_kept_a_while(self, store: Store, clock: ManualClock) -> None:
        run_id = await start(store, keep=0.0)
        await store.wait([run_id])
        await hand_over(store, await lease_one(store), keep=0.0)
        await settle(store, await lease_one(store), success("3"))

        assert (await run_record(store, run_id)).step.result == "3"
        clock.advance(61)
        await store.prune(NOTHING_KEPT, {})
        assert await store.run(run_id) is None

    # Starting.

    async def test_a_start_repeated_is_one_run(self, store: Store) -> None:  # I2
        new = a_start({"a": "1"})
        await store.enqueue([new])
        await store.enqueue([new])
        assert await found(store) == [new.id]
        assert len(await steps(store, new.id)) == 1

    async def test_runs_and_jobs_start_together_or_not_at_all(self, store: Store) -> None:
        new = a_start({"a": "1"})
        with pytest.raises(BlockerNotFound):
            await store.enqueue([new, a_job(), a_job(after=("nobody",))])
        assert await store.run(new.id) is None
        assert await found(store) == []

    async def test_a_run_is_known_to_every_store_object(self, store: Store, make_store: MakeStore) -> None:
        run_id = await start(store, {"a": "1"}, reads=("a",))
        assert (await lease_one(make_store())).job.attributes == {"a": "1"}
        assert (await run_record(make_store(), run_id)).step.state is State.RUNNING
