"""Handing jobs out, holding them for longer, and taking them from the silent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from tenure.core.job import AttemptEnd, State
from tenure.core.lease import AbortReason, Lease, Token
from tenure.core.lifecycle import EXPIRED, WAIT_TIMEOUT, after_loss, kept_reason, lost
from tenure.stores.base import AHEAD, LOOK_AHEAD, STEP, SUSPECTS
from tenure.stores.memory.data import Space
from tenure.stores.memory.ending import end
from tenure.stores.memory.jobs import Queue, Shelf, StoredJob
from tenure.stores.values import Change, Leased, LeaseRequest, Reaped, Renewal, SignalKind

__all__ = ["busy", "held", "lease", "reap", "renew", "retire"]


def lease(space: Space, request: LeaseRequest) -> Leased:
    """Hand out what is first in line."""
    asked = space.existing(request.queues)
    queues = [queue for queue in asked if not queue.paused]
    for queue in queues:
        _cancel_expired(space, queue)
    for queue in queues:
        _promote(space, queue)
    leases = _hand_out(space, queues, request)
    return Leased(
        leases,
        suspect_waiting=any(not _may_have(request, job) for job in _suspects(space, queues, request)),
        due_in=None if leases else _due_in(space, queues),
        inbox=any(queue.inbox for queue in asked),
        passed_over=_passed_over(space, queues, request) if request.skip_tasks and not leases else (),
    )


def _cancel_expired(space: Space, queue: Queue) -> None:
    for id_ in queue.over(Shelf.EXPIRING, space.clock.wall(), STEP):
        # The end of one may have been the end of the next, which waited for it.
        job = space.jobs.get(id_)
        if job is not None and not job.state.final:
            space.note(Change.EXPIRED, job)
            end(space, job, State.CANCELLED, error=EXPIRED)


def _promote(space: Space, queue: Queue) -> None:
    for id_ in queue.over(Shelf.SCHEDULED, space.clock.wall(), STEP):
        with space.changing(space.jobs[id_]) as job:
            job.run_at = None
            job.seq = next(space.seqs)


def _hand_out(space: Space, queues: Sequence[Queue], request: LeaseRequest) -> list[Lease]:
    suspect = next((job for job in _suspects(space, queues, request) if _may_have(request, job)), None)
    if suspect is not None and request.limit:
        return [_lease(space, suspect, request, solo=True)]
    leases: list[Lease] = []
    for queue in queues:
        room = request.limit - len(leases)
        looked_at = islice(queue.ids(Shelf.LINE), LOOK_AHEAD if request.skip_tasks else None)
        in_line = (job for id_ in looked_at if (job := space.jobs[id_]).new.task not in request.skip_tasks)
        chosen = list(islice((job for job in in_line if not _expired(space, job)), room))
        leases += [_lease(space, job, request) for job in chosen]
    return leases


def _suspects(space: Space, queues: Iterable[Queue], request: LeaseRequest) -> Iterator[StoredJob]:
    """Who is handed out only alone, as far as one has to look, without the tasks that the request skips."""
    looked_at = (space.jobs[id_] for queue in queues for id_ in islice(queue.ids(Shelf.SUSPECTS), SUSPECTS))
    return (job for job in looked_at if job.new.task not in request.skip_tasks)


def _passed_over(space: Space, queues: Iterable[Queue], request: LeaseRequest) -> tuple[str, ...]:
    """Which of the skipped tasks have a job in line."""
    seen = {
        space.jobs[id_].new.task
        for queue in queues
        for shelf, limit in ((Shelf.LINE, LOOK_AHEAD), (Shelf.SUSPECTS, SUSPECTS))
        for id_ in islice(queue.ids(shelf), limit)
    }
    return tuple(task for task in request.skip_tasks if task in seen)


def _may_have(request: LeaseRequest, suspect: StoredJob) -> bool:
    return request.solo or suspect.new.task in request.isolated


def _expired(space: Space, job: StoredJob) -> bool:
    return job.expires_at is not None and job.attempt == 0 and job.expires_at <= space.clock.wall()


def _lease(space: Space, job: StoredJob, request: LeaseRequest, *, solo: bool = False) -> Lease:
    ttl = request.length(job.new.lease)
    with space.changing(job):
        job.state = State.RUNNING
        job.attempt += 1
        job.fence += 1
        job.token = Token(job.fence, request.nonce)
        job.worker = request.worker
        job.solo = solo
        job.lease_until = space.clock.boot() + ttl
        job.started_at = space.clock.wall()
        job.progress = None
    record = space.record(job)
    if job.run is not None:
        given = {name: job.run.attributes[name] for name in record.reads if name in job.run.attributes}
        record = replace(record, attributes=given)
    return Lease(record, job.token, ttl, solo)


def _due_in(space: Space, queues: Iterable[Queue]) -> float | None:
    due = [queue.shelves[Shelf.SCHEDULED][0][0] for queue in queues if queue.shelves[Shelf.SCHEDULED]]
    return max(0.0, min(due) - space.clock.wall()) if due else None


def renew(space: Space, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
    """Hold jobs for longer; None each, or why it has to be let go."""
    return [_renew(space, renewal) for renewal in renewals]


def _renew(space: Space, renewal: Renewal) -> AbortReason | None:
    job = space.jobs.get(renewal.lease.job.id)
    if job is None:
        return AbortReason.NOT_FOUND
    if job.state is State.RUNNING and job.token == renewal.lease.token:
        with space.changing(job):
            if renewal.ttl is not None:
                job.lease_until = space.clock.boot() + renewal.ttl
            job.progress = renewal.progress or job.progress
        return None
    if job.state is State.CANCELLED:
        return AbortReason.CANCELLED
    return AbortReason.COMPLETED if job.state.final else AbortReason.TAKEN


def reap(space: Space, names: Sequence[str], limit: int) -> list[Reaped]:
    """Take jobs of these queues from holders whose lease has expired, and end the parking of those whose time is over."""
    queues = space.existing(names)
    silent = [id_ for queue in queues for id_ in queue.over(Shelf.RUNNING, space.clock.boot(), limit)]
    reaped = [_lose(space, space.jobs[id_]) for id_ in silent[:limit]]
    if len(reaped) < limit:
        parked = [id_ for queue in queues for id_ in queue.over(Shelf.PARKED, space.clock.wall(), limit)]
        for id_ in parked[:limit]:
            _unpark(space, space.jobs[id_])
    return reaped


def _unpark(space: Space, job: StoredJob) -> None:
    """End the wait of a job that nobody has completed in time."""
    if job.on_timeout is None:
        space.note(Change.FAILED, job)
        end(space, job, State.FAILED, error=WAIT_TIMEOUT)
        return
    with space.changing(job):
        job.parked_until = None
    space.join(job)
    space.note(Change.OVERDUE, job)


def held(space: Space, request: LeaseRequest) -> list[Lease]:
    """What this request was given and has not ended."""
    running = [space.jobs[id_] for queue in space.queues.values() for _, _, id_ in queue.shelves[Shelf.RUNNING]]
    return [request.given(space.record(job)) for job in running if job.token and job.token.nonce == request.nonce]


def busy(space: Space) -> tuple[list[str], list[str]]:
    """The queues that have something to do, and those of them where a lease has expired or a parking is over."""

    def ends(queue: Queue, within: float) -> bool:
        lapsed = queue.over(Shelf.RUNNING, space.clock.boot() + within, 1)
        return bool(lapsed or queue.over(Shelf.PARKED, space.clock.wall() + within, 1))

    def has_work(queue: Queue) -> bool:
        soon = space.clock.wall() + AHEAD
        in_line = queue.shelves[Shelf.LINE] or queue.shelves[Shelf.SUSPECTS]
        return bool(in_line or queue.over(Shelf.SCHEDULED, soon, 1) or queue.over(Shelf.EXPIRING, soon, 1))

    queues = space.queues.values()
    found = [each.name for each in queues if each.inbox or (has_work(each) and not each.paused) or ends(each, AHEAD)]
    return found, [each.name for each in queues if ends(each, 0.0)]


def retire(space: Space, worker_id: str, limit: int, reason: str | None) -> list[Reaped]:
    """Remove a worker and take its jobs."""
    running = sorted(place for queue in space.queues.values() for place in queue.shelves[Shelf.RUNNING])
    held = [space.jobs[id_] for _, _, id_ in running if space.jobs[id_].worker == worker_id]
    reaped = [_lose(space, job, kept_reason(reason)) for job in held[:limit]]
    space.workers.pop(worker_id, None)
    return reaped


def _lose(space: Space, job: StoredJob, reason: str = "") -> Reaped:
    """Take a running job from its holder, who is silent or gone: to the front, or failed as lost."""
    loss = after_loss(job.losses, job.new.max_losses, job.solo)
    space.count("lost", job.new.queue, job.worker)
    space.revoke(job, SignalKind.TAKEN)
    error = lost(loss.losses, reason)
    space.remember(job, AttemptEnd.LOST, error)
    with space.changing(job):
        job.state = State.WAITING
        job.losses = loss.losses
        job.error = error
    if loss.failed:
        end(space, job, State.FAILED, by=job.worker)
    else:
        space.wake(job.new.queue)
    return Reaped(job.new.id, job.new.queue, job.new.task, job.worker, loss.losses, loss.failed)
