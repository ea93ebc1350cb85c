"""Attempts coming to their end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.job import State
from tenure.lease import Lease
from tenure.lifecycle import Finish, Park, Requeue, Transition
from tenure.stores.base import LEASE_LOST, NOT_FOUND, OK, Settlement, Verdict, refused
from tenure.stores.memory.ending import doomed, drop_unkept, finish, follow
from tenure.stores.memory.enqueueing import add, plan
from tenure.stores.memory.shelves import StoredJob
from tenure.stores.memory.space import Space

__all__ = ["settle"]


def settle(space: Space, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Apply each step under its token; one verdict each."""
    return [_settle(space, lease, step) for lease, step in settlements]


def _settle(space: Space, lease: Lease, step: Transition) -> Verdict:
    job = space.jobs.get(lease.job.id)
    if job is None:
        return NOT_FOUND
    if job.token != lease.token:
        return LEASE_LOST
    if job.state is not State.RUNNING:
        return OK  # This very token has settled it before, and the answer was lost.
    match step:
        case Finish():
            return _finish(space, job, step)
        case Requeue():
            _requeue(space, job, step)
        case Park(timeout):
            _park(space, job, timeout)
    return OK


def _finish(space: Space, job: StoredJob, step: Finish) -> Verdict:
    try:
        planned = plan(space, step.children, [job, *doomed(space, job, step.state)])
    except UniqueConflict as conflict:
        return refused(str(conflict), other=conflict.holder)
    except BlockerNotFound as missing:
        return refused(str(missing), other=missing.blocker)
    if step.state is not State.BROKEN:  # A broken job never ran.
        space.count("processed", job.new.queue, job.worker)
    finish(space, job, step.state, step.result, step.error, by=job.worker, settled=True)
    ended = [job, *follow(space, job, step.state)]
    ended += [add(space, child) for child in planned.coming.values()]
    drop_unkept(space, ended)
    return OK


def _requeue(space: Space, job: StoredJob, step: Requeue) -> None:
    if step.counts:
        space.count("processed", job.new.queue, job.worker)
        space.count("retried", job.new.queue, job.worker)
    with space.changing(job):
        job.state = State.WAITING
        job.error = step.error or job.error
        if not step.counts:
            job.attempt -= 1
        if step.missed:
            job.misses += 1
        elif not step.front:
            job.misses = 0
    if step.front:
        space.wake(job.new.queue)
    else:
        space.join(job, space.clock.wall() + step.delay if step.run_at is None else step.run_at)


def _park(space: Space, job: StoredJob, timeout: float | None) -> None:
    with space.changing(job):
        job.state = State.BLOCKED
        job.parked_until = math.inf if timeout is None else space.clock.wall() + timeout
        job.attempt -= 1
        job.misses = 0
        job.expires_at = None
