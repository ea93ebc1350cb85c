"""Leases jobs, renews leases, and takes jobs from workers whose leases have expired or that are gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tenure.core.job import AttemptEnd, ErrorInfo, JobRecord, State
from tenure.core.lease import AbortReason, Lease, Token
from tenure.core.lifecycle import EXPIRED, WAIT_TIMEOUT, after_loss, kept_reason, lost
from tenure.stores.base import LOOK_AHEAD, SUSPECTS
from tenure.stores.sqlite.attempts import record_attempts
from tenure.stores.sqlite.ending import end
from tenure.stores.sqlite.rows import Facts, dumps, facts, loads, records
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.values import AnnouncementKind, Change, Leased, LeaseRequest, Reaped, Renewal

__all__ = ["lease", "leases_of", "reap", "renew", "retire"]

NO_LIMIT = 1e12
"""Seconds: longer than any lease."""


def lease(tx: Transaction, request: LeaseRequest) -> Callable[[], Leased]:
    """Lease the jobs that are first in line, as the store contract says.

    Returns a function that builds the answer, for the caller to call on its own thread. The writer's thread does not build a thousand
    records, because every process that writes to the file would wait for it.
    """
    names = dumps(request.queues)
    queues = tx.all("leasable_queues", names, tx.wall)
    expired = [queue for queue, _, _, expired, *_ in queues if expired]
    for queue in expired:
        _cancel_expired(tx, queue)
    promoted = {queue: due for queue, _, scheduled, *_ in queues if scheduled and (due := _promote(tx, queue))}
    if expired or promoted:
        tx.flush()
        queues = tx.all(
            "leasable_queues", names, tx.wall
        )  # a promoted job may be a suspect, and a cancelled one may have unblocked jobs in another queue
    rows: list[str] = []
    left = request.limit
    suspects = [queue for queue, *_, suspect, _ in queues if suspect]
    suspect, suspect_waiting = _choose_suspect(tx, request, suspects) if suspects else (None, False)
    solo = suspect is not None and left > 0
    if suspect is not None and solo:
        queue, before = suspect
        left -= _hand_out(tx, request, queue, (queue, True, 1, tx.wall, before), rows)
    else:
        for queue, waiting, *_ in queues:
            if waiting and left > 0:
                left -= (_hand_out_unskipped if request.skip_tasks else _hand_out_first)(tx, request, queue, left, rows)
    if sum(promoted.values()) > request.limit - left:
        for queue, number in promoted.items():
            tx.wake_workers(queue, number)
    due_in = None if rows else _due_in(tx, [queue for queue, _, scheduled, *_ in queues if scheduled])
    inbox = any(inbox for *_, inbox in queues)
    passed_over = _passed_over(tx, request, [queue for queue, waiting, *_ in queues if waiting]) if not rows else ()
    now, ttl = tx.wall, request.length(None)
    return lambda: Leased(
        [_lease(row, request, now, ttl, solo) for text in rows for row in loads(text)],
        suspect_waiting,
        due_in,
        inbox,
        passed_over,
    )


def _choose_suspect(
    tx: Transaction, request: LeaseRequest, queues: Sequence[str]
) -> tuple[tuple[str, int] | None, bool]:
    """The suspect that this request may lease: its queue and the number of suspects before it there; None if there is none.

    Also returns whether a suspect is in line that this request may not lease.
    """
    if not request.skip_tasks:
        if request.solo:
            return (queues[0], 0), False
        if not request.isolated:
            return None, True
    found = [
        (queue, at, request.solo or task in request.isolated)
        for queue in queues
        for at, task in enumerate(tx.array("suspect_tasks", queue, SUSPECTS))
        if task not in request.skip_tasks
    ]
    return next(((queue, at) for queue, at, mine in found if mine), None), any(not mine for *_, mine in found)


def _passed_over(tx: Transaction, request: LeaseRequest, queues: Sequence[str]) -> tuple[str, ...]:
    """The tasks that the request skips and that have a job in line."""
    if not request.skip_tasks:
        return ()
    seen = {row[0] for queue in queues for row in tx.all("tasks_in_line", queue, LOOK_AHEAD, SUSPECTS)}
    return tuple(task for task in request.skip_tasks if task in seen)


def _due_in(tx: Transaction, queues: Sequence[str]) -> float | None:
    due = [row[0] for queue in queues if (row := tx.one("next_due", queue))]
    return max(min(due) - tx.wall, 0.0) if due else None


def _promote(tx: Transaction, queue: str) -> int:
    """Put the due jobs of a queue in line. Returns how many."""
    due = tx.array("due_jobs", queue, tx.wall)
    if due:
        tx.run("promote_jobs", dumps(due), tx.reserve_seqs(len(due)))
        tx.count_move(queue, "scheduled", "waiting", len(due))
    return len(due)


def _hand_out_first(tx: Transaction, request: LeaseRequest, queue: str, limit: int, rows: list[str]) -> int:
    """Lease up to `limit` jobs from the front of the line. Returns how many."""
    return _hand_out(tx, request, queue, (queue, False, limit, tx.wall, 0), rows)


def _hand_out_unskipped(tx: Transaction, request: LeaseRequest, queue: str, limit: int, rows: list[str]) -> int:
    """As `_hand_out_first`, without the jobs of skipped tasks."""
    numbers = tx.array("unskipped_jobs", queue, LOOK_AHEAD, limit, tx.wall, dumps(request.skip_tasks))
    if not numbers:
        return 0
    return _hand_out(tx, request, queue, (dumps(numbers), False, None, tx.wall, None), rows, "_numbered")


def _hand_out(
    tx: Transaction, request: LeaseRequest, queue: str, selection: tuple[Any, ...], rows: list[str], variant: str = ""
) -> int:
    """Lease jobs of one queue and add them to `rows` as JSON. Returns how many.

    `selection` are the values ?1 to ?5 of `first_in_line`; `variant` is the suffix of the query's name.
    """
    values = selection[:1] if variant else selection
    try:
        row = tx.one(f"first_in_line{variant}", *values)
    except UnicodeDecodeError:
        # Another program has written a payload that is not valid text: one bad row must not stop the queue.
        row = tx.one(f"first_in_line{variant}_as_bytes", *values)
    assert row is not None
    if row[0] == "[]":
        return 0
    at_most = NO_LIMIT if request.at_most is None else request.at_most
    number = tx.run(f"lease_jobs{variant}", *selection, request.nonce, request.worker, tx.boot, request.ttl, at_most)
    tx.count_move(queue, "waiting", "running", number)
    rows.append(row[0])
    return number


_NO_STEP = ((), None, None)


def _step_fields(
    reads: str | None, on_timeout: str | None, has: str | None
) -> tuple[tuple[str, ...], str | None, dict[str, str]]:
    """The names that a step reads, the step to hand over to after a timeout, and the attributes with these names."""
    names = () if reads is None else _names(reads)
    found = loads(has) if has else {}
    return names, on_timeout, {name: found[name] for name in names if name in found}


@lru_cache(1000)
def _names(reads: str) -> tuple[str, ...]:
    return tuple(loads(reads))


def _lease(row: list[Any], request: LeaseRequest, now: float, ttl: float, solo: bool) -> Lease:
    """Build the lease of a row of `first_in_line`. It lasts `ttl` seconds, unless the job sets its own lease time."""
    (number, id_, task, queue, payload, raw, priority, seq, created_at, attempt, losses, fence, misses, max_attempts, max_losses,
     lease_, keep, expires_at, tags, unique, run_id, error, results, step, ready_at, headers) = row  # fmt: skip
    reads, on_timeout, attributes = _step_fields(*step) if step else _NO_STEP
    if lease_ is not None:
        ttl = request.length(lease_)
    job = JobRecord(
        id_, task, queue, State.RUNNING, bytes.fromhex(payload) if raw else payload.encode(), raw == 1, priority, seq, None,
        created_at, attempt + 1, losses, fence + 1, misses, max_attempts, max_losses, lease_, keep, expires_at,
        tuple(tags) if tags else (), unique, run_id, now, None, request.worker,
        ttl, None, msgspec.convert(error, ErrorInfo) if error else None, None, 0,
        tuple(results) if results else (), None, on_timeout, reads, attributes, ready_at, headers,
    )  # fmt: skip
    return Lease(job, Token(fence + 1, request.nonce), ttl, solo, number)


def _cancel_expired(tx: Transaction, queue: str) -> None:
    for (expired,) in tx.all("expired_jobs", queue, tx.wall):
        # The end of an earlier job may have ended this one, which waited for it.
        job = facts(tx, [expired]).get(expired)
        if job is not None and not State(job.state).final:
            tx.add_consequence(Change.EXPIRED, job.id, job.task, job.queue)
            end(tx, job, State.CANCELLED, error=EXPIRED)


def renew(tx: Transaction, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
    """Renew leases. Returns for each None, or why its holder has to abort the job."""
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
    """Take jobs of these queues from holders whose leases have expired, and end the wait of overdue parked jobs."""
    reaped: list[Reaped] = []
    for queue in queues:
        expired = [row[0] for row in tx.all("expired_leases", queue, tx.boot, limit - len(reaped))]
        if expired:
            reaped += [_take_away(tx, job) for job in facts(tx, expired).values()]
        if len(reaped) >= limit:
            return reaped
    ended = 0
    for queue in queues:
        parked = [row[0] for row in tx.all("overdue_parked_jobs", queue, tx.wall, limit - ended)]
        ended += len(parked)
        for id_ in parked:
            # The end of an earlier job may have ended this one, which waited for it.
            job = facts(tx, [id_]).get(id_)
            if job is not None and not State(job.state).final:
                _unpark(tx, job)
    return reaped


def _unpark(tx: Transaction, job: Facts) -> None:
    """End the wait of a parked job that was not completed in time: it goes on at its `on_timeout` step, or fails."""
    if job.on_timeout is None:
        tx.add_consequence(Change.FAILED, job.id, job.task, job.queue)
        end(tx, job, State.FAILED, error=WAIT_TIMEOUT)
        return
    tx.run("unpark_job", job.id, tx.reserve_seqs(1), tx.wall)
    tx.count_move(job.queue, "blocked", "waiting")
    tx.wake_workers(job.queue)
    tx.add_consequence(Change.OVERDUE, job.id, job.task, job.queue)


def leases_of(tx: Transaction, request: LeaseRequest) -> list[Lease]:
    """The leases that this request was given and that are still held."""
    ids = [row[0] for row in tx.all("jobs_of_nonce", request.nonce)]
    return [request.given(job) for job in records(tx, tx.all("get_jobs", dumps(ids)))]


def retire(tx: Transaction, worker: str, limit: int, reason: str | None) -> list[Reaped]:
    """Remove a worker from the registry, and take its jobs from it."""
    held = facts(tx, [row[0] for row in tx.all("jobs_of_worker", worker, limit)])
    reaped = [_take_away(tx, job, kept_reason(reason)) for job in held.values()]
    tx.run("delete_worker", worker)
    return reaped


def _take_away(tx: Transaction, job: Facts, reason: str = "") -> Reaped:
    """Take a running job from its holder, which is silent or gone. Counts a loss; the job fails if it has too many."""
    loss = after_loss(job.losses, job.max_losses, bool(job.solo))
    tx.count_total("lost", job.queue, job.worker)
    tx.notify_holder(job.worker, AnnouncementKind.TAKEN, job.id)
    error = lost(loss.losses, reason)
    record_attempts(tx, [(job.number, job.fence, AttemptEnd.LOST, error)])
    if loss.failed:
        tx.run("set_losses", job.id, loss.losses)
        end(tx, job, State.FAILED, error=error, by=job.worker)
    else:
        tx.run("lose_job", job.id, loss.losses, dumps(error))
        tx.count_move(job.queue, "running", "waiting")
        tx.wake_workers(job.queue)
    return Reaped(job.id, job.queue, job.task, job.worker, loss.losses, loss.failed)
