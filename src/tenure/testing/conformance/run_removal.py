"""Tests of removing runs: delete, purge and prune remove a run as a whole."""

from __future__ import annotations

import pytest

from tenure.core.job import State
from tenure.core.options import Retention
from tenure.errors import HasDependents
from tenure.stores.base import Store
from tenure.stores.values import VerdictKind
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import (
    a_run,
    a_successor,
    found,
    hand_over,
    handing_over,
    run_record,
    start,
    steps,
)
from tenure.testing.conformance.scene import a_job, assert_counters_equal_a_recount, enqueue, lease_one, settle, success

__all__ = ["RunRemoval"]

NOTHING_KEPT = Retention(succeeded=0, failed=0, count=1)


class RunRemoval:
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

    async def test_deleting_a_run_notifies_the_holder_of_its_current_step(self, store: Store) -> None:
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

    async def test_a_run_that_has_a_waiter_is_kept_for_a_minute(self, store: Store, clock: ManualClock) -> None:
        run_id = await start(store, keep=0.0)
        await store.wait([run_id])
        await hand_over(store, await lease_one(store), keep=0.0)
        await settle(store, await lease_one(store), success("3"))

        assert (await run_record(store, run_id)).step.result == "3"
        clock.advance(61)
        await store.prune(NOTHING_KEPT, {})
        assert await store.run(run_id) is None
