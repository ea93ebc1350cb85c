"""Tests of the history: the attempts of a job, and how each ended."""

from __future__ import annotations

import pytest

from tenure.core.job import HISTORY, AttemptEnd, AttemptRecord, ErrorInfo, RunStep, State, Writes, attempts_of, new_id
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.core.options import Retention
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
    success,
)

__all__ = ["History"]

WROTE = "§ ünï 'quoted' \"\\\nand more\n"
"""Output of an attempt."""


async def past(store: Store, job_id: str) -> list[AttemptRecord]:
    return list((await record(store, job_id)).attempts)


async def outcomes(store: Store, job_id: str) -> list[tuple[int, str]]:
    return [(each.number, str(each.outcome)) for each in await past(store, job_id)]


class History:
    """Part of the suite."""

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

    async def test_a_success_without_output_leaves_no_entry(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store, worker="w1"), SUCCEED)
        found = await record(store, job_id)
        assert found.attempts == ()
        [attempts] = attempts_of(found)
        assert (attempts.number, attempts.worker, attempts.outcome) == (1, "w1", AttemptEnd.SUCCEEDED)
        assert attempts.ended_at == found.ended_at

    async def test_a_success_that_leaves_output_leaves_an_entry(self, store: Store, clock: ManualClock) -> None:
        [job_id] = await enqueue(store)
        leased = await lease_one(store, worker="w1")
        clock.advance(5)
        assert await settle(store, leased, success(output=WROTE)) == OK
        found = await record(store, job_id)
        [entry] = found.attempts
        assert (found.state, found.result, found.error) == (State.SUCCEEDED, "42", None)
        assert (entry.number, entry.fence, entry.worker, entry.outcome) == (1, 1, "w1", AttemptEnd.SUCCEEDED)
        assert (entry.output, entry.error) == (WROTE, None)
        assert (entry.started_at, entry.ended_at) == (found.started_at, found.ended_at)
        assert attempts_of(found) == [entry]

    @pytest.mark.parametrize("output", [None, ""])
    async def test_a_success_with_empty_output_leaves_no_entry(self, store: Store, output: str | None) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), success(output=output))
        assert await past(store, job_id) == []

    @pytest.mark.parametrize("about", ["unique", "awaited", "blocks", "tried before", "children"])
    async def test_output_of_a_success_leaves_an_entry_for_every_kind_of_job(self, store: Store, about: str) -> None:
        [job_id] = await enqueue(store, a_job(unique="k" if about == "unique" else None))
        transition = success(output=WROTE, children=(a_job(),) if about == "children" else ())
        match about:
            case "awaited":
                await store.wait([job_id])
            case "blocks":
                await enqueue(store, a_job(after=(job_id,)))
            case "tried before":
                await settle(store, await lease_one(store), RETRY)
        assert await settle(store, await lease_one(store), transition) == OK
        entry = (await past(store, job_id))[-1]
        assert (entry.outcome, entry.output, entry.error) == (AttemptEnd.SUCCEEDED, WROTE, None)

    @pytest.mark.parametrize("comes", ["nothing", "writes", "a successor", "a successor that waits"])
    async def test_output_of_a_step_leaves_an_entry(self, store: Store, comes: str) -> None:
        run_id = new_id()
        await enqueue(store, a_job(id=run_id, step=RunStep(run_id=run_id, flow="f")))
        child = a_job(queue="other")
        transition = success(output=WROTE, writes=Writes({"x": "1"}) if comes != "nothing" else None)
        if comes.startswith("a successor"):
            waits = comes.endswith("waits")
            after = a_job(step=RunStep(run_id=run_id, flow="f"), after=(child.id,) if waits else ())
            transition = success(
                output=WROTE, writes=transition.writes, successor=after, children=(child,) if waits else ()
            )
        assert await settle(store, await lease_one(store), transition) == OK
        [entry] = await past(store, run_id)
        assert (entry.outcome, entry.output, entry.error) == (AttemptEnd.SUCCEEDED, WROTE, None)
        assert (await record(store, run_id)).successor == (transition.successor and transition.successor.id)

    async def test_an_operators_retry_enters_no_attempt_twice(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        for _ in range(2):
            await settle(store, await lease_one(store), success(output=WROTE))
            await store.retry([job_id])
        await settle(store, await lease_one(store), SUCCEED)
        await store.retry([job_id])
        entries = await past(store, job_id)
        assert [(each.fence, each.output) for each in entries] == [(1, WROTE), (2, WROTE), (3, None)]

    async def test_much_output_is_kept_of_each_attempt_and_of_no_more_than_are_remembered(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        for number in range(HISTORY + 2):
            await settle(store, await lease_one(store), success(output=f"{number}" * 50_000))
            await store.retry([job_id])
        entries = await past(store, job_id)
        assert [each.output for each in entries] == [f"{number}" * 50_000 for number in range(2, HISTORY + 2)]

    async def test_the_running_attempt_is_the_last_of_the_attempts(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), RETRY)
        await lease_one(store, worker="w2")
        attempts = attempts_of(await record(store, job_id))
        assert [(each.number, each.worker, each.outcome) for each in attempts] == [
            (1, "w", AttemptEnd.RETRIED),
            (2, "w2", None),
        ]

    @pytest.mark.parametrize(
        "transition",
        [
            RELEASE,
            Requeue(counts=False),
            Requeue(counts=False, missed=True, error=BOOM),
            Park(),
        ],
    )
    async def test_an_attempt_that_is_given_back_leaves_no_entry(
        self, store: Store, transition: Requeue | Park
    ) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), transition)
        assert await past(store, job_id) == []

    async def test_a_cancelled_attempt_leaves_an_entry_and_a_waiting_job_none(self, store: Store) -> None:
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

    async def test_the_latest_entries_are_kept(self, store: Store) -> None:
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
        assert (entry.error.type, entry.error.message) == ("ValueError", long.message)
        assert (entry.output, entry.error.output) == ("what it wrote", None)
        assert entry.error.traceback is not None
        assert len(entry.error.traceback) == 1_500
        assert entry.error.traceback.endswith("xthe end")

    async def test_a_retry_without_an_error_leaves_an_entry_without_one(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        await settle(store, await lease_one(store), Requeue())
        [entry] = await past(store, job_id)
        assert (entry.outcome, entry.error) == (AttemptEnd.RETRIED, None)

    @pytest.mark.parametrize("end", ["retried", "failed", "broken"])
    async def test_the_output_of_an_attempt_is_in_its_entry(self, store: Store, end: str) -> None:
        [job_id] = await enqueue(store)
        wrote = ErrorInfo("ValueError", "boom", output=WROTE)
        await settle(
            store, await lease_one(store), Requeue(error=wrote) if end == "retried" else Finish(State(end), error=wrote)
        )
        found = await record(store, job_id)
        [entry] = found.attempts
        assert found.error == wrote
        assert (entry.outcome, entry.output, entry.error) == (end, WROTE, ErrorInfo("ValueError", "boom"))

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

    async def test_the_winning_success_repeated_enters_nothing_more(self, store: Store) -> None:
        [job_id] = await enqueue(store)
        leased = await lease_one(store)
        for _ in range(2):
            assert await settle(store, leased, success(output=WROTE)) == OK
        assert await outcomes(store, job_id) == [(1, "succeeded")]

    async def test_many_end_in_one_call_each_with_its_own(self, store: Store, make_store: MakeStore) -> None:
        ids = await enqueue(store, *[a_job() for _ in range(40)])
        leases = await lease(store, limit=40)
        errors = [ErrorInfo("E", str(number)) for number in range(40)]
        transitions: list[Transition] = []
        for retried, failed, wrote in zip(errors[0::4], errors[1::4], errors[2::4], strict=True):
            transitions += (
                Requeue(error=retried),
                Finish(State.FAILED, error=failed),
                success(output=wrote.message),
                SUCCEED,
            )
        await store.settle(list(zip(leases, transitions, strict=True)))
        for number, (job_id, error) in enumerate(zip(ids, errors, strict=True)):
            left = [(each.error, each.output) for each in await past(make_store(), job_id)]
            assert left == [[(error, None)], [(error, None)], [(None, error.message)], []][number % 4]

    @pytest.mark.parametrize("keep", [None, 0.0])
    async def test_the_history_goes_with_its_job(self, store: Store, clock: ManualClock, keep: float | None) -> None:
        ids = await enqueue(store, *[a_job(keep=keep) for _ in range(2)])
        for transition in (FAIL, success(output=WROTE)):
            await settle(store, await lease_one(store), transition)
        clock.advance(1)
        await store.prune(Retention(succeeded=0, failed=0), {})
        assert await store.get(ids) == [None, None]
        await enqueue(store, *[a_job(id=job_id) for job_id in ids])
        assert [await past(store, job_id) for job_id in ids] == [[], []]

    async def test_listings_and_leases_leave_the_history_out(self, store: Store) -> None:
        await enqueue(store)
        await settle(store, await lease_one(store), RETRY)
        assert (await everything(store))[0].attempts == ()
        assert (await lease_one(store)).job.attempts == ()
