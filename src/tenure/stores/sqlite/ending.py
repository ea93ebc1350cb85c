"""Jobs becoming final, and what follows from it: unique keys, edges, waiters, retention."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.job import BlockerPolicy, ErrorInfo, State
from tenure.stores.base import SignalKind
from tenure.stores.sqlite.rows import Facts, dumps, facts
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["end", "follow_blocker", "remove"]

WAITED_FOR = 60.0
"""Seconds that a result somebody waits for is kept at least."""


def end(
    tx: Transaction,
    job: Facts,
    state: State,
    *,
    result: str | None = None,
    error: ErrorInfo | None = None,
    by_holder: bool = False,
) -> None:
    """Make a job final, with all that follows; the token of a holder who did not do it himself is dead."""
    keep_until = None
    if job.keep is not None:
        keep_until = tx.wall + max(job.keep, WAITED_FOR if job.waited else 0.0)
    elif job.waited:
        keep_until = tx.wall + WAITED_FOR
    tx.run("end_job", job.id, state, tx.wall, result, None if error is None else dumps(error), keep_until, by_holder)
    tx.moved(job.queue, job.place, state)
    tx.total(state, job.queue, job.worker if by_holder else None)
    if job.unique is not None:
        tx.run("free_unique", job.task, job.unique, job.id, state is State.CANCELLED)
    if job.waited:
        tx.tell_waiters(job.id)
    if job.blocks:
        follow_blocker(tx, job.id, state, result, error)
    if job.keep == 0 and not job.waited:
        remove(tx, [job._replace(state=state, run_at=None)])


def follow_blocker(
    tx: Transaction, blocker: str, state: State | None, result: str | None, error: ErrorInfo | None
) -> None:
    """Let the jobs that wait for this one know how it ended; no state means that it is gone for good."""
    closed: dict[str, int] = {}
    failed: list[str] = []
    for dependent, position, policy in tx.all("open_edges_to", blocker):
        if state is State.SUCCEEDED:
            value = result
        elif policy == BlockerPolicy.PROCEED:
            value = dumps({"failure": error or ErrorInfo("BlockerFailed", f"job {blocker} is {state or 'gone'}")})
        elif policy == BlockerPolicy.WAIT and state is not None:
            continue
        else:
            failed.append(dependent)
            continue
        tx.run("close_edge", dependent, position, value)
        closed[dependent] = closed.get(dependent, 0) + 1
    for dependent, number in closed.items():
        _unblock(tx, dependent, number)
    why = ErrorInfo("BlockerFailed", f"job {blocker}, which it waited for, is {state or 'gone'}")
    for job in facts(tx, dict.fromkeys(failed)).values():
        if job.state == State.BLOCKED:
            end(tx, job, State.FAILED, error=why)


def _unblock(tx: Transaction, dependent: str, number: int) -> None:
    row = tx.one("unblock", dependent, number)
    assert row is not None
    left, run_at, queue = row
    if left:
        return
    due = run_at is None or run_at <= tx.wall
    tx.run("join_line", dependent, tx.seq(1), None if due else run_at)
    tx.moved(queue, "blocked", "waiting" if due else "scheduled")
    tx.came_in_line(queue)


def remove(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Take jobs out of the store, whatever their state, telling whoever has to do with them."""
    ids = dumps([job.id for job in jobs])
    tx.run("delete_jobs", ids)
    tx.run("delete_edges", ids)
    for job in jobs:
        tx.count(job.queue, job.place, -1)
        if job.unique is not None:
            tx.run("free_unique", job.task, job.unique, job.id, job.state not in ("succeeded", "failed", "broken"))
        if job.state == State.RUNNING:
            tx.tell_holder(job.worker, SignalKind.DELETED, job.id)
        if job.waited:
            tx.tell_waiters(job.id)
        if job.blocks:
            follow_blocker(tx, job.id, None, None, None)
