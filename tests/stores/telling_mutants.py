"""Memory stores that break one rule about what is remembered of attempts, or told to others, each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tenure.core.job import HISTORY, AttemptEnd, ErrorInfo, State
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.stores.memory import MemoryStore, data, ending, operating, reading, settling
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import StoredJob
from tenure.stores.values import Change, Verdict, VerdictKind
from tests.stores.mutants import mutant

# History.


def _remember(patch: pytest.MonkeyPatch, remembered: Callable[[StoredJob, AttemptEnd], bool]) -> None:
    """Remember only these."""
    original = Data.remember

    def remember(self: Data, job: StoredJob, outcome: AttemptEnd, error: ErrorInfo | None = None) -> None:
        if remembered(job, outcome):
            original(self, job, outcome, error)

    patch.setattr(Data, "remember", remember)


@mutant("test_entries_come_in_the_order_of_the_attempts")
def a_loss_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    _remember(patch, lambda job, outcome: outcome is not AttemptEnd.LOST)


@mutant("test_a_cancelled_attempt_leaves_one_a_job_that_waits_none", machine="long")
def a_cancel_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    _remember(patch, lambda job, outcome: outcome is not AttemptEnd.CANCELLED)


@mutant("test_completion_from_outside_ends_the_attempt_that_ran", machine="long")
def a_completion_from_outside_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    _remember(patch, lambda job, outcome: outcome is not AttemptEnd.COMPLETED)


@mutant("test_an_operators_retry_keeps_what_was_and_counts_anew", machine="long")
def a_success_before_an_operators_retry_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    _remember(patch, lambda job, outcome: outcome is not AttemptEnd.SUCCEEDED)


@mutant("test_a_retry_without_an_error_leaves_an_entry_without_one", machine="never")
def an_attempt_without_an_error_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    original = Data.remember

    def remember(self: Data, job: StoredJob, outcome: AttemptEnd, error: ErrorInfo | None = None) -> None:
        if outcome is not AttemptEnd.RETRIED or error is not None:
            original(self, job, outcome, error)

    patch.setattr(Data, "remember", remember)


@mutant("test_a_stale_holder_enters_nothing")
def a_stale_holder_enters_its_attempt(patch: pytest.MonkeyPatch) -> None:
    original = settling._settle

    def settle(space: Data, lease: Lease, step: Transition) -> Verdict:
        verdict = original(space, lease, step)
        job = space.jobs.get(lease.job.id)
        if job is not None and verdict.kind is VerdictKind.LEASE_LOST and isinstance(step, Requeue):
            space.remember(job, AttemptEnd.RETRIED, step.error)
        return verdict

    patch.setattr(settling, "_settle", settle)


@mutant("test_the_winning_settle_repeated_enters_nothing_more")
def a_repeated_settle_enters_its_attempt_again(patch: pytest.MonkeyPatch) -> None:
    original = settling._settle

    def settle(space: Data, lease: Lease, step: Transition) -> Verdict:
        job = space.jobs.get(lease.job.id)
        again = job is not None and job.state is State.FAILED and job.token == lease.token
        verdict = original(space, lease, step)
        if again and job is not None:
            space.remember(job, AttemptEnd.FAILED, job.error)
        return verdict

    patch.setattr(settling, "_settle", settle)


@mutant("test_an_attempt_that_is_given_back_leaves_none", step=Requeue(counts=False))
def an_attempt_that_is_given_back_leaves_an_entry(patch: pytest.MonkeyPatch) -> None:
    original = settling.requeue

    def requeue(space: Data, job: StoredJob, step: Requeue) -> None:
        if not step.counts:
            space.remember(job, AttemptEnd.RETRIED, step.error)
        original(space, job, step)

    patch.setattr(settling, "requeue", requeue)


@mutant("test_an_attempt_that_is_given_back_leaves_none", step=Park())
def an_attempt_that_parks_its_job_leaves_an_entry(patch: pytest.MonkeyPatch) -> None:
    original = settling._settle

    def settle(space: Data, lease: Lease, step: Transition) -> Verdict:
        job = space.jobs.get(lease.job.id)
        if job is not None and job.state is State.RUNNING and job.token == lease.token and isinstance(step, Park):
            space.remember(job, AttemptEnd.RETRIED)
        return original(space, lease, step)

    patch.setattr(settling, "_settle", settle)


@mutant("test_a_success_leaves_none_for_the_job_says_it_itself")
def a_success_leaves_an_entry_too(patch: pytest.MonkeyPatch) -> None:
    original = settling._finish

    def finish(space: Data, job: StoredJob, step: Finish) -> Verdict:
        if step.state is State.SUCCEEDED:
            space.remember(job, AttemptEnd.SUCCEEDED)
        return original(space, job, step)

    patch.setattr(settling, "_finish", finish)


@mutant("test_a_success_that_leaves_output_leaves_an_entry", machine="long")
def the_output_of_a_success_is_lost(patch: pytest.MonkeyPatch) -> None:
    original = settling._finish
    patch.setattr(settling, "_finish", lambda space, job, step: original(space, job, replace(step, output=None)))


@mutant("test_an_operators_retry_enters_no_attempt_twice", machine="long")
def an_operators_retry_enters_the_attempt_once_more(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(space: Data, job: StoredJob) -> Verdict:
        before = job.attempts
        job.attempts = ()
        try:
            return original(space, job)
        finally:
            job.attempts = (*before, *job.attempts)

    patch.setattr(operating, "_retry", retry)


@mutant("test_what_an_attempt_wrote_is_told_by_its_entry", machine="never", end="retried")
def only_a_success_has_output(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(data, "in_brief", lambda left: left if left is None or not left.type else replace(left, output=None))


@mutant("test_the_latest_are_kept", machine="never")
def every_attempt_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(data, "HISTORY", 1_000_000)


@mutant("test_the_latest_are_kept", machine="never")
def the_first_attempts_are_kept(patch: pytest.MonkeyPatch) -> None:
    _remember(patch, lambda job, outcome: len(job.attempts) < HISTORY)


@mutant("test_errors_are_remembered_in_brief", machine="never")
def errors_are_remembered_at_length(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(data, "in_brief", lambda error: error)


@mutant("test_an_operators_retry_keeps_what_was_and_counts_anew", machine="long")
def an_operators_retry_begins_a_new_history(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(space: Data, job: StoredJob) -> Verdict:
        verdict = original(space, job)
        if verdict.kind is VerdictKind.OK:
            job.attempts = ()
        return verdict

    patch.setattr(operating, "_retry", retry)


# Consequences and blockers.


def _tell(patch: pytest.MonkeyPatch, told: Callable[[Change], bool]) -> None:
    """Tell only of these."""
    original = Data.note

    def note(self: Data, change: Change, job: StoredJob) -> None:
        if told(change):
            original(self, change, job)

    patch.setattr(Data, "note", note)


@mutant("test_who_is_unblocked_is_told", machine="long")
def nobody_is_told_who_is_unblocked(patch: pytest.MonkeyPatch) -> None:
    _tell(patch, lambda change: change is not Change.UNBLOCKED)


@mutant("test_who_fails_with_its_blocker_is_told_level_by_level")
def nobody_is_told_who_fails_with_its_blocker(patch: pytest.MonkeyPatch) -> None:
    _tell(patch, lambda change: change is not Change.FAILED)


@mutant("test_an_expired_job_is_told", machine="long")
def nobody_is_told_who_has_expired(patch: pytest.MonkeyPatch) -> None:
    _tell(patch, lambda change: change is not Change.EXPIRED)


@mutant("test_a_step_that_goes_on_without_its_answer_is_told", machine="long")
def nobody_is_told_who_goes_on_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    _tell(patch, lambda change: change is not Change.OVERDUE)


@mutant("test_what_is_taken_in_is_told", machine="long")
def nobody_is_told_what_was_taken_in(patch: pytest.MonkeyPatch) -> None:
    _tell(patch, lambda change: change is not Change.ENQUEUED)


@mutant("test_who_comes_too_late_to_wait_is_told_only_of_its_failure", machine="never")
def who_comes_too_late_to_wait_is_told_as_unblocked(patch: pytest.MonkeyPatch) -> None:
    original = ending._close
    patch.setattr(ending, "_close", lambda *edge, noted: original(*edge, noted=True))


@mutant("test_what_was_named_is_no_consequence", machine="long")
def a_trigger_is_told_to_whoever_asked_for_it(patch: pytest.MonkeyPatch) -> None:
    original = operating._trigger

    def trigger(space: Data, job: StoredJob) -> Verdict:
        verdict = original(space, job)
        if verdict.kind is VerdictKind.OK:
            space.note(Change.UNBLOCKED, job)
        return verdict

    patch.setattr(operating, "_trigger", trigger)


@mutant("test_what_a_job_waits_for_is_named_in_order", machine="long")
def blockers_that_have_ended_are_named_too(patch: pytest.MonkeyPatch) -> None:
    def blockers(space: Data, job_id: str, limit: int) -> list[str]:
        job = space.jobs.get(job_id)
        return [] if job is None or job.state is not State.BLOCKED else list(job.new.after)[:limit]

    patch.setattr(reading, "blockers", blockers)


# Notes.


def _publish(patch: pytest.MonkeyPatch, changed: Callable[[Sequence[str]], Sequence[str]]) -> None:
    original = MemoryStore.publish
    patch.setattr(MemoryStore, "publish", lambda self, notes: original(self, changed(notes)))


@mutant("test_every_watcher_hears_every_note_in_order", machine="never")
def notes_come_out_of_order(patch: pytest.MonkeyPatch) -> None:
    _publish(patch, lambda notes: notes[::-1])


@mutant("test_notes_may_be_long_and_of_any_text", machine="never")
def long_notes_are_cut(patch: pytest.MonkeyPatch) -> None:
    _publish(patch, lambda notes: [note[:1_000] for note in notes])


@mutant("test_a_note_that_nobody_hears_is_no_error", machine="never")
def a_watcher_hears_what_came_before_it(patch: pytest.MonkeyPatch) -> None:
    missed: list[str] = []
    original = MemoryStore.publish

    async def publish(self: MemoryStore, notes: Sequence[str]) -> None:
        missed.extend(notes)
        if await self.watched():
            await original(self, missed)
            missed.clear()

    patch.setattr(MemoryStore, "publish", publish)


# Ids.


@mutant("test_ids_are_found_by_how_they_begin", machine="never")
def ids_are_found_by_what_is_in_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "ids", lambda space, prefix, limit: [each for each in space.jobs if prefix in each][:limit])


@mutant("test_no_more_ids_are_given_than_were_asked_for", machine="never")
def more_ids_are_given_than_were_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "ids", lambda space, prefix, limit: [each for each in space.jobs if each.startswith(prefix)])
