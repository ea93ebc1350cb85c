"""Attempts coming to their end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tenure.core.job import AttemptEnd, State
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.errors import BlockerNotFound, MissingAttribute, UniqueConflict
from tenure.stores.memory.data import Data
from tenure.stores.memory.ending import doomed, drop_unkept, finish, follow
from tenure.stores.memory.enqueueing import Plan, add, plan
from tenure.stores.memory.jobs import StoredJob
from tenure.stores.values import LEASE_LOST, NOT_FOUND, OK, Settlement, Verdict, refused

__all__ = ["carry_out", "planned_for", "refusal_of", "requeue", "settle"]


def settle(data: Data, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Apply each step under its token; one verdict each."""
    return [_settle(data, lease, step) for lease, step in settlements]


def _settle(data: Data, lease: Lease, step: Transition) -> Verdict:
    job = data.jobs.get(lease.job.id)
    if job is None:
        return NOT_FOUND
    if job.token != lease.token:
        return LEASE_LOST
    if job.state is not State.RUNNING:
        return OK  # This very token has settled it before, and the answer was lost.
    match step:
        case Finish():
            return _finish(data, job, step)
        case Requeue():
            requeue(data, job, step)
        case Park():
            _park(data, job, step)
    return OK


def _finish(data: Data, job: StoredJob, step: Finish) -> Verdict:
    try:
        planned = planned_for(data, job, step)
    except (UniqueConflict, BlockerNotFound, MissingAttribute) as refusal:
        return refusal_of(refusal)
    if step.state is not State.BROKEN:  # A broken job never ran.
        data.count("processed", job.new.queue, job.worker)
    if step.state is not State.SUCCEEDED or step.output:
        data.remember(job, AttemptEnd(step.state.value), step.left)
    carry_out(data, job, step, planned, settled=True)
    return OK


def planned_for(data: Data, job: StoredJob, step: Finish) -> Plan:
    """Decide about the jobs that come with the end of this one; raise if they refuse it."""
    if step.successor is not None:
        return plan(data, (*step.children, step.successor), [] if job.begins else [job], step.writes)
    ending = [each for gone in (job, *doomed(data, job, step.state)) for each in gone.over]
    return plan(data, step.children, ending, step.writes)


def refusal_of(error: UniqueConflict | BlockerNotFound | MissingAttribute) -> Verdict:
    """The answer to a step whose jobs cannot be enqueued."""
    match error:
        case UniqueConflict():
            return refused(str(error), other=error.holder)
        case BlockerNotFound():
            return refused(str(error), other=error.blocker)
        case MissingAttribute():
            return refused(str(error))


def carry_out(data: Data, job: StoredJob, step: Finish, planned: Plan, *, settled: bool) -> None:
    """End a job, with all that comes with its end; by its holder, if it is `settled`."""
    if job.run is not None:
        job.run.write(step.writes)
        job.successor = None if step.successor is None else step.successor.id
    finish(data, job, step.state, step.result, step.error, by=job.worker if settled else None, settled=settled)
    ended = [job, *follow(data, job, step.state)]
    ended += [each for coming in planned.coming.values() for each in add(data, coming)]
    drop_unkept(data, ended)


def requeue(data: Data, job: StoredJob, step: Requeue) -> None:
    """Let a running job wait again."""
    if step.counts:
        data.count("processed", job.new.queue, job.worker)
        data.count("retried", job.new.queue, job.worker)
        data.remember(job, AttemptEnd.RETRIED, step.error)
    with data.changing(job):
        job.state = State.WAITING
        job.error = step.error or job.error
        if not step.counts:
            job.attempt -= 1
        if step.missed:
            job.misses += 1
        elif not step.front:
            job.misses = 0
    if step.front:
        data.wake(job.new.queue)
    else:
        data.join(job, data.clock.wall() + step.delay if step.run_at is None else step.run_at)


def _park(data: Data, job: StoredJob, step: Park) -> None:
    with data.changing(job):
        job.state = State.BLOCKED
        job.parked_until = math.inf if step.timeout is None else data.clock.wall() + step.timeout
        job.on_timeout = step.on_timeout
        job.attempt -= 1
        job.misses = 0
        job.expires_at = None
