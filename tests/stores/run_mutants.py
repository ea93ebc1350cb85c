"""Memory stores that each break one rule about runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from tenure.core import lifecycle
from tenure.core.job import State, Writes
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Transition
from tenure.core.options import Retention
from tenure.errors import BlockerNotFound, MissingAttribute
from tenure.stores.memory import ending, enqueueing, leasing, operating, settling
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import Run, StoredJob
from tenure.stores.values import AnnouncementKind, LeaseRequest, Verdict
from tests.stores.mutants import mutant


@mutant("test_a_successor_that_needs_what_the_run_has_not_is_refused")
def the_successor_is_enqueued_by_a_second_operation(patch: pytest.MonkeyPatch) -> None:
    original = settling._finish

    def finish(data: Data, job: StoredJob, transition: Finish) -> Verdict:
        verdict = original(data, job, replace(transition, successor=None))
        if verdict.kind == "ok" and transition.successor is not None:
            job.successor = transition.successor.id
            with suppress(MissingAttribute, BlockerNotFound):
                enqueueing.enqueue(data, [transition.successor])
        return verdict

    patch.setattr(settling, "_finish", finish)


@mutant("test_a_successor_that_needs_what_the_run_has_not_is_refused")
def the_needs_of_a_successor_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(enqueueing, "_check_attributes", lambda *needs: None)


@mutant("test_a_hand_over_is_not_announced_to_the_waiters_of_the_run", machine="never")
def waiters_of_a_run_are_notified_at_its_first_hand_over(patch: pytest.MonkeyPatch) -> None:
    original = ending.finish

    def finish(data: Data, job: StoredJob, *rest: Any, **more: Any) -> None:
        original(data, job, *rest, **more)
        data.notify_waiters(job, AnnouncementKind.DONE)

    for module in (ending, settling):
        patch.setattr(module, "finish", finish)


@mutant("test_the_unique_key_of_a_start_is_held_until_the_run_ends", machine="long")
def the_key_of_a_run_is_freed_at_its_first_hand_over(patch: pytest.MonkeyPatch) -> None:
    original = settling.carry_out

    def carry_out(data: Data, job: StoredJob, *rest: Any, **more: Any) -> None:
        original(data, job, *rest, **more)
        data.free_key(job)

    patch.setattr(settling, "carry_out", carry_out)


@mutant("test_a_job_waits_for_the_run_not_for_its_first_step", machine="long")
def dependents_of_a_run_wait_for_its_first_step(patch: pytest.MonkeyPatch) -> None:
    original = ending._open_edges_to

    def propagate(data: Data, blocker: StoredJob, ended: str, **more: Any) -> list[StoredJob]:
        failed = propagated(data, blocker, ended, **more)
        for edge in original(data, [blocker]) if blocker.begins_run and blocker.successor is not None else ():
            ending._close(data, edge, blocker.result, reported=True)
        return failed

    propagated = ending.propagate
    patch.setattr(settling, "propagate", propagate)


@mutant("test_a_stale_holder_cannot_hand_over", rules=("runs_go_on", "settle", "crash"))
def a_stale_holder_writes_attributes(patch: pytest.MonkeyPatch) -> None:
    original = settling._settle

    def settle(data: Data, lease: Lease, transition: Transition) -> Verdict:
        job = data.jobs.get(lease.job.id)
        if job is not None and job.run is not None and isinstance(transition, Finish):
            job.run.write(transition.writes)
        return original(data, lease, transition)

    patch.setattr(settling, "_settle", settle)


@mutant("test_steps_of_a_live_run_are_never_pruned", machine="long")
def steps_of_a_live_run_are_pruned(patch: pytest.MonkeyPatch) -> None:
    original = operating.prune

    def prune(data: Data, default: Retention, queues: Any, limit: int) -> int:
        live = [run for run in data.runs.values() if not run.steps[-1].state.final]
        for run in live:
            for step in run.steps[1:-1]:
                ending.remove(data, step)
                run.steps.remove(step)
            if len(run.steps) == 2 and run.steps[0].new.unique is None:
                data.queues[run.steps[0].new.queue].remove(run.steps[0])
                del data.jobs[run.steps[0].new.id]
                del run.steps[0]
        return original(data, default, queues, limit)

    patch.setattr(operating, "prune", prune)


@mutant("test_cancelling_a_run_cancels_its_current_step", machine="long")
def the_id_of_a_run_means_its_first_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Data, "resolve", lambda data, id_: data.jobs.get(id_))


@mutant("test_a_step_that_has_handed_over_is_not_retried", machine="long")
def a_step_that_has_handed_over_is_retried(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(data: Data, job: StoredJob) -> Verdict:
        job.successor = None
        return original(data, job)

    patch.setattr(operating, "_retry", retry)


@mutant("test_a_retried_run_takes_its_key_again_or_is_refused", machine="never")
def a_run_that_is_retried_goes_on_without_its_key(patch: pytest.MonkeyPatch) -> None:
    original = operating._retry

    def retry(data: Data, job: StoredJob) -> Verdict:
        verdict = original(data, job)
        if verdict.kind == "ok" and job.run is not None and not job.begins_run:
            data.free_key(job.run.steps[0])
        return verdict

    patch.setattr(operating, "_retry", retry)


@mutant("test_a_step_parked_with_a_way_out_comes_in_line_when_its_time_is_over", machine="long")
def a_step_fails_in_spite_of_its_way_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        leasing, "_unpark", lambda data, job: ending.end(data, job, State.FAILED, error=lifecycle.WAIT_TIMEOUT)
    )


@mutant("test_a_lease_gives_the_attributes_that_the_step_reads_and_no_others", machine="long")
def a_lease_gives_all_attributes(patch: pytest.MonkeyPatch) -> None:
    original = leasing._lease

    def lease(data: Data, job: StoredJob, request: LeaseRequest, *, solo: bool = False) -> Lease:
        leased = original(data, job, request, solo=solo)
        if job.run is None:
            return leased
        return replace(leased, job=replace(leased.job, attributes=dict(job.run.attributes)))

    patch.setattr(leasing, "_lease", lease)


@mutant("test_a_step_may_change_what_its_run_is_found_by", machine="long")
def what_a_run_is_found_by_is_never_taken_back(patch: pytest.MonkeyPatch) -> None:
    def write(run: Run, writes: Writes | None) -> None:
        if writes is not None:
            run.attributes |= writes.attributes
            for name, values in writes.lookups.items():
                run.lookups[name] = (*run.lookups.get(name, ()), *values)

    patch.setattr(Run, "write", write)


@mutant("test_a_run_is_deleted_as_a_whole", by="run")
def attributes_outlive_their_run(patch: pytest.MonkeyPatch) -> None:
    original = ending.remove

    def remove(data: Data, job: StoredJob) -> None:
        run = job.run
        original(data, job)
        if run is not None and job is run.steps[0]:
            data.runs[job.new.id] = Run(run.flow, run.number, attributes=run.attributes)
            data.runs[job.new.id].steps.append(job)

    patch.setattr(ending, "remove", remove)


@mutant("test_a_join_that_fails_as_soon_as_it_comes_is_the_end_of_the_run", machine="never")
def a_join_that_fails_at_once_leaves_others_waiting(patch: pytest.MonkeyPatch) -> None:
    original = ending.propagate

    def propagate(data: Data, blocker: StoredJob, ended: str, *, only: StoredJob) -> list[StoredJob]:
        others = [edge for edges in data.dependents.values() for edge in edges if edge.dependent is not only]
        for edge in others:
            data.unlink(edge)
        failed = original(data, blocker, ended, only=only)
        for edge in others:
            data.link(edge)
        return failed

    patch.setattr(enqueueing, "propagate", propagate)
