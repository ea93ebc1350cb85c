"""Two steps at the same time, statement by statement and in every order: one of them wins, and nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.core.job import State, new_id
from tenure.core.lease import AbortReason, Lease, new_nonce
from tenure.core.lifecycle import Finish, Transition
from tenure.core.options import Retention
from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.jobs.lost_answers import release_granted
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import UNCHANGED, Enqueued, LeaseRequest, Renewal, VerdictKind
from tenure.testing.conformance.scene import (
    FAIL,
    RETRY,
    SUCCEED,
    a_job,
    counts,
    enqueue,
    everything,
    lease,
    lease_one,
    record,
    settle,
    state,
    success,
)

from .stepping import Call, Race, calling

EXPIRED = 0.0001
"""Seconds of a lease that is over when the next call is made."""

NOTHING = Retention(succeeded=0, failed=0, count=1)
"""Which prunes whatever has ended."""


async def a_lease(store: PostgresStore, ttl: float = 30.0, **job: Any) -> Lease:
    """A job of a queue of its own, which is held."""
    queue = new_id()
    await enqueue(store, a_job(queue=queue, **job))
    return await lease_one(store, queue, ttl=ttl, worker=queue)


def settling(*settlements: tuple[Lease, Transition]) -> Call:
    async def call(store: PostgresStore) -> list[VerdictKind]:
        return [verdict.kind for verdict in await store.settle(settlements)]

    return call


# Leasing.


async def test_of_two_who_lease_one_job_one_gets_it(race: Race) -> None:  # I4
    async for order in race.orders():
        queue = new_id()
        await enqueue(race.store, a_job(queue=queue))

        one, other = await race.run(order, *[calling(lease, queue)] * 2)

        assert len(one) + len(other) == 1
        assert not race.waited


async def test_those_who_lease_together_share_what_there_is(race: Race) -> None:  # I4, I10
    async for order in race.orders(3):
        queue = new_id()
        ids = await enqueue(race.store, *(a_job(queue=queue) for _ in range(4)), a_job(queue=queue, delay=0.000_1))
        [expired] = await enqueue(race.store, a_job(queue=queue, expires=0.000_1))

        leased = await race.run(order, *[calling(lease, queue, limit=2)] * 3)

        assert max(len(leases) for leases in leased) <= 2
        left = await lease(race.store, queue)
        assert sorted(each.job.id for leases in [*leased, left] for each in leases) == sorted(ids)
        assert await state(race.store, expired) is State.CANCELLED
        assert not race.waited


# Settling.


@pytest.mark.parametrize("step", [SUCCEED, RETRY, Finish(State.SUCCEEDED, "1", children=(a_job(),))])
async def test_of_a_settle_and_a_reap_one_wins(race: Race, step: Transition) -> None:  # F8, I4, I5, I6
    async for order in race.orders():
        held = await a_lease(race.store, EXPIRED)

        [verdict], reaped = await race.run(order, settling((held, step)), calling(PostgresStore.reap, [held.job.queue]))

        assert (verdict, len(reaped)) in [("ok", 0), ("lease_lost", 1)]
        assert (await record(race.store, held.job.id)).losses == len(reaped)
        assert 1 not in race.waited, "what is about to be settled is passed over"


async def test_of_a_return_without_an_answer_and_a_reap_one_wins(race: Race) -> None:  # F8, F16, I7
    async for order in race.orders():
        queue = new_id()
        [job] = await enqueue(race.store, a_job(queue=queue))
        request = LeaseRequest(queues=(queue,), limit=1, worker=queue, ttl=EXPIRED, nonce=new_nonce())
        await race.store.lease(request)

        _, reaped = await race.run(order, calling(release_granted, request), calling(PostgresStore.reap, [queue]))

        left = await record(race.store, job)
        assert (left.state, left.losses, left.attempt) == ("waiting", len(reaped), len(reaped))


async def test_of_a_renewal_and_a_reap_one_wins(race: Race) -> None:  # F8, I4
    async for order in race.orders():
        held = await a_lease(race.store, EXPIRED)

        [reason], reaped = await race.run(
            order,
            calling(PostgresStore.renew, [Renewal(held, ttl=30)]),
            calling(PostgresStore.reap, [held.job.queue]),
        )

        assert (reason, len(reaped)) in [(None, 0), (AbortReason.TAKEN, 1)]
        assert 0 not in race.waited


OUTSIDE: dict[str, Any] = {
    "cancel": lambda store, held: store.cancel([held.job.id]),
    "complete": lambda store, held: store.complete(held.job.id, success("7")),
    "delete": lambda store, held: store.delete([held.job.id]),
    "retire": lambda store, held: store.retire(held.job.queue),  # which the worker is called, too
}


@pytest.mark.parametrize("act", OUTSIDE)
async def test_of_a_settle_and_an_end_from_outside_one_wins(race: Race, act: str) -> None:  # F8, I5, I6
    won = set()
    async for order in race.orders():
        held = await a_lease(race.store)

        [verdict], answer = await race.run(order, settling((held, SUCCEED)), calling(OUTSIDE[act], held))

        [left] = await race.store.get([held.job.id])
        won.add(verdict)
        match act, verdict:
            case "cancel", "ok":
                assert (answer[0].kind, answer[0].state) == ("refused", "succeeded")
                assert left and left.result == "42"
            case "cancel", _:
                assert (verdict, answer[0].kind, left and left.state) == ("lease_lost", "ok", "cancelled")
            case "complete", "ok":
                assert (answer.kind, left and left.result) == ("refused", "42")
            case "complete", _:
                assert (verdict, answer.kind, left and left.result) == ("lease_lost", "ok", "7")
            case "delete", _:
                assert (answer, left) == ([held.job.id], None)
                assert verdict in {"ok", "not_found"}
            case "retire", "ok":
                assert (answer, left and left.state) == ([], "succeeded")
            case _:
                assert (verdict, len(answer), left and left.state) == ("lease_lost", 1, "waiting")
    assert len(won) == 2


@pytest.mark.parametrize("act", ["reap", "renew", "cancel", "settle"])
async def test_of_a_completion_in_a_transaction_and_anything_else_one_wins(race: Race, act: str) -> None:  # F8, I4, I6
    async def complete(store: PostgresStore, held: Lease) -> VerdictKind:
        own = await store.begin()
        verdict = await own.caller.arun(store.settling((held, SUCCEED)))
        await own.commit()
        return verdict.kind

    acts: dict[str, Callable[[Lease], Call]] = {
        "reap": lambda held: calling(PostgresStore.reap, [held.job.queue]),
        "renew": lambda held: calling(PostgresStore.renew, [Renewal(held, ttl=30)]),
        "cancel": lambda held: calling(PostgresStore.cancel, [held.job.id]),
        "settle": lambda held: settling((held, SUCCEED)),
    }
    async for order in race.orders():
        held = await a_lease(race.store, EXPIRED if act == "reap" else 30)

        verdict, answer = await race.run(order, calling(complete, held), acts[act](held))

        ended = await state(race.store, held.job.id)
        match act:
            case "reap":
                assert (verdict, len(answer), ended) in [("ok", 0, "succeeded"), ("lease_lost", 1, "waiting")]
            case "renew":
                assert (verdict, ended) == ("ok", "succeeded")
                assert answer in ([None], [UNCHANGED], [AbortReason.COMPLETED])
            case "cancel":
                assert (verdict, answer[0].kind, ended) in [
                    ("ok", "refused", "succeeded"),
                    ("lease_lost", "ok", "cancelled"),
                ]
            case _:
                # What others have ended is not ended again by a transaction with writes of its own.
                assert (verdict, answer) in [("ok", ["ok"]), ("lease_lost", ["ok"])]
                assert ended is State.SUCCEEDED
        assert act not in {"reap", "renew"} or 1 not in race.waited


async def test_the_same_settle_twice_at_once_is_one(race: Race) -> None:  # I6
    async for order in race.orders():
        held = await a_lease(race.store)
        settles = settling((held, Finish(State.SUCCEEDED, "1", children=(child := a_job(queue=held.job.queue),))))

        assert await race.run(order, settles, settles) == [["ok"], ["ok"]]

        assert (await counts(race.store, held.job.queue)).totals.processed == 1
        assert await state(race.store, child.id) is State.WAITING


# Unique keys.


@pytest.mark.parametrize("raises", [False, True])
async def test_of_two_jobs_with_one_key_one_is_stored(race: Race, raises: bool) -> None:  # I14
    waited: set[int] = set()
    async for order in race.orders():
        key = new_id()
        jobs = [a_job(unique=key, unique_raises=raises) for _ in range(2)]

        answers = await race.run(order, *(calling(PostgresStore.enqueue, [job]) for job in jobs))

        waited |= race.waited
        stored = [isinstance(answer, list) and not answer[0].duplicate for answer in answers]
        assert sorted(stored) == [False, True]
        holder, loser = jobs[stored.index(True)], answers[stored.index(False)]
        if raises:
            assert isinstance(loser, UniqueConflict)
        else:
            assert loser == [Enqueued(holder.id, State.WAITING, duplicate=True)]
        assert [each is not None for each in await race.store.get([job.id for job in jobs])] == stored
    assert waited == {0, 1}, "the second waits for the end of the first"


async def test_keys_that_are_asked_for_in_another_order_are_given_out_all_the_same(race: Race) -> None:  # I14
    async for order in race.orders():
        one, other = (new_id() for _ in range(2))
        calls = [[a_job(unique=one), a_job(unique=other)], [a_job(unique=other), a_job(unique=one)]]

        answers = await race.run(order, *(calling(PostgresStore.enqueue, jobs) for jobs in calls))

        assert sorted([each.duplicate for each in answer] for answer in answers) == [[False, False], [True, True]]


@pytest.mark.parametrize("end", ["settle", "cancel", "delete"])
async def test_a_key_that_is_freed_goes_to_who_asks_or_names_its_holder(race: Race, end: str) -> None:  # F26, I14
    duplicates = set()
    async for order in race.orders():
        held = await a_lease(race.store, unique=new_id())
        new = a_job(queue=held.job.queue, unique=held.job.unique)
        ends = settling((held, SUCCEED)) if end == "settle" else calling(OUTSIDE[end], held)

        _, [answer] = await race.run(order, ends, calling(PostgresStore.enqueue, [new]))

        duplicates.add(answer.duplicate)
        assert answer.id == (held.job.id if answer.duplicate else new.id)
    assert duplicates == {True, False}


async def test_the_same_enqueue_twice_at_once_is_one_job(race: Race) -> None:  # I2
    for number, unique in ((1, None), (1, "key"), (2, None)):
        async for order in race.orders():
            queue = new_id()
            jobs = [a_job(queue=queue, unique=unique and new_id()) for _ in range(number)]

            answers = await race.run(order, *[calling(PostgresStore.enqueue, jobs)] * 2)

            assert answers == [[Enqueued(job.id, State.WAITING) for job in jobs]] * 2
            assert (await counts(race.store, queue)).waiting == number


# Edges.


@pytest.mark.parametrize(
    ("ends", "if_fails"), [((SUCCEED, SUCCEED), "fail"), ((SUCCEED, FAIL), "fail"), ((FAIL, FAIL), "proceed")]
)
async def test_when_all_blockers_end_at_once_the_dependents_go_on_once(
    race: Race, ends: tuple[Finish, Finish], if_fails: str
) -> None:  # F25, I13
    async for order in race.orders():
        one, other = await a_lease(race.store), await a_lease(race.store)
        queue = new_id()
        await enqueue(race.store, a_job(queue=queue, after=(one.job.id, other.job.id), if_blocker_fails=if_fails))
        await enqueue(race.store, a_job(queue=queue, after=(other.job.id, one.job.id), if_blocker_fails=if_fails))

        answers = await race.run(order, settling((one, ends[0])), settling((other, ends[1])))

        assert answers == [["ok"], ["ok"]]
        failed = if_fails == "fail" and FAIL in ends
        assert [job.state for job in await everything(race.store, queue=queue)] == [
            "failed" if failed else "waiting"
        ] * 2
        totals = (await counts(race.store, queue)).totals
        assert (totals.failed, len(await lease(race.store, queue))) == ((2, 0) if failed else (0, 2))


async def test_batches_that_end_what_the_same_jobs_wait_for_pass_each_other(race: Race) -> None:  # F25, I13
    async for order in race.orders():
        held = [await a_lease(race.store) for _ in range(4)]
        one, two, three, four = (each.job.id for each in held)
        queue = new_id()
        await enqueue(race.store, a_job(queue=queue, after=(one, four)), a_job(queue=queue, after=(three, two)))

        answers = await race.run(
            order,
            settling((held[1], SUCCEED), (held[0], SUCCEED)),
            settling((held[2], SUCCEED), (held[3], SUCCEED)),
        )

        assert answers == [["ok", "ok"], ["ok", "ok"]]
        assert len(await lease(race.store, queue)) == 2


@pytest.mark.parametrize("end", ["settle", "cancel", "delete"])
async def test_a_job_that_comes_while_its_blocker_ends_is_not_forgotten(race: Race, end: str) -> None:  # I13
    found = set()
    async for order in race.orders():
        held = await a_lease(race.store)
        new = a_job(queue=held.job.queue, after=(held.job.id,))
        ends = settling((held, SUCCEED)) if end == "settle" else calling(OUTSIDE[end], held)

        _, answer = await race.run(order, ends, calling(PostgresStore.enqueue, [new]))

        found.add(type(answer) if isinstance(answer, Exception) else await state(race.store, new.id))
    assert (
        found
        == {
            "settle": {State.WAITING},
            "cancel": {State.FAILED},
            "delete": {State.BLOCKED, BlockerNotFound},  # what is waited for is not deleted
        }[end]
    )


async def test_a_dependent_that_is_cancelled_while_its_blocker_ends_ends_once(race: Race) -> None:  # I6, I13
    async for order in race.orders():
        held = await a_lease(race.store)
        [dependent] = await enqueue(race.store, a_job(queue=held.job.queue, after=(held.job.id,)))

        [verdict], [cancelled] = await race.run(
            order, settling((held, FAIL)), calling(PostgresStore.cancel, [dependent])
        )

        assert verdict == "ok"
        ended = await state(race.store, dependent)
        assert (cancelled.kind, ended) in [("ok", "cancelled"), ("refused", "failed")]


# Retention.


async def test_pruning_harms_nobody_who_leases(race: Race) -> None:  # I1
    async for order in race.orders():
        old = await a_lease(race.store)
        await settle(race.store, old, SUCCEED)
        [job] = await enqueue(race.store, a_job(queue=old.job.queue))

        pruned, leased = await race.run(order, calling(PostgresStore.prune, NOTHING, {}), calling(lease, old.job.queue))

        assert (pruned, [each.job.id for each in leased]) == (1, [job])
        assert not race.waited


async def test_a_job_is_pruned_or_revived(race: Race) -> None:  # I1, I20
    verdicts = set()
    async for order in race.orders():
        old = await a_lease(race.store)
        await settle(race.store, old, SUCCEED)

        pruned, [verdict] = await race.run(
            order, calling(PostgresStore.prune, NOTHING, {}), calling(PostgresStore.retry, [old.job.id])
        )

        verdicts.add(verdict.kind)
        assert (pruned, verdict.kind) in [(1, "not_found"), (0, "ok")]
        if verdict.kind == "ok":
            await lease_one(race.store, old.job.queue)
    assert len(verdicts) == 2


async def test_a_job_is_pruned_or_waited_for(race: Race) -> None:
    async for order in race.orders():
        old = await a_lease(race.store)
        await settle(race.store, old, SUCCEED)
        new = a_job(queue=old.job.queue, after=(old.job.id,))

        pruned, answer = await race.run(
            order, calling(PostgresStore.prune, NOTHING, {}), calling(PostgresStore.enqueue, [new])
        )

        if isinstance(answer, BlockerNotFound):
            assert pruned == 1
        else:
            assert await state(race.store, new.id) is State.WAITING


async def an_empty_queue(store: PostgresStore) -> str:
    """A queue that pruning has found empty."""
    old = await a_lease(store, keep=0.0)
    await settle(store, old, SUCCEED)
    await store.prune(NOTHING, {})
    return old.job.queue


@pytest.mark.parametrize("pruners", [1, 2])
async def test_a_job_that_comes_while_its_queue_is_forgotten_is_there(
    race: Race, monkeypatch: pytest.MonkeyPatch, pruners: int
) -> None:
    totals = set()
    async for order in race.orders(1 + pruners):
        monkeypatch.undo()
        queue = await an_empty_queue(race.store)
        monkeypatch.setattr("tenure.stores.postgres.store.QUIET", 0.0)
        new = a_job(queue=queue)

        await race.run(
            order, calling(PostgresStore.enqueue, [new]), *[calling(PostgresStore.prune, NOTHING, {})] * pruners
        )

        [found] = [each for each in await race.store.queues() if each.name == queue]
        assert found.waiting == 1
        assert queue in (await race.store.busy_queues(("*",))).queues
        totals.add((found.totals.processed, found.totals.succeeded))
        assert (await lease_one(race.store, queue)).job.id == new.id
    assert totals == {(0, 0), (1, 1)}


async def test_a_job_is_purged_or_leased(race: Race) -> None:  # I1, I4
    async for order in race.orders():
        queue = new_id()
        await enqueue(race.store, *(a_job(queue=queue) for _ in range(3)))

        purged, leased = await race.run(
            order,
            calling(PostgresStore.purge, queue),
            calling(lease, queue, limit=2),
        )

        left = (await counts(race.store, queue)).waiting
        assert purged + len(leased) + left == 3
        assert len(leased) == (await counts(race.store, queue)).running


# The rest.


async def test_what_lies_in_an_inbox_is_taken_once(race: Race, sql: Any) -> None:  # I2
    async for order in race.orders():
        queue = new_id()
        await sql.execute(
            'INSERT INTO inbox (queue, entry) SELECT $1, \'{"task": "t"}\' FROM generate_series(1, 3)', queue
        )

        taken = await race.run(order, *[calling(PostgresStore.take_in, [queue])] * 2)

        assert sum(taken) == 3
        assert (await counts(race.store, queue)).waiting == 3


async def test_counters_are_right_at_every_instant_of_their_folding(race: Race) -> None:  # I20
    async for order in race.orders():
        queue = new_id()
        await enqueue(race.store, *(a_job(queue=queue) for _ in range(3)))

        folded = calling(PostgresStore.reap, [queue])
        _, _, info = await race.run([*order, 2], folded, folded, calling(counts, queue))

        assert info.waiting == 3


async def test_a_result_that_is_waited_for_is_announced_whenever_it_comes(race: Race) -> None:
    async for order in race.orders():
        held = await a_lease(race.store)

        _, found = await race.run(order, settling((held, SUCCEED)), calling(PostgresStore.wait, [held.job.id]))

        if not found:
            assert (await record(race.store, held.job.id)).state is State.SUCCEEDED
