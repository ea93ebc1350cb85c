"""`settle` applies transitions to jobs that are held: finish, requeue or park."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tenure.core.job import AttemptEnd, State
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.errors import BlockerNotFound, MissingAttribute, UniqueConflict
from tenure.stores.memory.data import Data
from tenure.stores.memory.ending import drop_unkept, failing_with, finish, propagate
from tenure.stores.memory.enqueueing import Plan, add, plan
from tenure.stores.memory.jobs import StoredJob
from tenure.stores.values import LEASE_LOST, NOT_FOUND, OK, Settlement, Verdict, refused_by

__all__ = ["carry_out", "planned_for", "requeue", "settle"]


def settle(data: Data, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Apply each transition if its token is the current one. Returns one verdict each."""
    return [_settle(data, lease, transition) for lease, transition in settlements]


def _settle(data: Data, lease: Lease, transition: Transition) -> Verdict:
    job = data.jobs.get(lease.job.id)
    if job is None:
        return NOT_FOUND
    if job.token != lease.token:
        return LEASE_LOST
    if job.state is not State.RUNNING:
        return OK  # The same token has settled it before, and the answer was lost.
    match transition:
        case Finish():
            return _finish(data, job, transition)
        case Requeue():
            requeue(data, job, transition)
        case Park():
            _park(data, job, transition)
    return OK


def _finish(data: Data, job: StoredJob, transition: Finish) -> Verdict:
    try:
        planned = planned_for(data, job, transition)
    except (UniqueConflict, BlockerNotFound, MissingAttribute) as refusal:
        return refused_by(refusal)
    if transition.state is not State.BROKEN:  # A broken job never ran.
        data.count("processed", job.new.queue, job.worker)
    if transition.state is not State.SUCCEEDED or transition.output:
        data.enter_attempt(job, AttemptEnd(transition.state.value), transition.left)
    carry_out(data, job, transition, planned, settled=True)
    return OK


def planned_for(data: Data, job: StoredJob, transition: Finish) -> Plan:
    """Plan the children and the successor that come with the end of a job. Raises if one of them refuses it."""
    if transition.successor is not None:
        return plan(
            data, (*transition.children, transition.successor), [] if job.begins_run else [job], transition.writes
        )
    ending = [each for gone in (job, *failing_with(data, job, transition.state)) for each in gone.represents]
    return plan(data, transition.children, ending, transition.writes)


def carry_out(data: Data, job: StoredJob, transition: Finish, planned: Plan, *, settled: bool) -> None:
    """End a job, then store its children and its successor. `settled`: by its holder."""
    if job.run is not None:
        job.run.write(transition.writes)
        job.successor = None if transition.successor is None else transition.successor.id
    finish(
        data,
        job,
        transition.state,
        transition.result,
        transition.error,
        by=job.worker if settled else None,
        settled=settled,
    )
    ended = [job, *propagate(data, job, transition.state)]
    ended += [each for coming in planned.coming.values() for each in add(data, coming)]
    drop_unkept(data, ended)


def requeue(data: Data, job: StoredJob, transition: Requeue) -> None:
    """Put a running job back in line, or schedule it."""
    if transition.counts:
        data.count("processed", job.new.queue, job.worker)
        data.count("retried", job.new.queue, job.worker)
        data.enter_attempt(job, AttemptEnd.RETRIED, transition.error)
    with data.changing(job):
        job.state = State.WAITING
        job.error = transition.error or job.error
        if not transition.counts:
            job.attempt -= 1
        if transition.missed:
            job.misses += 1
        elif not transition.front:
            job.misses = 0
    if transition.front:
        data.wake(job.new.queue)
    else:
        data.join(job, data.clock.wall() + transition.delay if transition.run_at is None else transition.run_at)


def _park(data: Data, job: StoredJob, transition: Park) -> None:
    with data.changing(job):
        job.state = State.BLOCKED
        job.parked_until = math.inf if transition.timeout is None else data.clock.wall() + transition.timeout
        job.on_timeout = transition.on_timeout
        job.attempt -= 1
        job.misses = 0
        job.expires_at = None
