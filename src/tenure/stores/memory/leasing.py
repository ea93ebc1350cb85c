"""`lease` hands jobs out, `renew` extends leases, `reap` and `retire` take jobs from silent and dead workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from tenure.core.job import AttemptEnd, State
from tenure.core.lease import AbortReason, Lease, Token
from tenure.core.lifecycle import EXPIRED, WAIT_TIMEOUT, after_loss, kept_reason, lost
from tenure.stores.base import AHEAD, BATCH, LOOK_AHEAD, SUSPECTS
from tenure.stores.memory.data import Data
from tenure.stores.memory.ending import end
from tenure.stores.memory.jobs import Index, Queue, StoredJob
from tenure.stores.values import AnnouncementKind, Change, Leased, LeaseRequest, Reaped, Renewal

__all__ = ["busy_and_overdue", "lease", "leases_of", "reap", "renew", "retire"]


def lease(data: Data, request: LeaseRequest) -> Leased:
    """Hand out the first jobs in line."""
    requested = data.existing(request.queues)
    queues = [queue for queue in requested if not queue.paused]
    for queue in queues:
        _cancel_expired(data, queue)
    for queue in queues:
        _promote(data, queue)
    leases = _hand_out(data, queues, request)
    return Leased(
        leases,
        suspect_waiting=any(not _may_have(request, job) for job in _suspects(data, queues, request)),
        due_in=None if leases else _due_in(data, queues),
        inbox=any(queue.inbox for queue in requested),
        passed_over=_passed_over(data, queues, request) if request.skip_tasks and not leases else (),
    )


def _cancel_expired(data: Data, queue: Queue) -> None:
    for id_ in queue.due(Index.EXPIRING, data.clock.wall(), BATCH):
        # The end of one may have failed the next, which waited for it.
        job = data.jobs.get(id_)
        if job is not None and not job.state.final:
            data.report(Change.EXPIRED, job)
            end(data, job, State.CANCELLED, error=EXPIRED)


def _promote(data: Data, queue: Queue) -> None:
    for id_ in queue.due(Index.SCHEDULED, data.clock.wall(), BATCH):
        with data.changing(data.jobs[id_]) as job:
            job.ready_at, job.run_at = job.run_at, None
            job.seq = next(data.seqs)


def _hand_out(data: Data, queues: Sequence[Queue], request: LeaseRequest) -> list[Lease]:
    suspect = next((job for job in _suspects(data, queues, request) if _may_have(request, job)), None)
    if suspect is not None and request.limit:
        return [_lease(data, suspect, request, solo=True)]
    leases: list[Lease] = []
    for queue in queues:
        room = request.limit - len(leases)
        looked_at = islice(queue.ids(Index.LINE), LOOK_AHEAD if request.skip_tasks else None)
        in_line = (job for id_ in looked_at if (job := data.jobs[id_]).new.task not in request.skip_tasks)
        chosen = list(islice((job for job in in_line if not _expired(data, job)), room))
        leases += [_lease(data, job, request) for job in chosen]
    return leases


def _suspects(data: Data, queues: Iterable[Queue], request: LeaseRequest) -> Iterator[StoredJob]:
    """The first `SUSPECTS` suspects of each queue, without those of tasks that the request skips."""
    looked_at = (data.jobs[id_] for queue in queues for id_ in islice(queue.ids(Index.SUSPECTS), SUSPECTS))
    return (job for job in looked_at if job.new.task not in request.skip_tasks)


def _passed_over(data: Data, queues: Iterable[Queue], request: LeaseRequest) -> tuple[str, ...]:
    """The skipped tasks that have a job in line."""
    seen = {
        data.jobs[id_].new.task
        for queue in queues
        for index, limit in ((Index.LINE, LOOK_AHEAD), (Index.SUSPECTS, SUSPECTS))
        for id_ in islice(queue.ids(index), limit)
    }
    return tuple(task for task in request.skip_tasks if task in seen)


def _may_have(request: LeaseRequest, suspect: StoredJob) -> bool:
    return request.solo or suspect.new.task in request.isolated


def _expired(data: Data, job: StoredJob) -> bool:
    return job.expires_at is not None and job.attempt == 0 and job.expires_at <= data.clock.wall()


def _lease(data: Data, job: StoredJob, request: LeaseRequest, *, solo: bool = False) -> Lease:
    ttl = request.length(job.new.lease)
    with data.changing(job):
        job.state = State.RUNNING
        job.attempt += 1
        job.fence += 1
        job.token = Token(job.fence, request.nonce)
        job.worker = request.worker
        job.solo = solo
        job.lease_until = data.clock.boot() + ttl
        job.started_at = data.clock.wall()
        job.progress = None
    record = data.record(job)
    if job.run is not None:
        given = {name: job.run.attributes[name] for name in record.reads if name in job.run.attributes}
        record = replace(record, attributes=given)
    return Lease(record, job.token, ttl, solo)


def _due_in(data: Data, queues: Iterable[Queue]) -> float | None:
    due = [queue.indexes[Index.SCHEDULED][0][0] for queue in queues if queue.indexes[Index.SCHEDULED]]
    return max(0.0, min(due) - data.clock.wall()) if due else None


def renew(data: Data, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
    """Extend leases. Returns None each, or the reason why the holder must stop."""
    return [_renew(data, renewal) for renewal in renewals]


def _renew(data: Data, renewal: Renewal) -> AbortReason | None:
    job = data.jobs.get(renewal.lease.job.id)
    if job is None:
        return AbortReason.NOT_FOUND
    if job.state is State.RUNNING and job.token == renewal.lease.token:
        with data.changing(job):
            if renewal.ttl is not None:
                job.lease_until = data.clock.boot() + renewal.ttl
            job.progress = renewal.progress or job.progress
        return None
    if job.state is State.CANCELLED:
        return AbortReason.CANCELLED
    return AbortReason.COMPLETED if job.state.final else AbortReason.TAKEN


def reap(data: Data, names: Sequence[str], limit: int) -> list[Reaped]:
    """Take jobs of these queues whose lease has expired, and end parkings whose timeout is over."""
    queues = data.existing(names)
    silent = [id_ for queue in queues for id_ in queue.due(Index.RUNNING, data.clock.boot(), limit)]
    reaped = [_lose(data, data.jobs[id_]) for id_ in silent[:limit]]
    if len(reaped) < limit:
        parked = [id_ for queue in queues for id_ in queue.due(Index.PARKED, data.clock.wall(), limit)]
        for id_ in parked[:limit]:
            _unpark(data, data.jobs[id_])
    return reaped


def _unpark(data: Data, job: StoredJob) -> None:
    """End a parking that has timed out."""
    if job.on_timeout is None:
        data.report(Change.FAILED, job)
        end(data, job, State.FAILED, error=WAIT_TIMEOUT)
        return
    with data.changing(job):
        job.parked_until = None
    data.join(job)
    data.report(Change.OVERDUE, job)


def leases_of(data: Data, request: LeaseRequest) -> list[Lease]:
    """The leases of this request that are still held."""
    running = [data.jobs[id_] for queue in data.queues.values() for _, _, id_ in queue.indexes[Index.RUNNING]]
    return [request.given(data.record(job)) for job in running if job.token and job.token.nonce == request.nonce]


def busy_and_overdue(data: Data) -> tuple[list[str], list[str]]:
    """The queues with something to do, and those in which a lease has expired or a parking is over."""

    def ends(queue: Queue, within: float) -> bool:
        lapsed = queue.due(Index.RUNNING, data.clock.boot() + within, 1)
        return bool(lapsed or queue.due(Index.PARKED, data.clock.wall() + within, 1))

    def has_work(queue: Queue) -> bool:
        soon = data.clock.wall() + AHEAD
        in_line = queue.indexes[Index.LINE] or queue.indexes[Index.SUSPECTS]
        return bool(in_line or queue.due(Index.SCHEDULED, soon, 1) or queue.due(Index.EXPIRING, soon, 1))

    queues = data.queues.values()
    found = [each.name for each in queues if each.inbox or (has_work(each) and not each.paused) or ends(each, AHEAD)]
    return found, [each.name for each in queues if ends(each, 0.0)]


def retire(data: Data, worker_id: str, limit: int, reason: str | None) -> list[Reaped]:
    """Remove a worker and take up to `limit` of its jobs."""
    running = sorted(key for queue in data.queues.values() for key in queue.indexes[Index.RUNNING])
    held = [data.jobs[id_] for _, _, id_ in running if data.jobs[id_].worker == worker_id]
    reaped = [_lose(data, job, kept_reason(reason)) for job in held[:limit]]
    data.workers.pop(worker_id, None)
    return reaped


def _lose(data: Data, job: StoredJob, reason: str = "") -> Reaped:
    """Take a running job from its holder: back to the front, or failed as lost."""
    loss = after_loss(job.losses, job.new.max_losses, job.solo)
    data.count("lost", job.new.queue, job.worker)
    data.revoke(job, AnnouncementKind.TAKEN)
    error = lost(loss.losses, reason)
    data.enter_attempt(job, AttemptEnd.LOST, error)
    with data.changing(job):
        job.state = State.WAITING
        job.losses = loss.losses
        job.error = error
    if loss.failed:
        end(data, job, State.FAILED, by=job.worker)
    else:
        data.wake(job.new.queue)
    return Reaped(job.new.id, job.new.queue, job.new.task, job.worker, loss.losses, loss.failed)
