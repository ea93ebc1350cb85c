"""What operators do to jobs and queues, and what retention does for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from tenure.core.checks import seconds
from tenure.core.job import AttemptEnd, State
from tenure.core.lifecycle import RELEASE, Finish
from tenure.core.options import Retention
from tenure.errors import BlockerNotFound, HasDependents, MissingAttribute, UniqueConflict
from tenure.stores.base import QUIET
from tenure.stores.memory import ending
from tenure.stores.memory.data import Data
from tenure.stores.memory.jobs import Queue, Shelf, StoredJob
from tenure.stores.memory.settling import carry_out, planned_for, refusal_of, requeue
from tenure.stores.values import NOT_FOUND, OK, AnnouncementKind, Verdict, refused

__all__ = [
    "cancel",
    "claim_chore",
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
]


def _each(data: Data, ids: Sequence[str], act: Callable[[Data, StoredJob], Verdict]) -> list[Verdict]:
    return [NOT_FOUND if (job := data.meant(id_)) is None else act(data, job) for id_ in ids]


def cancel(data: Data, ids: Sequence[str]) -> list[Verdict]:
    """End jobs as cancelled."""
    return _each(data, ids, _cancel)


def _cancel(data: Data, job: StoredJob) -> Verdict:
    if job.state.final:
        return refused("it is final already", state=job.state)
    if job.state is State.RUNNING:
        data.remember(job, AttemptEnd.CANCELLED)
    data.revoke(job, AnnouncementKind.CANCELLED)
    ending.end(data, job, State.CANCELLED)
    return OK


def complete(data: Data, job_id: str, step: Finish) -> Verdict:
    """End a job as succeeded; this very one, though its id may be a run's."""
    job = data.jobs.get(job_id)
    if job is None:
        return NOT_FOUND
    if job.state.final:
        return refused("it is final already", state=job.state)
    try:
        planned = planned_for(data, job, step)
    except (UniqueConflict, BlockerNotFound, MissingAttribute) as refusal:
        return refusal_of(refusal)
    if job.state is State.RUNNING:
        data.remember(job, AttemptEnd.COMPLETED)
    data.revoke(job, AnnouncementKind.COMPLETED)
    carry_out(data, job, step, planned, settled=False)
    return OK


def retry(data: Data, ids: Sequence[str]) -> list[Verdict]:
    """Let final jobs begin anew."""
    return _each(data, ids, _retry)


def _retry(data: Data, job: StoredJob) -> Verdict:
    if not job.state.final:
        return refused("it is not final", state=job.state)
    if job.successor is not None:
        return refused(f"it has handed over to job {job.successor}", state=job.state)
    for edge in job.edges:
        if edge.open and edge.blocker not in data.jobs:
            return refused(f"job {edge.blocker}, which it waits for, is gone", state=job.state, other=edge.blocker)
    keyed = [each for each in job.over if each.new.unique is not None and not data.window_is_over(each)]
    for each in keyed:
        holder = data.holder(each.new.task, each.new.unique or "")
        if holder is not None and holder is not each:
            return refused(f"job {holder.new.id} holds its unique key", state=job.state, other=holder.new.id)
    for each in keyed:
        data.keys[each.new.task, each.new.unique or ""] = each
    for each in job.over:
        each.awaited = False
    entered = bool(job.attempts) and job.attempts[-1].fence == job.fence
    if job.state is State.SUCCEEDED and job.token is not None and not entered:
        data.remember(job, AttemptEnd.SUCCEEDED)
    with data.changing(job):
        job.state = State.BLOCKED
        job.attempt = job.losses = job.misses = 0
        job.token = job.ended_at = job.expires_at = job.result = None
    if not job.blocked_by:
        data.join(job)
    return OK


def trigger(data: Data, ids: Sequence[str]) -> list[Verdict]:
    """Let scheduled jobs come in line now."""
    return _each(data, ids, _trigger)


def _trigger(data: Data, job: StoredJob) -> Verdict:
    if job.state is not State.WAITING or job.run_at is None:
        return refused("it is not scheduled", state=job.state)
    data.join(job)
    return OK


def release(data: Data, ids: Sequence[str]) -> list[Verdict]:
    """Take running jobs from their holders, and put them back in their places."""
    return _each(data, ids, _release)


def _release(data: Data, job: StoredJob) -> Verdict:
    if job.state is not State.RUNNING:
        return refused("it is not running", state=job.state)
    data.revoke(job, AnnouncementKind.TAKEN)
    requeue(data, job, RELEASE)
    return OK


def delete(data: Data, ids: Sequence[str], *, cascade: bool) -> list[str]:
    """Remove jobs, with those that wait for them if `cascade`."""
    going = {each.new.id: each for id_ in ids if id_ in data.jobs for each in _whole(data.jobs[id_])}
    looked_at = deque(going.values())
    while looked_at:
        job = looked_at.popleft()
        waiting = (other for other in data.blocked_on(job) if other.new.id not in going)
        others = {each.new.id: each for other in waiting for each in _whole(other) if each.new.id not in going}
        if others and not cascade:
            raise HasDependents(job.new.id, others)
        going |= others
        looked_at.extend(others.values())
    ending.delete(data, going.values())
    return list(going)


def _whole(job: StoredJob) -> list[StoredJob]:
    return [job, *(each for each in job.whole if each is not job)]


def pause(data: Data, name: str) -> bool:
    """Hand out no more jobs of a queue."""
    queue = data.queue(name)
    changed, queue.paused = not queue.paused, True
    return changed


def resume(data: Data, name: str) -> bool:
    """Hand out jobs of a queue again."""
    queue = data.queues.get(name)
    if queue is None or not queue.paused:
        return False
    queue.paused = False
    data.wake(name, queue.info().waiting + queue.info().scheduled)
    return True


def purge(data: Data, name: str, limit: int) -> int:
    """Remove jobs of a queue that nobody holds."""
    if name not in data.queues:
        return 0
    queue = data.queues[name]
    # The newest first, for they may wait for the others.
    ids = sorted(queue.ids(Shelf.BLOCKED), key=lambda id_: -data.jobs[id_].seq)
    for shelf in (Shelf.SCHEDULED, Shelf.LINE, Shelf.SUSPECTS):
        ids += queue.ids(shelf)
    ending.delete(data, [each for id_ in ids[:limit] for each in data.jobs[id_].whole])
    return len(ids[:limit])


def prune(data: Data, default: Retention, queues: Mapping[str, Retention], limit: int) -> int:
    """Remove finished jobs that retention does not keep, and forget queues that have long been empty."""
    old = [job for queue in data.queues.values() for job in _old(data, queue, queues.get(queue.name, default))]
    for job in old[:limit]:
        for each in job.whole:
            ending.remove(data, each)
    for queue in [queue for queue in data.queues.values() if queue.empty]:
        _forget_quiet(data, queue)
    return len(old[:limit])


def _forget_quiet(data: Data, queue: Queue) -> None:
    """Forget an empty queue that was empty `QUIET` seconds ago with the same totals; else note that it is empty now."""
    now, totals = data.clock.wall(), queue.totals.total()
    if queue.quiet is None or queue.quiet[0] > now or queue.quiet[1] != totals:
        queue.quiet = now, totals
    elif queue.quiet[0] <= now - QUIET:
        del data.queues[queue.name]


def _old(data: Data, queue: Queue, retention: Retention) -> Iterator[StoredJob]:
    for shelves, age in (
        ((Shelf.SUCCEEDED, Shelf.CANCELLED), seconds(retention.succeeded, "succeeded")),
        ((Shelf.FAILED, Shelf.BROKEN), seconds(retention.failed, "failed")),
    ):
        newest_first = sorted((place for shelf in shelves for place in queue.shelves[shelf]), reverse=True)
        kept = 0
        for ended_at, _, id_ in newest_first:
            job = data.jobs[id_]
            if job.successor is not None:
                continue
            kept += job.new.keep is None
            too_old = ended_at + (age if job.new.keep is None else job.new.keep) <= data.clock.wall()
            too_many = job.new.keep is None and kept > retention.count
            if (too_old or too_many) and ending.removable(data, job):
                yield job


def forget(data: Data, silences: Mapping[str, float]) -> list[str]:
    """Remove workers that have been silent for long and hold nothing."""
    holders = {data.jobs[id_].worker for queue in data.queues.values() for id_ in queue.ids(Shelf.RUNNING)}
    gone = [
        id_
        for id_, silence in silences.items()
        if id_ in data.workers and id_ not in holders and data.clock.boot() - data.workers[id_].beat >= silence
    ]
    for id_ in gone:
        del data.workers[id_]
    return gone


def claim_chore(data: Data, chore: str, interval: float) -> bool:
    """Take the turn at a chore, if it is time."""
    now, last = data.clock.boot(), data.turns.get(chore)
    if last is not None and last <= now < last + interval:
        return False
    data.turns[chore] = now
    return True
