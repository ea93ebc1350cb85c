"""Tests of runs in transactions: starting a run and handing over in a transaction of the caller."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.job import NewJob, State, Writes
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish
from tenure.stores.base import OwnTransaction, Store
from tenure.stores.values import (
    OK,
    AttributeMissing,
    LeaseStatus,
    RunSearch,
    Verdict,
)
from tenure.testing.conformance.run_scene import a_start, a_successor
from tenure.testing.conformance.scene import (
    LONG,
    SUCCEED,
    MakeStore,
    a_job,
    assert_counters_equal_a_recount,
    enqueue,
    lease,
    lease_one,
    line,
    listening,
    record,
    settle,
    success,
)

__all__ = ["RunsInTransactions", "enqueue_in", "settle_in"]


async def enqueue_in(own: OwnTransaction, store: Store, *jobs: NewJob) -> list[str]:
    return [answer.id for answer in await own.caller.arun(store.enqueueing(jobs or (a_job(),)))]


async def settle_in(own: OwnTransaction, store: Store, leased: Lease, transition: Finish = SUCCEED) -> Verdict:
    return await own.caller.arun(store.settling((leased, transition)))


class RunsInTransactions:
    @pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
    async def test_a_run_that_is_started_in_a_transaction_exists_if_that_commits(
        self, database: Store, make_store: MakeStore, commits: bool
    ) -> None:
        other = make_store()
        start = a_start({"a": "1"}, {"a": ("1",)}, reads=("a",), unique="k")
        own = await database.begin()
        await enqueue_in(own, database, start)
        before = await other.run(start.id)

        await (own.commit() if commits else own.rollback())

        assert before is None
        listed = await other.runs(RunSearch(flow="f", lookup=("a", "1")))
        assert [run.id for run in listed.runs] == ([start.id] if commits else [])
        assert await other.attributes(start.id) == ({"a": "1"} if commits else {})
        assert [one.job.attributes for one in await lease(other)] == ([{"a": "1"}] if commits else [])
        [again] = await other.enqueue([a_start(unique="k")])
        assert again.duplicate is commits
        await assert_counters_equal_a_recount(database)

    @pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
    async def test_a_step_that_hands_over_in_a_transaction_has_a_successor_if_that_commits(
        self, database: Store, make_store: MakeStore, commits: bool
    ) -> None:  # I13, F25
        other = make_store()
        [run_id] = await enqueue(database, a_start({"a": "1"}))
        leased = await lease_one(database)
        second = a_successor(run_id, reads=("a", "b"), needs=("a", "b"))
        transition = success("null", successor=second, writes=Writes({"b": "2"}, {"b": ("2",)}))
        own = await database.begin()
        verdict = await settle_in(own, database, leased, transition)
        before = await other.run(run_id)

        await (own.commit() if commits else own.rollback())

        assert verdict == OK
        assert before is not None
        assert (before.step.id, before.step.state) == (run_id, State.RUNNING)
        assert [step.id for step in (await other.steps(run_id)).jobs] == ([run_id, second.id] if commits else [run_id])
        assert await other.attributes(run_id) == ({"a": "1", "b": "2"} if commits else {"a": "1"})
        assert len((await other.runs(RunSearch(flow="f", lookup=("b", "2")))).runs) == int(commits)
        assert await database.lease_status(leased) is (LeaseStatus.SETTLED if commits else LeaseStatus.HELD)
        if not commits:
            assert await settle(database, leased, transition) == OK
        assert (await lease_one(other)).job.attributes == {"a": "1", "b": "2"}
        await assert_counters_equal_a_recount(database)

    async def test_the_last_step_of_a_run_ends_it_with_the_transaction(
        self, database: Store, make_store: MakeStore
    ) -> None:
        waiter = make_store()
        [run_id] = await enqueue(database, a_start(unique="k"))
        [dependent] = await enqueue(database, a_job(queue="d", after=(run_id,)))
        await settle(database, await lease_one(database), success("null", successor=a_successor(run_id)))
        assert await waiter.wait([run_id]) == {}
        await listening(waiter)
        announced = asyncio.ensure_future(anext(aiter(waiter.announcements())))
        last = await lease_one(database)
        own = await database.begin()
        await settle_in(own, database, last, success('"end"'))

        await own.commit()

        assert (await asyncio.wait_for(announced, LONG)).job_id == run_id
        assert (await record(database, dependent)).results == ('"end"',)
        [again] = await database.enqueue([a_start(unique="k")])
        assert not again.duplicate

    async def test_a_hand_over_that_is_refused_leaves_the_transaction_usable(self, database: Store) -> None:  # G19
        [run_id] = await enqueue(database, a_start())
        leased = await lease_one(database)
        own = await database.begin()
        transition = success("null", successor=a_successor(run_id, needs=("x",)), writes=Writes({"y": "1"}))
        verdict = await settle_in(own, database, leased, transition)
        [job_id] = await enqueue_in(own, database)

        await own.commit()

        assert isinstance(verdict.refusal, AttributeMissing)
        assert await database.lease_status(leased) is LeaseStatus.HELD
        assert await database.attributes(run_id) == {}
        assert await line(database) == [job_id]
