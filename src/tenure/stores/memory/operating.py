"""Carries out what operators ask (cancel, retry, pause, …), and prunes old jobs, queues and workers."""

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
from tenure.stores.memory.jobs import Index, Queue, StoredJob
from tenure.stores.memory.settling import carry_out, planned_for, requeue
from tenure.stores.values import (
    ALREADY_FINAL,
    NOT_FINAL,
    NOT_FOUND,
    NOT_RUNNING,
    NOT_SCHEDULED,
    OK,
    AnnouncementKind,
    BlockerGone,
    UniqueHeld,
    Verdict,
    handed_over,
    refused,
    refused_by,
)

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
    return [NOT_FOUND if (job := data.resolve(id_)) is None else act(data, job) for id_ in ids]


def cancel(data: Data, ids: Sequence[str]) -> list[Verdict]:
    """End jobs as cancelled."""
    return _each(data, ids, _cancel)


def _cancel(data: Data, job: StoredJob) -> Verdict:
    if job.state.final:
        return refused(ALREADY_FINAL, state=job.state)
    if job.state is State.RUNNING:
        data.enter_attempt(job, AttemptEnd.CANCELLED)
    data.revoke(job, AnnouncementKind.CANCELLED)
    ending.end(data, job, State.CANCELLED)
    return OK


def complete(data: Data, job_id: str, transition: Finish) -> Verdict:
    """End a job as succeeded: the very one of this id, even if that is the id of a run."""
    job = data.jobs.get(job_id)
    if job is None:
        return NOT_FOUND
    if job.state.final:
        return refused(ALREADY_FINAL, state=job.state)
    try:
        planned = planned_for(data, job, transition)
    except (UniqueConflict, BlockerNotFound, MissingAttribute) as refusal:
        return refused_by(refusal)
    if job.state is State.RUNNING:
        data.enter_attempt(job, AttemptEnd.COMPLETED)
    data.revoke(job, AnnouncementKind.COMPLETED)
    carry_out(data, job, transition, planned, settled=False)
    return OK


def retry(data: Data, ids: Sequence[str]) -> list[Verdict]:
    """Put final jobs in line again, from their first attempt."""
    return _each(data, ids, _retry)


def _retry(data: Data, job: StoredJob) -> Verdict:
    if not job.state.final:
        return refused(NOT_FINAL, state=job.state)
    if job.successor is not None:
        return refused(handed_over(job.successor), state=job.state)
    for edge in job.edges:
        if edge.open and edge.blocker not in data.jobs:
            return refused(BlockerGone(edge.blocker), state=job.state)
    keyed = [each for each in job.represents if each.new.unique is not None and not data.window_is_over(each)]
    for each in keyed:
        owner = data.owner(each.new.task, each.new.unique or "")
        if owner is not None and owner is not each:
            return refused(UniqueHeld(owner.new.id), state=job.state)
    for each in keyed:
        data.keys[each.new.task, each.new.unique or ""] = each
    for each in job.represents:
        each.awaited = False
    entered = bool(job.attempts) and job.attempts[-1].fence == job.fence
    if job.state is State.SUCCEEDED and job.token is not None and not entered:
        data.enter_attempt(job, AttemptEnd.SUCCEEDED)
    with data.changing(job):
        job.state = State.BLOCKED
        job.attempt = job.losses = job.misses = 0
        job.token = job.ended_at = job.expires_at = job.result = None
    if not job.blocked_by:
        data.join(job)
    return OK


def trigger(data: Data, ids: Sequence[str]) -> list[Verdict]:
    """Put scheduled jobs in line now."""
    return _each(data, ids, _trigger)


def _trigger(data: Data, job: StoredJob) -> Verdict:
    if job.state is not State.WAITING or job.run_at is None:
        return refused(NOT_SCHEDULED, state=job.state)
    data.join(job)
    return OK


def release(data: Data, ids: Sequence[str]) -> list[Verdict]:
    """Take running jobs from their holders and put them back in their places."""
    return _each(data, ids, _release)


def _release(data: Data, job: StoredJob) -> Verdict:
    if job.state is not State.RUNNING:
        return refused(NOT_RUNNING, state=job.state)
    data.revoke(job, AnnouncementKind.TAKEN)
    requeue(data, job, RELEASE)
    return OK


def delete(data: Data, ids: Sequence[str], *, cascade: bool) -> list[str]:
    """Remove jobs; with `cascade`, their blocked dependents too."""
    going = {each.new.id: each for id_ in ids if id_ in data.jobs for each in _with_run_after(data.jobs[id_])}
    looked_at = deque(going.values())
    while looked_at:
        job = looked_at.popleft()
        waiting = (other for other in data.blocked_on(job) if other.new.id not in going)
        others = {each.new.id: each for other in waiting for each in _with_run_after(other) if each.new.id not in going}
        if others and not cascade:
            raise HasDependents(job.new.id, others)
        going |= others
        looked_at.extend(others.values())
    ending.delete(data, going.values())
    return list(going)


def _with_run_after(job: StoredJob) -> list[StoredJob]:
    return [job, *(each for each in job.with_run if each is not job)]


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
    """Remove jobs of a queue that are waiting, scheduled or blocked."""
    if name not in data.queues:
        return 0
    queue = data.queues[name]
    # The newest first, because they may wait for the others.
    ids = sorted(queue.ids(Index.BLOCKED), key=lambda id_: -data.jobs[id_].seq)
    for index in (Index.SCHEDULED, Index.LINE, Index.SUSPECTS):
        ids += queue.ids(index)
    ending.delete(data, [each for id_ in ids[:limit] for each in data.jobs[id_].with_run])
    return len(ids[:limit])


def prune(data: Data, default: Retention, queues: Mapping[str, Retention], limit: int) -> int:
    """Remove final jobs that retention does not keep, and forget queues that have been empty for long."""
    old = [job for queue in data.queues.values() for job in _old(data, queue, queues.get(queue.name, default))]
    for job in old[:limit]:
        for each in job.with_run:
            ending.remove(data, each)
    for queue in [queue for queue in data.queues.values() if queue.empty]:
        _forget_quiet(data, queue)
    return len(old[:limit])


def _forget_quiet(data: Data, queue: Queue) -> None:
    """Forget an empty queue that was empty `QUIET` seconds ago with the same totals; else store that it is empty now."""
    now, totals = data.clock.wall(), queue.totals.total()
    if queue.quiet is None or queue.quiet[0] > now or queue.quiet[1] != totals:
        queue.quiet = now, totals
    elif queue.quiet[0] <= now - QUIET:
        del data.queues[queue.name]


def _old(data: Data, queue: Queue, retention: Retention) -> Iterator[StoredJob]:
    for indexes, age in (
        ((Index.SUCCEEDED, Index.CANCELLED), seconds(retention.succeeded, "succeeded")),
        ((Index.FAILED, Index.BROKEN), seconds(retention.failed, "failed")),
    ):
        newest_first = sorted((key for index in indexes for key in queue.indexes[index]), reverse=True)
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
    """Remove workers that hold no job and have been silent for the given seconds."""
    holders = {data.jobs[id_].worker for queue in data.queues.values() for id_ in queue.ids(Index.RUNNING)}
    gone = [
        id_
        for id_, silence in silences.items()
        if id_ in data.workers and id_ not in holders and data.clock.boot() - data.workers[id_].beat >= silence
    ]
    for id_ in gone:
        del data.workers[id_]
    return gone


def claim_chore(data: Data, chore: str, interval: float) -> bool:
    """Claim a chore if its interval is over."""
    now, last = data.clock.boot(), data.chores.get(chore)
    if last is not None and last <= now < last + interval:
        return False
    data.chores[chore] = now
    return True
