"""Memory stores that each break one rule about the history, consequences or event messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tenure.core.job import HISTORY, AttemptEnd, ErrorInfo, State
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.stores.memory import MemoryStore, ending, operating, reading, settling
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import StoredJob
from tenure.stores.values import Change, Verdict, VerdictKind
from tests.stores.mutants import mutant

# History.


def _remember(patch: pytest.MonkeyPatch, remembered: Callable[[StoredJob, AttemptEnd], bool]) -> None:
    """Enter only these attempts."""
    original = Data.enter_attempt

    def enter_attempt(self: Data, job: StoredJob, outcome: AttemptEnd, error: ErrorInfo | None = None) -> None:
        if remembered(job, outcome):
            original(self, job, outcome, error)

    patch.setattr(Data, "enter_attempt", enter_attempt)


@mutant("test_entries_come_in_the_order_of_the_attempts")
def a_loss_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    _remember(patch, lambda job, outcome: outcome is not AttemptEnd.LOST)


@mutant("test_a_cancelled_attempt_leaves_an_entry_and_a_waiting_job_none", machine="long")
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
    original = Data.enter_attempt

    def enter_attempt(self: Data, job: StoredJob, outcome: AttemptEnd, error: ErrorInfo | None = None) -> None:
        if outcome is not AttemptEnd.RETRIED or error is not None:
            original(self, job, outcome, error)

    patch.setattr(Data, "enter_attempt", enter_attempt)


@mutant("test_a_stale_holder_enters_nothing", rules=("work", "settle", "crash"))
def a_stale_holder_enters_its_attempt(patch: pytest.MonkeyPatch) -> None:
    original = settling._settle

    def settle(data: Data, lease: Lease, transition: Transition) -> Verdict:
        verdict = original(data, lease, transition)
        job = data.jobs.get(lease.job.id)
        if job is not None and verdict.kind is VerdictKind.LEASE_LOST and isinstance(transition, Requeue):
            data.enter_attempt(job, AttemptEnd.RETRIED, transition.error)
        return verdict

    patch.setattr(settling, "_settle", settle)


@mutant("test_the_winning_settle_repeated_enters_nothing_more", rules=("work", "settle"))
def a_repeated_settle_enters_its_attempt_again(patch: pytest.MonkeyPatch) -> None:
    original = settling._settle

    def settle(data: Data, lease: Lease, transition: Transition) -> Verdict:
        job = data.jobs.get(lease.job.id)
        again = job is not None and job.state is State.FAILED and job.token == lease.token
        verdict = original(data, lease, transition)
        if again and job is not None:
            data.enter_attempt(job, AttemptEnd.FAILED, job.error)
        return verdict

    patch.setattr(settling, "_settle", settle)


@mutant("test_an_attempt_that_is_given_back_leaves_no_entry", transition=Requeue(counts=False))
def an_attempt_that_is_given_back_leaves_an_entry(patch: pytest.MonkeyPatch) -> None:
    original = settling.requeue

    def requeue(data: Data, job: StoredJob, transition: Requeue) -> None:
        if not transition.counts:
            data.enter_attempt(job, AttemptEnd.RETRIED, transition.error)
        original(data, job, transition)

    patch.setattr(settling, "requeue", requeue)


@mutant("test_an_attempt_that_is_given_back_leaves_no_entry", transition=Park())
def an_attempt_that_parks_its_job_leaves_an_entry(patch: pytest.MonkeyPatch) -> None:
    original = settling._settle

    def settle(data: Data, lease: Lease, transition: Transition) -> Verdict:
        job = data.jobs.get(lease.job.id)
        if job is not None and job.state is State.RUNNING and job.token == lease.token and isinstance(transition, Park):
            data.enter_attempt(job, AttemptEnd.RETRIED)
        return original(data, lease, transition)

    patch.setattr(settling, "_settle", settle)


@mutant("test_a_success_without_output_leaves_no_entry")
def a_success_leaves_an_entry_too(patch: pytest.MonkeyPatch) -> None:
    original = settling._finish

    def finish(data: Data, job: StoredJob, transition: Finish) -> Verdict:
        if transition.state is State.SUCCEEDED:
            data.enter_attempt(job, AttemptEnd.SUCCEEDED)
        return original(data, job, transition)

    patch.setattr(settling, "_finish", finish)


@mutant("test_a_success_that_leaves_output_leaves_an_entry", machine="long")
def the_output_of_a_success_is_lost(patch: pytest.MonkeyPatch) -> None:
    original = settling._finish
    patch.setattr(
        settling, "_finish", lambda data, job, transition: original(data, job, replace(transition, output=None))
    )


@mutant("test_an_operators_retry_enters_no_attempt_twice", machine="long")
def an_operators_retry_enters_the_attempt_once_more(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(data: Data, job: StoredJob) -> Verdict:
        before = job.attempts
        job.attempts = ()
        try:
            return original(data, job)
        finally:
            job.attempts = (*before, *job.attempts)

    patch.setattr(operating, "_retry", retry)


@mutant("test_the_output_of_an_attempt_is_in_its_entry", machine="never", end="retried")
def only_a_success_has_output(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "tenure.stores.memory.data.in_brief",
        lambda left: left if left is None or not left.type else replace(left, output=None),
    )


@mutant("test_the_latest_entries_are_kept", machine="never")
def every_attempt_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tenure.stores.memory.data.HISTORY", 1_000_000)


@mutant("test_the_latest_entries_are_kept", machine="never")
def the_first_attempts_are_kept(patch: pytest.MonkeyPatch) -> None:
    _remember(patch, lambda job, outcome: len(job.attempts) < HISTORY)


@mutant("test_errors_are_remembered_in_brief", machine="never")
def errors_are_remembered_at_length(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tenure.stores.memory.data.in_brief", lambda error: error)


@mutant("test_an_operators_retry_keeps_what_was_and_counts_anew", machine="long")
def an_operators_retry_begins_a_new_history(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(data: Data, job: StoredJob) -> Verdict:
        verdict = original(data, job)
        if verdict.kind is VerdictKind.OK:
            job.attempts = ()
        return verdict

    patch.setattr(operating, "_retry", retry)


# Consequences and blockers.


def _report(patch: pytest.MonkeyPatch, reported: Callable[[Change], bool]) -> None:
    """Report only these changes."""
    original = Data.report

    def message(self: Data, change: Change, job: StoredJob) -> None:
        if reported(change):
            original(self, change, job)

    patch.setattr(Data, "report", message)


@mutant("test_an_unblocked_job_is_reported", machine="long")
def unblocked_jobs_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    _report(patch, lambda change: change is not Change.UNBLOCKED)


@mutant("test_jobs_that_fail_with_their_blocker_are_reported_level_by_level")
def jobs_that_fail_with_their_blocker_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    _report(patch, lambda change: change is not Change.FAILED)


@mutant("test_an_expired_job_is_reported", machine="long")
def expired_jobs_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    _report(patch, lambda change: change is not Change.EXPIRED)


@mutant("test_a_parked_step_that_is_overdue_is_reported", machine="long")
def overdue_steps_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    _report(patch, lambda change: change is not Change.OVERDUE)


@mutant("test_a_job_that_is_taken_in_is_reported", machine="long")
def jobs_that_are_taken_in_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    _report(patch, lambda change: change is not Change.ENQUEUED)


@mutant("test_a_job_whose_blocker_has_ended_before_is_reported_only_if_it_fails", machine="never")
def a_job_whose_blocker_has_ended_before_is_reported_as_unblocked(patch: pytest.MonkeyPatch) -> None:
    original = ending._close
    patch.setattr(ending, "_close", lambda *edge, reported: original(*edge, reported=True))


@mutant("test_what_was_named_is_no_consequence", machine="long")
def a_trigger_is_reported(patch: pytest.MonkeyPatch) -> None:
    original = operating._trigger

    def trigger(data: Data, job: StoredJob) -> Verdict:
        verdict = original(data, job)
        if verdict.kind is VerdictKind.OK:
            data.report(Change.UNBLOCKED, job)
        return verdict

    patch.setattr(operating, "_trigger", trigger)


@mutant("test_what_a_job_waits_for_is_named_in_order", machine="long")
def blockers_that_have_ended_are_named_too(patch: pytest.MonkeyPatch) -> None:
    def blockers(data: Data, job_id: str, limit: int) -> list[str]:
        job = data.jobs.get(job_id)
        return [] if job is None or job.state is not State.BLOCKED else list(job.new.after)[:limit]

    patch.setattr(reading, "blockers", blockers)


# Event messages.


def _publish(patch: pytest.MonkeyPatch, changed: Callable[[Sequence[str]], Sequence[str]]) -> None:
    original = MemoryStore.publish
    patch.setattr(MemoryStore, "publish", lambda self, messages: original(self, changed(messages)))


@mutant("test_every_watcher_receives_every_message_in_order", machine="never")
def messages_come_out_of_order(patch: pytest.MonkeyPatch) -> None:
    _publish(patch, lambda messages: messages[::-1])


@mutant("test_messages_may_be_long_and_of_any_text", machine="never")
def long_messages_are_cut(patch: pytest.MonkeyPatch) -> None:
    _publish(patch, lambda messages: [message[:1_000] for message in messages])


@mutant("test_a_message_without_a_watcher_is_no_error", machine="never")
def a_watcher_receives_what_came_before_it(patch: pytest.MonkeyPatch) -> None:
    missed: list[str] = []
    original = MemoryStore.publish

    async def publish(self: MemoryStore, messages: Sequence[str]) -> None:
        missed.extend(messages)
        if await self.watched():
            await original(self, missed)
            missed.clear()

    patch.setattr(MemoryStore, "publish", publish)


# Ids.


@mutant("test_ids_are_found_by_how_they_begin", machine="never")
def ids_are_found_by_what_is_in_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "ids", lambda data, prefix, limit: [each for each in data.jobs if prefix in each][:limit])


@mutant("test_no_more_ids_are_given_than_were_asked_for", machine="never")
def more_ids_are_given_than_were_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "ids", lambda data, prefix, limit: [each for each in data.jobs if each.startswith(prefix)])
