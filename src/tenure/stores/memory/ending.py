"""Jobs becoming final, and what follows from it: unique keys, edges, waiters, records."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from tenure.core.job import BlockerPolicy, ErrorInfo, State
from tenure.core.lifecycle import blocker_failed, failure_value
from tenure.stores.memory.data import Space
from tenure.stores.memory.jobs import Edge, StoredJob
from tenure.stores.values import Change, SignalKind

__all__ = ["delete", "doomed", "drop_unkept", "end", "finish", "follow", "removable", "remove"]

AWAITED = 60.0
"""Seconds that the record of a job is kept at least if somebody has asked to be told of its end."""

DELETED = "deleted"
"""How a blocker has ended that is simply gone."""


def end(
    space: Space,
    job: StoredJob,
    state: State,
    result: str | None = None,
    error: ErrorInfo | None = None,
    *,
    by: str | None = None,
) -> None:
    """Make a job final, with all that follows. `by`: the worker whose doing it was."""
    finish(space, job, state, result, error, by=by)
    drop_unkept(space, [job, *follow(space, job, state)])


def finish(
    space: Space,
    job: StoredJob,
    state: State,
    result: str | None = None,
    error: ErrorInfo | None = None,
    *,
    by: str | None = None,
    settled: bool = False,
) -> None:
    """End one job: its record, token (which is remembered if it has `settled` the job), key, counters and waiters."""
    with space.changing(job):
        job.state = state
        job.run_at = job.parked_until = job.on_timeout = None
        job.ended_at = space.clock.wall()
        job.result = result
        job.error = None if state is State.SUCCEEDED else error or job.error
    if not settled:
        job.token = None
    space.count(state.value, job.new.queue, by)
    for each in job.over:
        if each.unique_until is None or state is State.CANCELLED:
            space.free_key(each)
        space.tell_waiters(each, SignalKind.DONE)


def follow(space: Space, blocker: StoredJob, ended: str, *, only: StoredJob | None = None) -> list[StoredJob]:
    """Tell those who wait for a job how it ended, and those who wait for them in turn if that ends them.

    Gives those whose end it was. `only` this one is told of it, if given.
    """
    failed: list[StoredJob] = []
    following = deque([(blocker, ended)])
    while following:
        blocker, ended = following.popleft()
        told, only = only, None
        for edge in _waiting_for(space, [blocker] if ended == DELETED else blocker.over):
            dependent = edge.dependent
            if told not in {None, dependent}:
                continue
            policy = dependent.new.if_blocker_fails
            if ended == State.SUCCEEDED:
                _close(space, edge, blocker.result, noted=told is None)
            elif policy is BlockerPolicy.PROCEED:
                _close(space, edge, failure_value(edge.blocker, ended, blocker.error), noted=told is None)
            elif dependent.state is State.BLOCKED and (policy is BlockerPolicy.FAIL or ended == DELETED):
                finish(space, dependent, State.FAILED, error=blocker_failed(edge.blocker, ended))
                space.note(Change.FAILED, dependent)
                following.append((dependent, State.FAILED))
                failed.append(dependent)
    return failed


def _waiting_for(space: Space, jobs: Iterable[StoredJob]) -> list[Edge]:
    """The open edges to any of these jobs, in the order of who waits, and in his own."""
    edges = [edge for job in jobs for edge in space.dependents.get(job.new.id, ())]
    return sorted(edges, key=lambda edge: (edge.dependent.seq, edge.position))


def doomed(space: Space, job: StoredJob, state: State) -> list[StoredJob]:
    """Whom the end of a job in this state will take along, by `follow`; changing nothing."""
    found: dict[StoredJob, None] = {}
    following = deque(() if state is State.SUCCEEDED else (job,))
    while following:
        for edge in _waiting_for(space, following.popleft().over):
            dependent = edge.dependent
            fails = dependent.state is State.BLOCKED and dependent.new.if_blocker_fails is BlockerPolicy.FAIL
            if fails and dependent not in found:
                found[dependent] = None
                following.append(dependent)
    return list(found)


def _close(space: Space, edge: Edge, result: str | None, *, noted: bool) -> None:
    """Close one edge; with the last one the dependent comes in line, if it still waits. Of a job that just comes that is not `noted`."""
    edge.open = False
    edge.result = result
    space.unlink(edge)
    dependent = edge.dependent
    dependent.open_edges -= 1
    if dependent.state is State.BLOCKED and not dependent.blocked_by:
        space.join(dependent, dependent.run_at)
        if noted:
            space.note(Change.UNBLOCKED, dependent)


def drop_unkept(space: Space, jobs: Iterable[StoredJob]) -> None:
    """Remove those of these jobs that have ended and are not kept at all."""
    for job in jobs:
        if job.new.keep == 0 and job.state.final and removable(space, job):
            for each in job.whole:
                remove(space, each)


def removable(space: Space, job: StoredJob) -> bool:
    """Whether nobody has a claim on the record of a final job, or of any other step if it is the last of a run."""
    assert job.ended_at is not None
    recent = job.ended_at + AWAITED > space.clock.wall()
    return job.successor is None and not any(
        (each.awaited and recent) or _holds_key(space, each) or space.blocked_on(each) for each in job.whole
    )


def _holds_key(space: Space, job: StoredJob) -> bool:
    return job.new.unique is not None and space.holder(job.new.task, job.new.unique) is job


def remove(space: Space, job: StoredJob) -> None:
    """Take a job out of everything that knows it. Edges of others to it stay open, for there is nothing to close them with."""
    space.queues[job.new.queue].take(job)
    del space.jobs[job.new.id]
    space.free_key(job)
    for edge in job.edges:
        if edge.open:
            space.unlink(edge)
    space.tell_waiters(job, SignalKind.DELETED)
    if job.begins:
        del space.runs[job.new.id]


def delete(space: Space, jobs: Collection[StoredJob]) -> None:
    """Remove jobs whatever their state; only when all are gone tell those who are left waiting, in order of enqueueing."""
    for job in jobs:
        space.revoke(job, SignalKind.DELETED)
        remove(space, job)
    for job in sorted(jobs, key=lambda job: job.number):
        drop_unkept(space, follow(space, job, DELETED))
