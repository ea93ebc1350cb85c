"""Handing jobs out, holding them for longer, and taking them from the silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.job import ErrorInfo, JobRecord, State
from tenure.lease import AbortReason, Lease, Token
from tenure.lifecycle import EXPIRED, WAIT_TIMEOUT, after_loss, lost
from tenure.stores.base import Leased, LeaseRequest, Reaped, Renewal, SignalKind
from tenure.stores.sqlite.ending import end
from tenure.stores.sqlite.rows import Facts, dumps, edge_results, facts, loads
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["lease", "reap", "renew", "retire"]


def lease(tx: Transaction, request: LeaseRequest) -> Leased:
    """Hand out what is first in line; see the contract."""
    names = dumps(request.queues)
    _cancel_expired(tx, names)
    queues = tx.all("open_queues", names)
    promoted = {queue: _promote(tx, queue) for queue, _, scheduled in queues if scheduled}
    in_line = [queue for queue, waiting, _ in queues if waiting or promoted.get(queue)]
    leases: list[Lease] = []
    for queue in in_line:
        if len(leases) >= request.limit:
            break
        if request.solo and not leases and (alone := _take(tx, request, queue, suspect=True, limit=1)):
            leases = alone
            break
        leases += _take(tx, request, queue, suspect=False, limit=request.limit - len(leases))
    if sum(promoted.values()) > len(leases):
        for queue, number in promoted.items():
            tx.came_in_line(queue, number)
    return Leased(
        leases,
        suspect_waiting=not request.solo and any(tx.one("suspect_waits", queue) for queue in in_line),
        due_in=None if leases else _due_in(tx, [queue for queue, _, scheduled in queues if scheduled]),
    )


def _due_in(tx: Transaction, queues: Sequence[str]) -> float | None:
    due = [row[0] for queue in queues if (row := tx.one("next_due", queue))]
    return max(min(due) - tx.wall, 0.0) if due else None


def _promote(tx: Transaction, queue: str) -> int:
    """Let the due jobs of a queue come in line; how many."""
    row = tx.one("due_jobs", queue, tx.wall)
    assert row is not None
    due = len(loads(row[0]))
    if due:
        tx.run("promote_jobs", row[0], tx.seq(due))
        tx.moved(queue, "scheduled", "waiting", due)
    return due


def _take(tx: Transaction, request: LeaseRequest, queue: str, *, suspect: bool, limit: int) -> list[Lease]:
    found = tx.one("first_in_line", queue, suspect, limit, tx.wall)
    assert found is not None
    rows = loads(found[0])
    if not rows:
        return []
    numbers = dumps([row[0] for row in rows])
    tx.run("lease_jobs", numbers, request.nonce, request.worker, suspect, tx.wall, tx.boot, request.ttl)
    tx.moved(queue, "waiting", "running", len(rows))
    given = edge_results(tx, [row[1] for row in rows if row[22]])
    return [_lease(row, request, tx.wall, suspect, given.get(row[1], ())) for row in rows]


def _lease(row: list[Any], request: LeaseRequest, now: float, solo: bool, results: tuple[str | None, ...]) -> Lease:
    (_, id_, task, queue, payload, raw, priority, seq, created_at, attempt, losses, fence, misses, max_attempts, max_losses,
     lease_, keep, expires_at, tags, unique, run_id, error, _) = row  # fmt: skip
    job = JobRecord(
        id_, task, queue, State.RUNNING, bytes.fromhex(payload) if raw else payload.encode(), raw == 1, priority, seq, None,
        created_at, attempt + 1, losses, fence + 1, misses, max_attempts, max_losses, lease_, keep, expires_at,
        tuple(tags) if tags else (), unique, run_id, now, None, request.worker,
        request.ttl if lease_ is None else lease_, None, msgspec.convert(error, ErrorInfo) if error else None, None, 0, results,
    )  # fmt: skip
    return Lease(job, Token(fence + 1, request.nonce), request.ttl if lease_ is None else lease_, solo)


def _cancel_expired(tx: Transaction, queues: str) -> None:
    for (expired,) in tx.all("expired_jobs", queues, tx.wall):
        # The end of one may have been the end of the next, which waited for it.
        job = facts(tx, [expired]).get(expired)
        if job is not None and not State(job.state).final:
            end(tx, job, State.CANCELLED, error=EXPIRED)


def renew(tx: Transaction, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
    """Hold jobs for longer; None each, or why it has to be let go."""
    items = [
        (
            renewal.lease.job.id,
            renewal.lease.token.fence,
            renewal.lease.token.nonce,
            renewal.ttl,
            None if renewal.progress is None else dumps(renewal.progress),
        )
        for renewal in renewals
    ]
    if tx.run("renew_leases", dumps(items), tx.boot) == len(items):
        return [None] * len(items)
    found = facts(tx, [renewal.lease.job.id for renewal in renewals])
    return [_why_lost(found.get(renewal.lease.job.id), renewal.lease.token) for renewal in renewals]


def _why_lost(job: Facts | None, token: Token) -> AbortReason | None:
    if job is None:
        return AbortReason.NOT_FOUND
    if job.state == State.RUNNING and (job.fence, job.nonce) == (token.fence, token.nonce):
        return None
    if job.state == State.CANCELLED:
        return AbortReason.CANCELLED
    if State(job.state).final:
        return AbortReason.COMPLETED
    return AbortReason.TAKEN


def reap(tx: Transaction, queues: Sequence[str], limit: int) -> list[Reaped]:
    """Take jobs of these queues from holders whose lease has expired, and fail parked jobs whose time is over."""
    reaped: list[Reaped] = []
    for queue in queues:
        lapsed = [row[0] for row in tx.all("lapsed_jobs", queue, tx.boot, limit - len(reaped))]
        if lapsed:
            reaped += [_lose(tx, job) for job in facts(tx, lapsed).values()]
        if len(reaped) >= limit:
            return reaped
    parked = [row[0] for row in tx.all("parked_jobs", dumps(queues), tx.wall, limit)]
    if parked:
        for job in facts(tx, parked).values():
            end(tx, job, State.FAILED, error=WAIT_TIMEOUT)
    return reaped


def retire(tx: Transaction, worker: str, limit: int) -> list[Reaped]:
    """Forget a worker and take its jobs."""
    held = facts(tx, [row[0] for row in tx.all("held_jobs", worker, limit)])
    reaped = [_lose(tx, job) for job in held.values()]
    tx.run("remove_worker", worker)
    return reaped


def _lose(tx: Transaction, job: Facts) -> Reaped:
    """Take a running job from its holder, who is silent or gone."""
    loss = after_loss(job.losses, job.max_losses, bool(job.solo))
    tx.total("lost", job.queue, job.worker)
    tx.tell_holder(job.worker, SignalKind.TAKEN, job.id)
    if loss.failed:
        tx.run("note_loss", job.id, loss.losses)
        end(tx, job, State.FAILED, error=lost(loss.losses), by=job.worker)
    else:
        tx.run("lose_job", job.id, loss.losses)
        tx.moved(job.queue, "running", "waiting")
        tx.came_in_line(job.queue)
    return Reaped(job.id, job.queue, job.task, job.worker, loss.losses, loss.failed)
