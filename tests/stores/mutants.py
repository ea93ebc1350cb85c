"""Memory stores that each break one rule of the contract. A suite that passes one of them proves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tenure.core.inbox import read
from tenure.core.job import State, new_id
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Requeue, Transition
from tenure.stores.memory import ending, enqueueing, inbox, leasing, operating, settling
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import Edge, Index, Queue, StoredJob
from tenure.stores.values import Leased, LeaseRequest, Verdict

Mutation = Callable[[pytest.MonkeyPatch], None]
Machine = Literal["always", "long", "never"]


@dataclass(frozen=True)
class Mutant:
    mutate: Mutation
    caught_by: str
    """The test of the conformance suite that must not pass."""

    arguments: dict[str, Any]
    """What that test is given besides the usual fixtures."""

    machine: Machine
    """When the state machine must find it too: never if only an announcement shows it, in long runs if it takes long."""

    rules: tuple[str, ...]
    """The rules of the state machine that lead to it, if all of them together take long to; the rest is left to long runs."""


MUTANTS: dict[str, Mutant] = {}


def mutant(
    caught_by: str, *, machine: Machine = "always", rules: tuple[str, ...] = (), **arguments: Any
) -> Callable[[Mutation], Mutation]:
    def enter(mutate: Mutation) -> Mutation:
        MUTANTS[mutate.__name__] = Mutant(mutate, caught_by, arguments, machine, rules)
        return mutate

    return enter


@mutant("test_a_stale_holder_cannot_settle_what_another_one_holds", machine="long", transition=Requeue())
def settle_asks_for_no_token(patch: pytest.MonkeyPatch) -> None:
    _settle_as_holder_if(patch, lambda job, lease: True)


@mutant("test_a_stale_attempt_of_the_same_worker_is_refused", machine="long", transition=Requeue())
def settle_asks_only_for_the_worker(patch: pytest.MonkeyPatch) -> None:
    _settle_as_holder_if(patch, lambda job, lease: job.worker == lease.job.worker)


def _settle_as_holder_if(patch: pytest.MonkeyPatch, trusted: Callable[[StoredJob, Lease], bool]) -> None:
    original = settling._settle

    def settle(data: Data, lease: Lease, transition: Transition) -> Verdict:
        job = data.jobs.get(lease.job.id)
        if job is not None and job.state is State.RUNNING and job.token is not None and trusted(job, lease):
            lease = replace(lease, token=job.token)
        return original(data, lease, transition)

    patch.setattr(settling, "_settle", settle)


@mutant("test_the_winning_settle_repeated_is_ok_and_changes_nothing", transition=Requeue())
def a_repeated_settle_is_refused(patch: pytest.MonkeyPatch) -> None:
    original = settling.settle

    def settle(data: Data, settlements: Any) -> list[Verdict]:
        verdicts = original(data, settlements)
        for lease, _ in settlements:
            if (job := data.jobs.get(lease.job.id)) and job.state is not State.RUNNING:
                job.token = None
        return verdicts

    patch.setattr(settling, "settle", settle)


@mutant("test_tokens_of_a_job_grow_over_its_whole_life", machine="long")
def release_gives_the_fence_back(patch: pytest.MonkeyPatch) -> None:
    original = settling.requeue

    def requeue(data: Data, job: StoredJob, transition: Requeue) -> None:
        original(data, job, transition)
        job.fence -= transition.front

    patch.setattr(settling, "requeue", requeue)


@mutant("test_a_lease_that_has_not_expired_is_left_alone")
def reap_takes_what_has_not_expired(patch: pytest.MonkeyPatch) -> None:
    original = Queue.due
    patch.setattr(
        Queue,
        "due",
        lambda queue, index, now, limit: original(queue, index, math.inf if index is Index.RUNNING else now, limit),
    )


@mutant("test_a_release_goes_to_the_front_as_if_nothing_had_happened")
def requeue_goes_to_the_wrong_end(patch: pytest.MonkeyPatch) -> None:
    original = settling.requeue
    patch.setattr(
        settling,
        "requeue",
        lambda data, job, transition: original(data, job, replace(transition, front=not transition.front)),
    )


@mutant("test_an_expired_job_goes_to_the_front_with_a_loss")
def reap_goes_to_the_back(patch: pytest.MonkeyPatch) -> None:
    original = leasing._lose

    def lose(data: Data, job: StoredJob, *reason: str) -> Any:
        reaped = original(data, job, *reason)
        if not reaped.failed:
            data.join(job)
        return reaped

    patch.setattr(leasing, "_lose", lose)


@mutant("test_the_key_is_free_as_soon_as_the_job_has_ended", end="cancelled")
def cancel_does_not_free_the_unique_key(patch: pytest.MonkeyPatch) -> None:
    original = ending.finish

    def finish(data: Data, job: StoredJob, state: State, *rest: Any, **more: Any) -> None:
        original(data, job, state, *rest, **more)
        if state is State.CANCELLED and job.new.unique is not None:
            data.keys[job.new.task, job.new.unique] = job

    patch.setattr(ending, "finish", finish)


@mutant("test_a_leased_job_runs_and_its_attempt_is_counted_already")
def the_attempt_is_not_counted_at_the_lease(patch: pytest.MonkeyPatch) -> None:
    original = leasing._lease

    def lease(data: Data, job: StoredJob, request: LeaseRequest, *, solo: bool = False) -> Lease:
        leased = original(data, job, request, solo=solo)
        with data.changing(job):
            job.attempt -= 1
        return leased

    patch.setattr(leasing, "_lease", lease)


@mutant("test_two_blockers_that_complete_at_once_free_the_dependent_once", machine="long")
def the_second_blocker_loses_the_dependent(patch: pytest.MonkeyPatch) -> None:
    original = ending._close

    def close(data: Data, edge: Edge, result: str | None, *, reported: bool) -> None:
        if len(edge.dependent.edges) > 1 and edge.dependent.blocked_by == 1:
            edge.open = False
            edge.result = result
            data.unlink(edge)
        else:
            original(data, edge, result, reported=reported)

    patch.setattr(ending, "_close", close)


@mutant("test_nothing_in_line_leases_nothing_and_leaves_no_trace")
def an_idle_lease_leaves_a_queue_behind(patch: pytest.MonkeyPatch) -> None:
    original = leasing.lease

    def lease(data: Data, request: LeaseRequest) -> Leased:
        for name in request.queues:
            data.queue(name)
        return original(data, request)

    patch.setattr(leasing, "lease", lease)


@mutant("test_a_suspect_is_handed_out_only_alone", machine="long")
def suspects_are_handed_out_with_others(patch: pytest.MonkeyPatch) -> None:
    original = leasing._hand_out

    def hand_out(data: Data, queues: Any, request: LeaseRequest) -> list[Lease]:
        leases = original(data, queues, request)
        suspects = [id_ for queue in queues for id_ in queue.ids(Index.SUSPECTS)]
        if leases and len(leases) < request.limit and suspects:
            leases.append(leasing._lease(data, data.jobs[suspects[0]], request))
        return leases

    patch.setattr(leasing, "_hand_out", hand_out)


@mutant("test_a_suspect_of_another_task_still_waits_for_a_worker_that_holds_nothing", machine="long")
def a_worker_with_isolated_tasks_gets_any_suspect(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leasing, "_may_have", lambda request, suspect: request.solo or bool(request.isolated))


@mutant("test_a_worker_that_isolates_the_task_gets_its_suspect_while_it_holds_other_jobs", machine="long")
def isolated_suspects_wait_for_a_worker_that_holds_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leasing, "_may_have", lambda request, suspect: request.solo)


@mutant("test_an_old_token_has_no_say_after_an_operators_retry", machine="long")
def a_retry_by_an_operator_begins_a_new_fence(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(data: Data, job: StoredJob) -> Verdict:
        verdict = original(data, job)
        if verdict.kind == "ok":
            job.fence = 0
        return verdict

    patch.setattr(operating, "_retry", retry)


def _release(patch: pytest.MonkeyPatch, spoil: Callable[[Data, StoredJob, Token | None], object]) -> None:
    """Let each operator's release be followed by something that must not happen."""
    original = operating._release

    def release(data: Data, job: StoredJob) -> Verdict:
        token = job.token
        verdict = original(data, job)
        if verdict.kind == "ok":
            spoil(data, job, token)
        return verdict

    patch.setattr(operating, "_release", release)


@mutant("test_the_token_of_a_released_job_is_dead", machine="long", transition=Requeue())
def a_released_job_remembers_its_token(patch: pytest.MonkeyPatch) -> None:
    _release(patch, lambda _, job, token: setattr(job, "token", token))


@mutant("test_a_running_job_is_released_to_its_place_as_if_it_had_not_been_leased", machine="long")
def a_released_job_goes_to_the_back(patch: pytest.MonkeyPatch) -> None:
    _release(patch, lambda data, job, _: data.join(job))


@mutant("test_a_running_job_is_released_to_its_place_as_if_it_had_not_been_leased", machine="long")
def a_release_counts_the_attempt(patch: pytest.MonkeyPatch) -> None:
    _release(patch, lambda _, job, __: setattr(job, "attempt", job.attempt + 1))


@mutant("test_a_running_job_is_released_to_its_place_as_if_it_had_not_been_leased", machine="long")
def a_release_counts_as_a_loss(patch: pytest.MonkeyPatch) -> None:
    _release(patch, lambda data, job, _: data.count("lost", job.new.queue, job.worker))


@mutant("test_a_call_that_raises_has_stored_nothing")
def a_refused_enqueue_leaves_jobs_behind(patch: pytest.MonkeyPatch) -> None:
    original = enqueueing.enqueue

    def enqueue(data: Data, jobs: Any) -> Any:
        return [answer for job in jobs for answer in original(data, [job])]

    patch.setattr(enqueueing, "enqueue", enqueue)


@mutant("test_totals_survive_retention")
def totals_forget_what_is_removed(patch: pytest.MonkeyPatch) -> None:
    original = ending.remove

    def remove(data: Data, job: StoredJob) -> None:
        original(data, job)
        if job.state.final:
            data.queues[job.new.queue].totals[job.state.value] -= 1

    patch.setattr(ending, "remove", remove)


@mutant("test_a_queue_that_stays_empty_is_forgotten", machine="long")
def queues_are_never_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(operating, "_forget_quiet", lambda *_: None)


@mutant("test_totals_survive_retention", machine="long")
def queues_are_forgotten_with_their_last_job(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(operating, "_forget_quiet", lambda data, queue: data.queues.pop(queue.name))


@mutant("test_a_queue_is_not_forgotten_if_a_job_came_and_went", machine="never")
def queues_are_forgotten_although_jobs_came_and_went(patch: pytest.MonkeyPatch) -> None:
    original = operating._forget_quiet

    def forget_quiet(data: Data, queue: Queue) -> None:
        if queue.quiet is not None:
            queue.quiet = queue.quiet[0], queue.totals.total()
        original(data, queue)

    patch.setattr(operating, "_forget_quiet", forget_quiet)


@mutant("test_an_id_makes_a_push_that_is_repeated_one_job", machine="long")
def an_entry_is_a_new_job_whatever_its_id(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inbox, "read", lambda *entry: (replace(read(*entry)[0], id=new_id()), read(*entry)[1]))


@mutant("test_a_lease_says_that_something_lies_in_an_inbox", machine="long")
def the_inbox_of_a_busy_queue_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    original = leasing.lease

    def lease(data: Data, request: LeaseRequest) -> Leased:
        leased = original(data, request)
        return replace(leased, inbox=leased.inbox and not leased.leases)

    patch.setattr(leasing, "lease", lease)


@mutant("test_a_suspect_is_not_kept_waiting_by_the_queues_before_its_own", machine="long")
def a_suspect_waits_for_the_queues_before_its_own(patch: pytest.MonkeyPatch) -> None:
    original = leasing._hand_out

    def hand_out(data: Data, queues: Any, request: LeaseRequest) -> list[Lease]:
        busy = next((number for number, queue in enumerate(queues) if queue.indexes[Index.LINE]), len(queues))
        return original(data, queues[: busy + 1], request)

    patch.setattr(leasing, "_hand_out", hand_out)


@mutant("test_what_has_ended_or_was_taken_is_held_no_more", machine="long")
def every_job_of_the_worker_is_listed_as_held_by_its_request(patch: pytest.MonkeyPatch) -> None:
    def leases_of(data: Data, request: LeaseRequest) -> list[Lease]:
        running = [job for job in data.jobs.values() if job.state is State.RUNNING and job.worker == request.worker]
        return [request.given(data.record(job)) for job in running]

    patch.setattr(leasing, "leases_of", leases_of)


@mutant("test_jobs_of_skipped_tasks_are_passed_over_and_keep_their_places", machine="long")
def what_is_passed_over_goes_to_the_back(patch: pytest.MonkeyPatch) -> None:
    original = leasing._hand_out

    def hand_out(data: Data, queues: Any, request: LeaseRequest) -> list[Lease]:
        for id_ in [id_ for queue in queues for id_ in queue.ids(Index.LINE)]:
            if data.jobs[id_].new.task in request.skip_tasks:
                data.join(data.jobs[id_])
        return original(data, queues, request)

    patch.setattr(leasing, "_hand_out", hand_out)


@mutant("test_what_is_passed_over_does_not_count_for_the_limit", machine="long")
def what_is_passed_over_counts_for_the_limit(patch: pytest.MonkeyPatch) -> None:
    original = leasing._hand_out

    def hand_out(data: Data, queues: Any, request: LeaseRequest) -> list[Lease]:
        first = [id_ for queue in queues for id_ in queue.ids(Index.LINE)][: request.limit]
        skipped = sum(data.jobs[id_].new.task in request.skip_tasks for id_ in first)
        return original(data, queues, replace(request, limit=request.limit - skipped))

    patch.setattr(leasing, "_hand_out", hand_out)


@mutant("test_a_suspect_of_a_skipped_task_does_not_stand_before_others", machine="long")
def suspects_are_handed_out_whatever_is_skipped(patch: pytest.MonkeyPatch) -> None:
    original = leasing._suspects
    patch.setattr(
        leasing, "_suspects", lambda data, queues, request: original(data, queues, replace(request, skip_tasks=()))
    )


@mutant("test_an_empty_answer_names_the_tasks_that_were_passed_over", machine="long")
def no_task_is_named_as_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leasing, "_passed_over", lambda data, queues, request: ())


@mutant("test_a_lease_looks_for_other_tasks_only_so_far_ahead", machine="never")
def a_lease_looks_at_the_whole_line(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leasing, "LOOK_AHEAD", 1_000_000)


@mutant("test_no_lease_is_longer_than_its_request_says")
def a_lease_lasts_as_long_as_its_job_says(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseRequest, "length", lambda request, own: request.ttl if own is None else own)
