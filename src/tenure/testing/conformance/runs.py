"""Tests of runs: operations on their ids, dependents and waiters, unique keys, listings."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.job import BlockerPolicy, State
from tenure.core.lifecycle import blocker_failed
from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.stores.base import Store
from tenure.stores.values import (
    LEASE_LOST,
    OK,
    AnnouncementKind,
    UniqueHeld,
    VerdictKind,
    handed_over,
)
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import (
    a_run,
    a_start,
    a_successor,
    found,
    hand_over,
    handing_over,
    run_record,
    start,
    steps,
)
from tenure.testing.conformance.scene import (
    FAIL,
    LONG,
    MakeStore,
    a_job,
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

__all__ = ["Runs"]


class Runs:
    # Starting.

    async def test_the_first_step_begins_the_run_and_gives_it_its_id(self, store: Store) -> None:  # Q40, G38
        run_id = await start(store, {"a": "1"}, queue="q")

        run = await run_record(store, run_id)
        assert (run.id, run.flow, run.step.id, run.completed_queue) == (run_id, "f", run_id, None)
        assert (run.step.run_id, run.step.state, run.step.successor) == (run_id, State.WAITING, None)
        assert run.created_at == run.step.created_at
        assert await store.attributes(run_id) == {"a": "1"}

    async def test_a_start_repeated_is_one_run(self, store: Store) -> None:  # I2
        new = a_start({"a": "1"})
        await store.enqueue([new])
        await store.enqueue([new])
        assert await found(store) == [new.id]
        assert len(await steps(store, new.id)) == 1

    async def test_runs_and_jobs_start_together_or_not_at_all(self, store: Store) -> None:
        new = a_start({"a": "1"})
        with pytest.raises(BlockerNotFound):
            await store.enqueue([new, a_job(), a_job(after=("missing",))])
        assert await store.run(new.id) is None
        assert await found(store) == []

    async def test_a_run_is_known_to_every_store_object(self, store: Store, make_store: MakeStore) -> None:
        run_id = await start(store, {"a": "1"}, reads=("a",))
        assert (await lease_one(make_store())).job.attributes == {"a": "1"}
        assert (await run_record(make_store(), run_id)).step.state is State.RUNNING

    # Operations on the id of a run.

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
        assert verdict.refusal == handed_over(third)
        [verdict] = await store.retry([run_id])  # this retries the third step, which has not ended
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

    async def test_releasing_a_run_puts_its_running_step_back(self, store: Store) -> None:
        run_id, second = await a_run(store)
        held = await lease_one(store)
        assert held.job.id == second

        assert await store.release([run_id]) == [OK]

        [verdict] = await store.settle([(held, FAIL)])
        assert verdict == LEASE_LOST
        again = await lease_one(store)
        assert (again.job.id, again.job.attempt, again.job.fence) == (second, 1, 2)

    # Dependents and waiters.

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
    async def test_a_run_that_fails_acts_by_the_policy_of_its_dependents(
        self, store: Store, policy: BlockerPolicy
    ) -> None:
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

    async def test_dependents_of_a_run_and_of_its_last_step_follow_in_one_order(self, store: Store) -> None:
        run_id, second = await a_run(store)
        dependents = [
            job_id
            for blocker in (run_id, second) * 2
            for job_id in await enqueue(store, a_job(queue="d", after=(blocker,)))
        ]

        await settle(store, await lease_one(store), success("5"))

        assert await line(store, "d") == dependents

    @pytest.mark.parametrize("when", ["before", "afterwards"])
    @pytest.mark.parametrize("first", ["run", "step"])
    async def test_a_dependent_of_a_run_and_of_its_last_step_fails_by_the_one_it_named_first(
        self, store: Store, first: str, when: str
    ) -> None:
        run_id, second = await a_run(store)
        after = (run_id, second) if first == "run" else (second, run_id)
        if when == "before":
            [dependent] = await enqueue(store, a_job(queue="d", after=after))
        await settle(store, await lease_one(store), FAIL)
        if when == "afterwards":
            [dependent] = await enqueue(store, a_job(queue="d", after=after))

        failed = await record(store, dependent)
        assert failed.state is State.FAILED
        assert failed.error == blocker_failed(after[0], State.FAILED)

    async def test_waiting_for_a_run_waits_for_its_last_step(self, store: Store) -> None:  # Q62
        run_id = await start(store)
        assert await store.wait([run_id]) == {}
        await listening(store)
        second = await hand_over(store, await lease_one(store))
        assert await store.wait([run_id]) == {}

        await settle(store, await lease_one(store), success("5"))

        async with asyncio.timeout(LONG):
            async for announcement in store.announcements():
                assert (announcement.kind, announcement.job_id) == (AnnouncementKind.DONE, run_id)
                break
        final = await store.wait([run_id])
        last = final[run_id]
        assert last is not None
        assert (last.id, last.state, last.result) == (second, State.SUCCEEDED, "5")

    async def test_a_hand_over_is_not_announced_to_the_waiters_of_the_run(self, store: Store) -> None:  # Q62
        run_id = await start(store)
        [other] = await enqueue(store, a_job(queue="o"))
        assert await store.wait([run_id, other]) == {}
        await listening(store)
        await hand_over(store, await lease_one(store))
        await settle(store, await lease_one(store, "o"), success())
        await settle(store, await lease_one(store), success())

        announced: list[str] = []
        async with asyncio.timeout(LONG):
            async for announcement in store.announcements():
                announced += [announcement.job_id] if announcement.job_id not in announced else []
                if len(announced) == 2:
                    break
        assert announced == [other, run_id]

    @pytest.mark.parametrize("end", ["fail", "cancel", "lost"])
    async def test_the_end_of_a_run_without_success_is_announced_to_its_waiters(
        self, store: Store, clock: ManualClock, end: str
    ) -> None:
        run_id = await start(store)
        await hand_over(store, await lease_one(store), max_losses=1)
        assert await store.wait([run_id]) == {}
        await listening(store)

        match end:
            case "fail":
                await settle(store, await lease_one(store), FAIL)
            case "cancel":
                await store.cancel([run_id])
            case "lost":
                await lose(store, clock, await lease_one(store))

        async with asyncio.timeout(LONG):
            async for announcement in store.announcements():
                assert announcement.job_id == run_id
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
        assert (verdict.kind, verdict.refusal) == (VerdictKind.REFUSED, UniqueHeld(other))
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
        transition = handing_over(a_successor(run_id), lookups={"a": ("2", "3")})
        await settle(store, await lease_one(store), transition)

        assert await found(store, flow="f", lookup=("a", "1")) == []
        assert await found(store, flow="f", lookup=("a", "2")) == [run_id]
        assert await found(store, flow="f", lookup=("a", "3")) == [run_id]
        assert await found(store, flow="f", lookup=("b", "1")) == [run_id]
