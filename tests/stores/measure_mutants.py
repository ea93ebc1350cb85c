"""Memory stores that each break one rule about measures: the history, marks, and when jobs became ready."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from tenure.core.lifecycle import Requeue
from tenure.core.measures import EVER, RESOLUTIONS
from tenure.stores.memory import history, leasing, operating, settling
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import Queue, StoredJob
from tenure.stores.values import Verdict
from tenure.testing.conformance.measuring import (
    by_a_release,
    by_an_operators_retry,
    by_its_time,
    by_its_unblocking,
)
from tests.stores.mutants import mutant

# When a job became ready.


@mutant("test_a_job_knows_when_it_last_became_due", way=by_its_time)
def a_promotion_leaves_ready_at(patch: pytest.MonkeyPatch) -> None:
    original = leasing._promote

    def promote(data: Data, queue: Queue) -> None:
        before = {id_: job.ready_at for id_, job in data.jobs.items() if job.run_at is not None}
        original(data, queue)
        for id_, ready_at in before.items():
            data.jobs[id_].ready_at = ready_at

    patch.setattr(leasing, "_promote", promote)


@mutant("test_a_job_knows_when_it_last_became_due", way=by_its_time)
def a_promoted_job_is_ready_when_it_is_promoted(patch: pytest.MonkeyPatch) -> None:
    original = leasing._promote

    def promote(data: Data, queue: Queue) -> None:
        scheduled = [job for job in data.jobs.values() if job.run_at is not None]
        original(data, queue)
        for job in scheduled:
            if job.run_at is None:
                job.ready_at = data.clock.wall()

    patch.setattr(leasing, "_promote", promote)


@mutant("test_a_job_knows_when_it_last_became_due", rules=("work", "settle", "time_passes"), way=by_a_release)
def a_release_resets_ready_at(patch: pytest.MonkeyPatch) -> None:
    original = settling.requeue

    def requeue(data: Data, job: StoredJob, transition: Requeue) -> None:
        original(data, job, transition)
        if transition.front:
            job.ready_at = data.clock.wall()

    patch.setattr(settling, "requeue", requeue)


@mutant("test_a_job_knows_when_it_last_became_due", way=by_its_unblocking)
def only_a_lease_makes_jobs_ready(patch: pytest.MonkeyPatch) -> None:
    original = Data.join

    def join(data: Data, job: StoredJob, run_at: float | None = None) -> None:
        ready_at = job.ready_at
        original(data, job, run_at)
        job.ready_at = ready_at

    patch.setattr(Data, "join", join)


@mutant(
    "test_a_job_knows_when_it_last_became_due",
    rules=("complete", "time_passes", "operate_on_jobs"),
    way=by_an_operators_retry,
)
def an_operators_retry_leaves_ready_at(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(data: Data, job: StoredJob) -> Verdict:
        ready_at = job.ready_at
        verdict = original(data, job)
        job.ready_at = ready_at
        return verdict

    patch.setattr(operating, "_retry", retry)


@mutant("test_the_oldest_is_the_job_that_has_been_due_the_longest")
def the_oldest_is_the_next(patch: pytest.MonkeyPatch) -> None:
    original = Queue.first_of_each_priority
    patch.setattr(Queue, "first_of_each_priority", lambda queue: original(queue)[:1])


# The history.


@mutant("test_what_is_recorded_is_added_up_in_every_resolution")
def history_is_added_to_one_resolution(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "RESOLUTIONS", {10: RESOLUTIONS[10]})


@mutant("test_what_is_recorded_is_added_up_in_every_resolution")
def there_is_no_slot_since_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "_kept", lambda resolution, *_: resolution != EVER)


@mutant("test_each_slot_has_rows_apart")
def slots_begin_at_any_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "slot_of", lambda resolution, now: now if resolution else 0.0)


@mutant("test_gauges_are_those_of_the_latest_and_the_greatest_age", rules=("measure", "time_passes"))
def gauges_are_added(patch: pytest.MonkeyPatch) -> None:
    def added(before: Mapping[str, float], later: Mapping[str, float]) -> dict[str, float]:
        return {name: before.get(name, 0) + later.get(name, 0) for name in before.keys() | later.keys()}

    patch.setattr(history, "merge_gauges", added)


@mutant("test_gauges_are_those_of_the_latest_and_the_greatest_age", rules=("measure", "time_passes"))
def the_latest_age_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "merge_gauges", lambda before, later: {**before, **later})


@mutant("test_what_is_recorded_is_added_up_in_every_resolution")
def counts_are_replaced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "merge_counts", lambda before, later: {**before, **later})


@mutant("test_a_slot_has_a_bounded_number_of_rows", machine="never")
def rows_have_no_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "ROWS", sys.maxsize)


@mutant("test_old_slots_are_gone")
def slots_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "_kept", lambda *_: True)


@mutant("test_the_latest_marks_are_kept", machine="never")
def marks_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "MARKS", sys.maxsize)
