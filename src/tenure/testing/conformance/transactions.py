"""Tests of transactions: enqueue and settle in a transaction of the caller, on stores that are databases."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.job import ErrorInfo, State
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Finish, Requeue
from tenure.errors import TenureError, UniqueConflict
from tenure.stores.base import Store
from tenure.stores.values import LEASE_LOST, NOT_FOUND, OK, UNCHANGED, LeaseStatus, Renewal, VerdictKind
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_transactions import RunsInTransactions, enqueue_in, settle_in
from tenure.testing.conformance.scene import (
    LONG,
    RETRY,
    SUCCEED,
    MakeStore,
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

__all__ = ["Transactions"]

A_MOMENT = 0.1
"""Seconds to wait for something that must not happen yet."""


class Transactions(RunsInTransactions):
    @pytest.fixture
    def database(self, store: Store) -> Store:
        assert store.transactional
        return store

    # Enqueueing.

    async def test_what_is_enqueued_in_a_transaction_exists_once_that_commits(
        self, database: Store, make_store: MakeStore
    ) -> None:
        other = make_store()
        own = await database.begin()
        [job_id] = await enqueue_in(own, database)
        before = await other.get([job_id])

        await own.commit()

        assert before == [None]
        assert (await lease_one(other)).job.id == job_id
        await assert_counters_equal_a_recount(database)

    async def test_what_was_enqueued_in_a_transaction_that_is_rolled_back_never_existed(self, database: Store) -> None:
        own = await database.begin()
        [job_id] = await enqueue_in(own, database, a_job(unique="k"))

        await own.rollback()

        assert await database.get([job_id]) == [None]
        assert await lease(database) == []
        assert await enqueue(database, a_job(unique="k")) != [job_id]
        await assert_counters_equal_a_recount(database)

    async def test_a_refused_enqueue_leaves_the_transaction_usable(self, database: Store) -> None:
        [holder] = await enqueue(database, a_job(unique="k"))
        own = await database.begin()
        [first] = await enqueue_in(own, database)

        with pytest.raises(UniqueConflict) as refusal:
            await enqueue_in(own, database, a_job(), a_job(unique="k", unique_raises=True))
        [last] = await enqueue_in(own, database)
        await own.commit()

        assert refusal.value.holder == holder
        assert await line(database) == [holder, first, last]

    async def test_a_waiting_worker_is_woken_by_the_commit_and_not_before(
        self, database: Store, make_store: MakeStore
    ) -> None:  # Q36
        idle = make_store()
        own = await database.begin()
        waiting = asyncio.create_task(idle.wait_for_work(["q"], 30))
        await asyncio.sleep(A_MOMENT)  # the worker has looked and found nothing
        await enqueue_in(own, database)
        await asyncio.wait([waiting], timeout=A_MOMENT)
        woken_before = waiting.done()

        await own.commit()

        await asyncio.wait_for(waiting, LONG)
        assert not woken_before

    async def test_a_transaction_reads_what_it_has_enqueued(self, database: Store, make_store: MakeStore) -> None:
        other = make_store()
        [old] = await enqueue(database, a_job(payload=b'{"args":["\xc3\xa9"]}', tags=("a",), headers={"x": "y"}))
        own = await database.begin()
        [new] = await enqueue_in(own, database, a_job(unique="k", delay=60))

        found = await own.caller.arun(database.getting([new, "gone", old]))
        outside = await other.get([new])
        await own.commit()

        assert outside == [None]
        assert found == await other.get([new, "gone", old])
        assert found[0] is not None

    async def test_a_transaction_reads_what_it_has_settled(self, database: Store) -> None:
        await enqueue(database)
        leased = await lease_one(database)
        await database.settle([(leased, Requeue(0.0, error=ErrorInfo("E", "why")))])
        leased = await lease_one(database)
        own = await database.begin()
        await settle_in(own, database, leased, Finish(State.SUCCEEDED, '"done"'))

        [found] = await own.caller.arun(database.getting([leased.job.id]))
        await own.commit()

        assert found == await record(database, leased.job.id)
        assert (found.result, len(found.attempts)) == ('"done"', 1)

    # Settling.

    async def test_a_job_that_is_settled_in_a_transaction_is_final_once_that_commits(
        self, database: Store, make_store: MakeStore
    ) -> None:
        other = make_store()
        await database.register(a_worker())
        await enqueue(database)
        leased = await lease_one(database)
        own = await database.begin()
        verdict = await settle_in(own, database, leased, Finish(State.SUCCEEDED, '"done"'))
        before = await state(other, leased.job.id)

        await own.commit()

        job = await record(other, leased.job.id)
        assert (verdict, before) == (OK, State.RUNNING)
        assert (job.state, job.result, job.worker) == (State.SUCCEEDED, '"done"', "w")
        assert (await counts(database)).totals.processed == 1
        [worker] = await database.workers()
        assert (worker.totals.processed, worker.totals.succeeded) == (1, 1)
        await assert_counters_equal_a_recount(database)

    async def test_a_settle_that_is_rolled_back_leaves_the_job_held(self, database: Store) -> None:
        await enqueue(database)
        leased = await lease_one(database)
        own = await database.begin()
        await settle_in(own, database, leased)

        await own.rollback()

        assert await database.lease_status(leased) is LeaseStatus.HELD
        assert await database.renew([Renewal(leased, 30)]) == [None]
        assert await settle(database, leased, SUCCEED) == OK
        await assert_counters_equal_a_recount(database)

    async def test_children_are_created_by_the_commit(self, database: Store, make_store: MakeStore) -> None:
        other = make_store()
        await enqueue(database)
        leased = await lease_one(database)
        child = a_job()
        own = await database.begin()
        await settle_in(own, database, leased, Finish(State.SUCCEEDED, "1", None, (child,)))
        before = await other.get([child.id])

        await own.commit()

        assert before == [None]
        assert await line(database) == [child.id]

    async def test_children_that_are_refused_leave_the_transaction_usable(self, database: Store) -> None:
        await enqueue(database, a_job(), a_job(unique="k"))
        leased = await lease_one(database)
        own = await database.begin()
        children = (a_job(), a_job(unique="k", unique_raises=True))
        verdict = await settle_in(own, database, leased, Finish(State.SUCCEEDED, "1", None, children))
        await enqueue_in(own, database)

        await own.commit()

        assert verdict.kind is VerdictKind.REFUSED
        assert await database.lease_status(leased) is LeaseStatus.HELD
        assert len(await line(database)) == 2

    async def test_a_stale_token_settles_nothing_in_a_transaction(
        self, database: Store, clock: ManualClock
    ) -> None:  # I5
        await enqueue(database)
        stale = await lease_one(database)
        await lose(database, clock, stale)
        lost = await lease_one(database)
        foreign = Lease(lost.job, Token(lost.token.fence, lost.token.nonce ^ 1), 30, number=lost.number)
        own = await database.begin()

        verdicts = [await settle_in(own, database, each) for each in (stale, foreign)]
        await own.commit()

        assert verdicts == [LEASE_LOST, LEASE_LOST]
        assert await state(database, lost.job.id) is State.RUNNING

    @pytest.mark.parametrize("transition", [SUCCEED, RETRY], ids=["ended", "to be tried again"])
    async def test_a_lease_that_was_settled_before_is_lost_to_a_transaction(
        self, database: Store, transition: Finish
    ) -> None:  # I6
        await enqueue(database)
        leased = await lease_one(database)
        await settle(database, leased, transition)
        own = await database.begin()

        assert await settle_in(own, database, leased) == LEASE_LOST
        await own.rollback()

    async def test_a_job_that_is_gone_is_not_found_in_a_transaction(self, database: Store) -> None:
        await enqueue(database)
        leased = await lease_one(database)
        await database.delete([leased.job.id])
        own = await database.begin()

        assert await settle_in(own, database, leased) == NOT_FOUND
        await own.rollback()

    async def test_the_commit_announces_the_result_to_its_waiters(self, database: Store, make_store: MakeStore) -> None:
        waiter = make_store()
        [job_id] = await enqueue(database)
        leased = await lease_one(database)
        assert await waiter.wait([job_id]) == {}
        await listening(waiter)
        announced = asyncio.ensure_future(anext(aiter(waiter.announcements())))
        own = await database.begin()
        await settle_in(own, database, leased)
        await asyncio.wait([announced], timeout=A_MOMENT)
        announced_before = announced.done()

        await own.commit()

        assert (await asyncio.wait_for(announced, LONG)).job_id == job_id
        assert not announced_before

    async def test_what_an_open_transaction_has_settled_is_neither_taken_nor_waited_for(
        self, database: Store, make_store: MakeStore, clock: ManualClock
    ) -> None:
        if database.one_writer:
            pytest.skip("an open transaction blocks all other writers")
        other = make_store()
        await enqueue(database, a_job(), a_job())
        settled, neighbour = await lease(database)
        own = await database.begin()
        await settle_in(own, database, settled)

        async with asyncio.timeout(LONG):
            renewed = await other.renew([Renewal(settled, 60), Renewal(neighbour, 60)])
            clock.advance(settled.ttl)
            reaped = await other.reap(["q"])
            others = await other.settle([(neighbour, SUCCEED)])
        await own.commit()

        assert (renewed, reaped, others) == ([UNCHANGED, None], [], [OK])
        assert await state(database, settled.job.id) is State.SUCCEEDED

    # The status of a lease.

    async def test_lease_status_says_what_became_of_the_job(self, database: Store, clock: ManualClock) -> None:
        await enqueue(database, *[a_job() for _ in range(4)])
        held, ended, requeued, deleted = await lease(database)
        await database.settle([(ended, SUCCEED), (requeued, RETRY)])
        await database.delete([deleted.job.id])

        assert [await database.lease_status(each) for each in (held, ended, requeued, deleted)] == [
            LeaseStatus.HELD,
            LeaseStatus.SETTLED,
            LeaseStatus.SETTLED,
            LeaseStatus.GONE,
        ]

    @pytest.mark.parametrize("how", ["cancelled", "completed", "reaped", "leased again", "ended and tried again"])
    async def test_a_lease_that_others_have_ended_is_lost(self, database: Store, clock: ManualClock, how: str) -> None:
        await enqueue(database)
        leased = await lease_one(database)
        match how:
            case "cancelled":
                await database.cancel([leased.job.id])
            case "completed":
                await database.complete(leased.job.id, success("1"))
            case "reaped":
                await lose(database, clock, leased)
            case "leased again":
                await settle(database, leased, RETRY)
                await lease_one(database)
            case _:
                await settle(database, leased, SUCCEED)
                await database.retry([leased.job.id])

        assert await database.lease_status(leased) is LeaseStatus.LOST

    @pytest.mark.parametrize("commits", [True, False])
    async def test_lease_status_waits_for_an_open_transaction(
        self, database: Store, make_store: MakeStore, commits: bool
    ) -> None:
        await enqueue(database)
        leased = await lease_one(database)
        own = await database.begin()
        await settle_in(own, database, leased)
        answer = asyncio.create_task(make_store().lease_status(leased))
        await asyncio.wait([answer], timeout=A_MOMENT)
        answered_before = answer.done()

        await (own.commit() if commits else own.rollback())

        assert await answer is (LeaseStatus.SETTLED if commits else LeaseStatus.HELD)
        assert not answered_before

    async def test_a_job_that_is_not_kept_is_gone_with_the_commit(self, database: Store) -> None:
        await enqueue(database, a_job(keep=0.0))
        leased = await lease_one(database)
        own = await database.begin()
        await settle_in(own, database, leased)

        await own.commit()

        assert await database.lease_status(leased) is LeaseStatus.GONE

    # Transactions of a job.

    async def test_statements_are_counted_and_give_rows(self, database: Store) -> None:
        own = await database.begin()

        await own.execute("CREATE TEMPORARY TABLE effects (n integer)")
        changed = await own.execute("INSERT INTO effects VALUES (1), (2), (3)")
        removed = await own.execute("DELETE FROM effects WHERE n > 1")
        rows = await own.fetch("SELECT n, n + 1 FROM effects")
        await own.rollback()

        assert (changed, removed) == (3, 2)
        assert [tuple(row) for row in rows] == [(1, 2)]

    async def test_what_the_database_says_to_a_statement_is_not_the_stores_error(self, database: Store) -> None:
        own = await database.begin()

        with pytest.raises(Exception) as error:  # noqa: PT011  (the driver's)
            await own.execute("INSERT INTO nowhere VALUES (1)")
        await own.rollback()

        assert not isinstance(error.value, TenureError)
        assert "nowhere" in str(error.value)
        await (await database.begin()).rollback()

    async def test_a_read_only_transaction_cannot_write(self, database: Store) -> None:
        await enqueue(database)
        leased = await lease_one(database)
        own = await database.begin(writes=False)

        with pytest.raises(Exception):  # noqa: B017, PT011  (the driver's)
            await settle_in(own, database, leased)
        await own.rollback()

        assert await database.lease_status(leased) is LeaseStatus.HELD

    async def test_a_read_only_transaction_does_not_block_writers(self, database: Store) -> None:
        own = await database.begin(writes=False)
        [[before]] = await own.fetch("SELECT 1")

        async with asyncio.timeout(LONG):
            await enqueue(database)
            await settle(database, await lease_one(database), SUCCEED)
        await own.commit()

        assert before == 1
