"""History: which attempts a job has had, and what became of each."""

from __future__ import annotations

import pytest

from tenure.job import HISTORY, AttemptEnd, AttemptRecord, ErrorInfo, State, attempts_of
from tenure.lifecycle import Finish, Park, Requeue
from tenure.stores.base import Store
from tenure.stores.values import OK
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    RELEASE,
    RETRY,
    SUCCEED,
    MakeStore,
    a_job,
    a_worker,
    enqueue,
    everything,
    lease,
    lease_one,
    lose,
    record,
    settle,
)

__all__ = ["History"]


async def past(store: Store, job_id: str) -> list[AttemptRecord]:
    return list((await record(store, job_id)).attempts)


async def outcomes(store: Store, job_id: str) -> list[tuple[int, str]]:
    return [(each.number, str(each.outcome)) for each in await past(store, job_id)]


class History:
    """Part of the suite: what is remembered of attempts."""

    async def test_an_attempt_that_is_retried_leaves_an_entry(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store)
        began = (leased := await lease_one(store, worker="w1")).job.started_at
        clock.advance(5)
        await settle(store, leased, RETRY)
        [entry] = await past(store, job_id)
        assert entry.started_at == pytest.approx(began, abs=0.01)
        assert entry.ended_at == pytest.approx(entry.started_at + 5, abs=0.5)
        assert (entry.number, entry.fence, entry.worker, entry.outcome) == (1, 1, "w1", AttemptEnd.RETRIED)
        assert entry.error == BOOM

    async def test_entries_come_in_the_order_of_the_attempts(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store, a_job(max_losses=0))
        await settle(store, await lease_one(store, worker="w1"), RETRY)
        await lose(store, clock, await lease_one(store, worker="w2"))
        await settle(store, await lease_one(store, worker="w3"), FAIL)
        entries = await past(store, job_id)
        assert [(each.number, each.fence, each.worker, each.outcome) for each in entries] == [
            (1, 1, "w1", AttemptEnd.RETRIED),
            (2, 2, "w2", AttemptEnd.LOST),
            (3, 3, "w3", AttemptEnd.FAILED),
        ]
        assert entries[1].error is not None
        assert entries[1].error.type == "Lost"

    @pytest.mark.parametrize("end", [State.FAILED, State.BROKEN])
    async def test_the_attempt_that_ended_a_job_without_success_is_one_of_them(self, store: Store, end: State) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), Finish(end, error=BOOM))
        found = await record(store, job_id)
        [entry] = found.attempts
        assert (entry.number, entry.outcome, entry.error) == (1, AttemptEnd(end.value), BOOM)
        assert entry.ended_at == pytest.approx(found.ended_at, abs=0.01)

    async def test_a_success_leaves_none_for_the_job_says_it_itself(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store, worker="w1"), SUCCEED)
        found = await record(store, job_id)
        assert found.attempts == ()
        [told] = attempts_of(found)
        assert (told.number, told.worker, told.outcome) == (1, "w1", AttemptEnd.SUCCEEDED)
        assert told.ended_at == found.ended_at

    async def test_the_attempt_that_runs_is_told_by_the_job_too(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), RETRY)
        await lease_one(store, worker="w2")
        told = attempts_of(await record(store, job_id))
        assert [(each.number, each.worker, each.outcome) for each in told] == [
            (1, "w", AttemptEnd.RETRIED),
            (2, "w2", None),
        ]

    @pytest.mark.parametrize(
        "step",
        [
            RELEASE,
            Requeue(counts=False),
            Requeue(counts=False, missed=True, error=BOOM),
            Park(),
        ],
    )
    async def test_an_attempt_that_is_given_back_leaves_none(self, store: Store, step: Requeue | Park) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), step)
        assert await past(store, job_id) == []

    async def test_a_cancelled_attempt_leaves_one_a_job_that_waits_none(self, store: Store) -> None:
        [running] = await enqueue(store)
        await lease_one(store, worker="w1")
        [waiting] = await enqueue(store)
        await store.cancel([running, waiting])
        [entry] = await past(store, running)
        assert (entry.worker, entry.outcome, entry.error) == ("w1", AttemptEnd.CANCELLED, None)
        assert await past(store, waiting) == []

    async def test_completion_from_outside_ends_the_attempt_that_ran(self, store: Store) -> None:
        [running] = await enqueue(store)
        await lease_one(store)
        [waiting] = await enqueue(store)
        for job_id in (running, waiting):
            assert await store.complete(job_id, SUCCEED) == OK
        assert await outcomes(store, running) == [(1, "completed")]
        assert attempts_of(await record(store, running)) == await past(store, running)
        assert await past(store, waiting) == []

    async def test_an_operators_retry_keeps_what_was_and_counts_anew(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), FAIL)
        await store.retry([job_id])
        await settle(store, await lease_one(store), SUCCEED)
        await store.retry([job_id])
        await settle(store, await lease_one(store), FAIL)
        assert await outcomes(store, job_id) == [(1, "failed"), (1, "succeeded"), (1, "failed")]
        assert [each.fence for each in await past(store, job_id)] == [1, 2, 3]

    async def test_the_retry_of_what_was_completed_from_outside_invents_no_attempt(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), RELEASE)
        await store.complete(job_id, SUCCEED)
        await store.retry([job_id])
        assert await past(store, job_id) == []

    async def test_a_retired_worker_leaves_its_reason(self, store: Store) -> None:
        await store.register(a_worker("w1"))
        [job_id] = await enqueue(store)
        await lease_one(store, worker="w1")
        await store.retire("w1", reason="killed by SIGKILL")
        [entry] = await past(store, job_id)
        assert entry.outcome is AttemptEnd.LOST
        assert entry.error is not None
        assert "killed by SIGKILL" in entry.error.message

    async def test_a_job_that_fails_as_lost_has_one_entry_for_that(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store, a_job(max_losses=1))
        await lose(store, clock, await lease_one(store))
        assert await outcomes(store, job_id) == [(1, "lost")]

    async def test_the_latest_are_kept(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        for _ in range(HISTORY + 3):
            await settle(store, await lease_one(store), RETRY)
        assert [each.number for each in await past(store, job_id)] == list(range(4, HISTORY + 4))

    async def test_errors_are_remembered_in_brief(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        long = ErrorInfo("ValueError", "§ ünï 'quoted' \"\\", "x" * 5_000 + "the end", output="what it wrote")
        await settle(store, await lease_one(store), Requeue(error=long))
        found = await record(store, job_id)
        assert found.error == long
        [entry] = found.attempts
        assert entry.error is not None
        assert (entry.error.type, entry.error.message, entry.error.output) == ("ValueError", long.message, None)
        assert entry.error.traceback is not None
        assert len(entry.error.traceback) == 1_500
        assert entry.error.traceback.endswith("xthe end")

    async def test_a_retry_without_an_error_leaves_an_entry_without_one(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), Requeue())
        [entry] = await past(store, job_id)
        assert (entry.outcome, entry.error) == (AttemptEnd.RETRIED, None)

    async def test_a_stale_holder_enters_nothing(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store)
        stale = await lease_one(store)
        await lose(store, clock, stale)
        await settle(store, stale, RETRY)
        assert await outcomes(store, job_id) == [(1, "lost")]

    async def test_the_winning_settle_repeated_enters_nothing_more(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        leased = await lease_one(store)
        await settle(store, leased, FAIL)
        assert await settle(store, leased, FAIL) == OK
        assert await outcomes(store, job_id) == [(1, "failed")]

    async def test_many_end_in_one_call_each_with_its_own(self, store: Store, make_store: MakeStore) -> None:
        ids = await enqueue(store, *[a_job() for _ in range(30)])
        leases = await lease(store, limit=30)
        steps = [
            RETRY if number % 3 else Finish(State.FAILED, error=ErrorInfo("E", str(number))) for number in range(30)
        ]
        await store.settle(list(zip(leases, steps, strict=True)))
        for number, job_id in enumerate(ids):
            [entry] = await past(make_store(), job_id)
            assert entry.error == (BOOM if number % 3 else ErrorInfo("E", str(number)))

    async def test_listings_and_leases_do_without_it(self, store: Store) -> None:
        await enqueue(store)
        await settle(store, await lease_one(store), RETRY)
        assert (await everything(store))[0].attempts == ()
        assert (await lease_one(store)).job.attempts == ()
