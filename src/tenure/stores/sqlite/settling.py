"""Attempts coming to their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.job import State
from tenure.lease import Lease
from tenure.lifecycle import Finish, Park, Requeue, Transition
from tenure.stores.base import LEASE_LOST, NOT_FOUND, OK, Holding, Settlement, Verdict, refused
from tenure.stores.sqlite.ending import conclude, drop_unkept
from tenure.stores.sqlite.enqueueing import enqueue
from tenure.stores.sqlite.rows import Facts, dumps, facts
from tenure.stores.sqlite.transaction import NotPlain, Transaction

__all__ = ["holding", "settle", "settle_held"]


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[Verdict]:
    """Apply each step under its token; one verdict each.

    Nearly every job simply finishes: these go in one statement. One that has anything else about it (a lost lease, a
    unique key, somebody who waits) goes by itself.
    """
    plain = [item for item in settlements if _is_plain(item[1])]
    if not tx.plainly:
        items = dumps([_item(lease, step) for lease, step in plain])
        held = [plain[row[0]] for row in tx.all("held_plainly", items)]
        # Twice the same settle in one call: the second finds it done.
        plain = list({lease.number: (lease, step) for lease, step in reversed(held)}.values())
    if plain:
        _end_plainly(tx, plain)
    if len(plain) == len(settlements):
        return [OK] * len(settlements)
    done = {id(item[0]) for item in plain}
    return [OK if id(item[0]) in done else _settle_one(tx, item) for item in settlements]


def _is_plain(step: Transition) -> bool:
    # Old versions of SQLite, as Python's may be, cut what they read out of JSON at a NUL.
    return isinstance(step, Finish) and not step.children and "\0" not in (step.result or "")


def _end_plainly(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Finish all of these in one statement; `NotPlain` if one of them is not held under its token, or has more about it."""
    if tx.run("end_held", dumps([_item(lease, step) for lease, step in settlements]), tx.wall) < len(settlements):
        raise NotPlain
    ends = Counter((lease.job.queue, step.state, lease.job.worker) for lease, step in settlements)  # type: ignore[union-attr]
    for (queue, state, worker), number in ends.items():
        tx.moved(queue, "running", state, number)
        tx.total(state, queue, worker, number)
        _count_processed(tx, state, queue, worker, number)


def _item(lease: Lease, step: Transition) -> tuple[object, ...]:
    assert isinstance(step, Finish)
    error = None if step.error is None else dumps(step.error)
    return lease.number, lease.token.fence, lease.token.nonce, step.state, step.result, error


def settle_held(tx: Transaction, settlement: Settlement) -> Verdict:
    """Apply a step under its token, which must not have settled the job before."""
    return LEASE_LOST if holding(tx, settlement[0]) is Holding.SETTLED else _settle_one(tx, settlement)


def holding(tx: Transaction, lease: Lease) -> Holding:
    """What this lease is worth."""
    return _worth(lease, facts(tx, [lease.job.id]).get(lease.job.id))


def _worth(lease: Lease, job: Facts | None) -> Holding:
    if job is None:
        return Holding.GONE
    if (job.fence, job.nonce) != (lease.token.fence, lease.token.nonce):
        return Holding.LOST
    return Holding.HELD if job.state == State.RUNNING else Holding.SETTLED


def _settle_one(tx: Transaction, settlement: Settlement) -> Verdict:
    lease, step = settlement
    job = facts(tx, [lease.job.id]).get(lease.job.id)
    match _worth(lease, job):
        case Holding.GONE:
            return NOT_FOUND
        case Holding.LOST:
            return LEASE_LOST
        case Holding.SETTLED:
            return OK
    assert job is not None
    match step:
        case Finish():
            return _finish(tx, job, step)
        case Requeue():
            _requeue(tx, job, step)
        case Park(timeout):
            tx.run("park_job", job.id, float("inf") if timeout is None else tx.wall + timeout)
            tx.moved(job.queue, "running", "blocked")
    return OK


def _finish(tx: Transaction, job: Facts, step: Finish) -> Verdict:
    try:
        with tx.attempt():
            _count_processed(tx, step.state, job.queue, job.worker)
            ended = conclude(tx, job, step.state, result=step.result, error=step.error, by=job.worker, settled=True)
            # Between the end and the drop: a child may take the key that has just come free, or wait for its parent.
            enqueue(tx, step.children)
            drop_unkept(tx, ended)
    except UniqueConflict as conflict:
        return refused(str(conflict), other=conflict.holder)
    except BlockerNotFound as missing:
        return refused(str(missing), other=missing.blocker)
    return OK


def _count_processed(tx: Transaction, state: State, queue: str, worker: str | None, number: int = 1) -> None:
    # A broken job never ran.
    if state is not State.BROKEN:
        tx.total("processed", queue, worker, number)


def _requeue(tx: Transaction, job: Facts, step: Requeue) -> None:
    run_at = step.run_at if step.run_at is not None else tx.wall + step.delay if step.delay > 0 else None
    if run_at is not None and run_at <= tx.wall:
        run_at = None
    tx.run(
        "requeue_job",
        job.id,
        run_at,
        # A place is drawn when the job comes in line: one that is to wait for its time keeps the old one until then.
        None if step.front or run_at is not None else tx.seq(1),
        0 if step.counts else 1,
        job.misses + 1 if step.missed else job.misses if step.front else 0,
        None if step.error is None else dumps(step.error),
    )
    tx.moved(job.queue, "running", "waiting" if run_at is None else "scheduled")
    tx.came_in_line(job.queue)
    if step.counts:
        tx.total("processed", job.queue, job.worker)
        tx.total("retried", job.queue, job.worker)
