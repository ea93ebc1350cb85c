"""`end` makes a job final, with its effects on unique keys, edges, waiters and records."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from tenure.core.job import BlockerPolicy, ErrorInfo, State
from tenure.core.lifecycle import blocker_failed, failure_value
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import Edge, StoredJob
from tenure.stores.values import AnnouncementKind, Change

__all__ = ["delete", "drop_unkept", "end", "failing_with", "finish", "propagate", "removable", "remove"]

AWAITED = 60.0
"""Seconds that the record of a final job is kept at least if it has a waiter."""

DELETED = "deleted"
"""How a blocker has ended that was deleted or purged."""


def end(
    data: Data,
    job: StoredJob,
    state: State,
    result: str | None = None,
    error: ErrorInfo | None = None,
    *,
    by: str | None = None,
) -> None:
    """Make a job final, with all effects on others. `by` is the worker that did it, for the totals."""
    finish(data, job, state, result, error, by=by)
    drop_unkept(data, [job, *propagate(data, job, state)])


def finish(
    data: Data,
    job: StoredJob,
    state: State,
    result: str | None = None,
    error: ErrorInfo | None = None,
    *,
    by: str | None = None,
    settled: bool = False,
) -> None:
    """Make one job final: record, token (kept if it `settled` the job), unique key, counters and waiters."""
    with data.changing(job):
        job.state = state
        job.run_at = job.parked_until = job.on_timeout = None
        job.ended_at = data.clock.wall()
        job.result = result
        job.error = None if state is State.SUCCEEDED else error or job.error
    if not settled:
        job.token = None
    data.count(state.value, job.new.queue, by)
    for each in job.represents:
        if each.unique_until is None or state is State.CANCELLED:
            data.free_key(each)
        data.notify_waiters(each, AnnouncementKind.DONE)


def propagate(data: Data, blocker: StoredJob, ended: str, *, only: StoredJob | None = None) -> list[StoredJob]:
    """Propagate the end of a job to its dependents, breadth first. Returns the dependents that failed because of it.

    With `only`, the end of the job itself acts on this dependent alone.
    """
    failed: list[StoredJob] = []
    following = deque([(blocker, ended)])
    while following:
        blocker, ended = following.popleft()
        target, only = only, None
        for edge in _open_edges_to(data, [blocker] if ended == DELETED else blocker.represents):
            dependent = edge.dependent
            if target not in {None, dependent}:
                continue
            policy = dependent.new.if_blocker_fails
            if ended == State.SUCCEEDED:
                _close(data, edge, blocker.result, reported=target is None)
            elif policy is BlockerPolicy.PROCEED:
                _close(data, edge, failure_value(edge.blocker, ended, blocker.error), reported=target is None)
            elif dependent.state is State.BLOCKED and (policy is BlockerPolicy.FAIL or ended == DELETED):
                finish(data, dependent, State.FAILED, error=blocker_failed(edge.blocker, ended))
                data.report(Change.FAILED, dependent)
                following.append((dependent, State.FAILED))
                failed.append(dependent)
    return failed


def _open_edges_to(data: Data, jobs: Iterable[StoredJob]) -> list[Edge]:
    """The open edges to any of these jobs, by the seq of the dependent and then by the order of its `after`."""
    edges = [edge for job in jobs for edge in data.dependents.get(job.new.id, ())]
    return sorted(edges, key=lambda edge: (edge.dependent.seq, edge.position))


def failing_with(data: Data, job: StoredJob, state: State) -> list[StoredJob]:
    """The dependents that `propagate` will fail if a job ends in this state; changes nothing."""
    found: dict[StoredJob, None] = {}
    following = deque(() if state is State.SUCCEEDED else (job,))
    while following:
        for edge in _open_edges_to(data, following.popleft().represents):
            dependent = edge.dependent
            fails = dependent.state is State.BLOCKED and dependent.new.if_blocker_fails is BlockerPolicy.FAIL
            if fails and dependent not in found:
                found[dependent] = None
                following.append(dependent)
    return list(found)


def _close(data: Data, edge: Edge, result: str | None, *, reported: bool) -> None:
    """Close one edge.

    If it was the last, a blocked dependent joins the line; `reported` says whether that is a consequence.
    """
    edge.open = False
    edge.result = result
    data.unlink(edge)
    dependent = edge.dependent
    dependent.open_edges -= 1
    if dependent.state is State.BLOCKED and not dependent.blocked_by:
        data.join(dependent, dependent.run_at)
        if reported:
            data.report(Change.UNBLOCKED, dependent)


def drop_unkept(data: Data, jobs: Iterable[StoredJob]) -> None:
    """Remove those of these jobs that are final with `keep=0`."""
    for job in jobs:
        if job.new.keep == 0 and job.state.final and removable(data, job):
            for each in job.with_run:
                remove(data, each)


def removable(data: Data, job: StoredJob) -> bool:
    """Whether a final job may be removed, together with the other steps if it is the last of a run."""
    assert job.ended_at is not None
    recent = job.ended_at + AWAITED > data.clock.wall()
    return job.successor is None and not any(
        (each.awaited and recent) or _owns_key(data, each) or data.blocked_on(each) for each in job.with_run
    )


def _owns_key(data: Data, job: StoredJob) -> bool:
    return job.new.unique is not None and data.owner(job.new.task, job.new.unique) is job


def remove(data: Data, job: StoredJob) -> None:
    """Remove a job. Open edges to it stay open, because there is no result to close them with."""
    data.queues[job.new.queue].remove(job)
    del data.jobs[job.new.id]
    data.free_key(job)
    for edge in job.edges:
        if edge.open:
            data.unlink(edge)
    data.notify_waiters(job, AnnouncementKind.DELETED)
    if job.begins_run:
        del data.runs[job.new.id]


def delete(data: Data, jobs: Collection[StoredJob]) -> None:
    """Remove jobs in any state. Once all are gone, act on their dependents, in the order of enqueueing."""
    for job in jobs:
        data.revoke(job, AnnouncementKind.DELETED)
        remove(data, job)
    for job in sorted(jobs, key=lambda job: job.number):
        drop_unkept(data, propagate(data, job, DELETED))
