"""What operators do to jobs and queues, and what retention does for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from tenure.core.checks import seconds
from tenure.core.job import AttemptEnd, State
from tenure.core.lifecycle import RELEASE, Finish
from tenure.core.options import Retention
from tenure.errors import BlockerNotFound, HasDependents, MissingAttribute, UniqueConflict
from tenure.stores.memory import ending
from tenure.stores.memory.data import Space
from tenure.stores.memory.jobs import Queue, Shelf, StoredJob
from tenure.stores.memory.settling import carry_out, planned_for, refusal_of, requeue
from tenure.stores.values import NOT_FOUND, OK, SignalKind, Verdict, refused

__all__ = [
    "cancel",
    "complete",
    "delete",
    "forget",
    "pause",
    "prune",
    "purge",
    "release",
    "resume",
    "retry",
    "trigger",
    "turn",
]


def _each(space: Space, ids: Sequence[str], act: Callable[[Space, StoredJob], Verdict]) -> list[Verdict]:
    return [NOT_FOUND if (job := space.meant(id_)) is None else act(space, job) for id_ in ids]


def cancel(space: Space, ids: Sequence[str]) -> list[Verdict]:
    """End jobs as cancelled."""
    return _each(space, ids, _cancel)


def _cancel(space: Space, job: StoredJob) -> Verdict:
    if job.state.final:
        return refused("it is final already", state=job.state)
    if job.state is State.RUNNING:
        space.remember(job, AttemptEnd.CANCELLED)
    space.revoke(job, SignalKind.CANCELLED)
    ending.end(space, job, State.CANCELLED)
    return OK


def complete(space: Space, job_id: str, step: Finish) -> Verdict:
    """End a job as succeeded; this very one, though its id may be a run's."""
    job = space.jobs.get(job_id)
    if job is None:
        return NOT_FOUND
    if job.state.final:
        return refused("it is final already", state=job.state)
    try:
        planned = planned_for(space, job, step)
    except (UniqueConflict, BlockerNotFound, MissingAttribute) as refusal:
        return refusal_of(refusal)
    if job.state is State.RUNNING:
        space.remember(job, AttemptEnd.COMPLETED)
    space.revoke(job, SignalKind.COMPLETED)
    carry_out(space, job, step, planned, settled=False)
    return OK


def retry(space: Space, ids: Sequence[str]) -> list[Verdict]:
    """Let final jobs begin anew."""
    return _each(space, ids, _retry)


def _retry(space: Space, job: StoredJob) -> Verdict:
    if not job.state.final:
        return refused("it is not final", state=job.state)
    if job.successor is not None:
        return refused(f"it has handed over to job {job.successor}", state=job.state)
    for edge in job.edges:
        if edge.open and edge.blocker not in space.jobs:
            return refused(f"job {edge.blocker}, which it waits for, is gone", state=job.state, other=edge.blocker)
    keyed = [each for each in job.over if each.new.unique is not None and not space.window_is_over(each)]
    for each in keyed:
        holder = space.holder(each.new.task, each.new.unique or "")
        if holder is not None and holder is not each:
            return refused(f"job {holder.new.id} holds its unique key", state=job.state, other=holder.new.id)
    for each in keyed:
        space.keys[each.new.task, each.new.unique or ""] = each
    for each in job.over:
        each.awaited = False
    entered = bool(job.attempts) and job.attempts[-1].fence == job.fence
    if job.state is State.SUCCEEDED and job.token is not None and not entered:
        space.remember(job, AttemptEnd.SUCCEEDED)
    with space.changing(job):
        job.state = State.BLOCKED
        job.attempt = job.losses = job.misses = 0
        job.token = job.ended_at = job.expires_at = job.result = None
    if not job.blocked_by:
        space.join(job)
    return OK


def trigger(space: Space, ids: Sequence[str]) -> list[Verdict]:
    """Let scheduled jobs come in line now."""
    return _each(space, ids, _trigger)


def _trigger(space: Space, job: StoredJob) -> Verdict:
    if job.state is not State.WAITING or job.run_at is None:
        return refused("it is not scheduled", state=job.state)
    space.join(job)
    return OK


def release(space: Space, ids: Sequence[str]) -> list[Verdict]:
    """Take running jobs from their holders, and put them back in their places."""
    return _each(space, ids, _release)


def _release(space: Space, job: StoredJob) -> Verdict:
    if job.state is not State.RUNNING:
        return refused("it is not running", state=job.state)
    space.revoke(job, SignalKind.TAKEN)
    requeue(space, job, RELEASE)
    return OK


def delete(space: Space, ids: Sequence[str], *, cascade: bool) -> list[str]:
    """Remove jobs, with those that wait for them if `cascade`."""
    going = {each.new.id: each for id_ in ids if id_ in space.jobs for each in _whole(space.jobs[id_])}
    looked_at = deque(going.values())
    while looked_at:
        job = looked_at.popleft()
        waiting = (other for other in space.blocked_on(job) if other.new.id not in going)
        others = {each.new.id: each for other in waiting for each in _whole(other) if each.new.id not in going}
        if others and not cascade:
            raise HasDependents(job.new.id, others)
        going |= others
        looked_at.extend(others.values())
    ending.delete(space, going.values())
    return list(going)


def _whole(job: StoredJob) -> list[StoredJob]:
    return [job, *(each for each in job.whole if each is not job)]


def pause(space: Space, name: str) -> bool:
    """Hand out no more jobs of a queue."""
    queue = space.queue(name)
    changed, queue.paused = not queue.paused, True
    return changed


def resume(space: Space, name: str) -> bool:
    """Hand out jobs of a queue again."""
    queue = space.queues.get(name)
    if queue is None or not queue.paused:
        return False
    queue.paused = False
    space.wake(name, queue.info().waiting + queue.info().scheduled)
    return True


def purge(space: Space, name: str, limit: int) -> int:
    """Remove jobs of a queue that nobody holds."""
    if name not in space.queues:
        return 0
    queue = space.queues[name]
    # The newest first, for they may wait for the others.
    ids = sorted(queue.ids(Shelf.BLOCKED), key=lambda id_: -space.jobs[id_].seq)
    for shelf in (Shelf.SCHEDULED, Shelf.LINE, Shelf.SUSPECTS):
        ids += queue.ids(shelf)
    ending.delete(space, [each for id_ in ids[:limit] for each in space.jobs[id_].whole])
    return len(ids[:limit])


def prune(space: Space, default: Retention, queues: Mapping[str, Retention], limit: int) -> int:
    """Remove finished jobs that retention does not keep."""
    old = [job for queue in space.queues.values() for job in _old(space, queue, queues.get(queue.name, default))]
    for job in old[:limit]:
        for each in job.whole:
            ending.remove(space, each)
    return len(old[:limit])


def _old(space: Space, queue: Queue, retention: Retention) -> Iterator[StoredJob]:
    for shelves, age in (
        ((Shelf.SUCCEEDED, Shelf.CANCELLED), seconds(retention.succeeded, "succeeded")),
        ((Shelf.FAILED, Shelf.BROKEN), seconds(retention.failed, "failed")),
    ):
        newest_first = sorted((place for shelf in shelves for place in queue.shelves[shelf]), reverse=True)
        kept = 0
        for ended_at, _, id_ in newest_first:
            job = space.jobs[id_]
            if job.successor is not None:
                continue
            kept += job.new.keep is None
            too_old = ended_at + (age if job.new.keep is None else job.new.keep) <= space.clock.wall()
            too_many = job.new.keep is None and kept > retention.count
            if (too_old or too_many) and ending.removable(space, job):
                yield job


def forget(space: Space, silences: Mapping[str, float]) -> list[str]:
    """Remove workers that have been silent for long and hold nothing."""
    holders = {space.jobs[id_].worker for queue in space.queues.values() for id_ in queue.ids(Shelf.RUNNING)}
    gone = [
        id_
        for id_, silence in silences.items()
        if id_ in space.workers and id_ not in holders and space.clock.boot() - space.workers[id_].beat >= silence
    ]
    for id_ in gone:
        del space.workers[id_]
    return gone


def turn(space: Space, chore: str, interval: float) -> bool:
    """Take the turn at a chore, if it is time."""
    now, last = space.clock.boot(), space.turns.get(chore)
    if last is not None and last <= now < last + interval:
        return False
    space.turns[chore] = now
    return True
