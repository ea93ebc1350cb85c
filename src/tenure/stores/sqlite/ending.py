"""Jobs becoming final, and what follows from it: unique keys, edges, waiters, retention."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tenure.job import BlockerPolicy, ErrorInfo, State
from tenure.lifecycle import blocker_failed, failure_value
from tenure.stores.base import SignalKind
from tenure.stores.sqlite.rows import Facts, dumps, error_of, facts
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["WAITED_FOR", "claimed", "conclude", "delete", "drop_unkept", "end", "follow", "remove"]

WAITED_FOR = 60.0
"""Seconds that a result somebody waits for is kept at least."""

DELETED = "deleted"
"""How a blocker has ended that is simply gone."""


def end(
    tx: Transaction,
    job: Facts,
    state: State,
    *,
    result: str | None = None,
    error: ErrorInfo | None = None,
    by: str | None = None,
    settled: bool = False,
) -> None:
    """Make a job final, with all that follows.

    `by` is the worker whose doing it was. The token stays known only if it was this that settled the job.
    """
    drop_unkept(tx, conclude(tx, job, state, result=result, error=error, by=by, settled=settled))


def conclude(
    tx: Transaction,
    job: Facts,
    state: State,
    *,
    result: str | None = None,
    error: ErrorInfo | None = None,
    by: str | None = None,
    settled: bool = False,
) -> list[Facts]:
    """Make a job final as `end` does; the jobs that ended, which the caller is to drop if they are not kept."""
    _finish(tx, job, state, result, error, by, settled=settled)
    return [job, *follow(tx, job.id, state, result, error or error_of(job.error))] if job.blocks else [job]


def _finish(
    tx: Transaction,
    job: Facts,
    state: State,
    result: str | None,
    error: ErrorInfo | None,
    by: str | None = None,
    *,
    settled: bool = False,
) -> None:
    """End one job: its record, key, counters and waiters."""
    keep_until = None
    if job.keep is not None:
        keep_until = tx.wall + max(job.keep, WAITED_FOR if job.waited else 0.0)
    tx.run("end_job", job.id, state, tx.wall, result, None if error is None else dumps(error), keep_until, settled)
    tx.moved(job.queue, job.place, state)
    tx.total(state, job.queue, by)
    if job.unique is not None:
        tx.run("free_unique", job.task, job.unique, job.id, state is State.CANCELLED)
    if job.waited:
        tx.tell_waiters(job.id, SignalKind.DONE)


def follow(
    tx: Transaction,
    blocker: str,
    ended: str,
    result: str | None = None,
    error: ErrorInfo | None = None,
    *,
    new: str | None = None,
) -> list[Facts]:
    """Tell those who wait for a job how it ended, and those who wait for them in turn if that ends them; who has ended so.

    `new` has just been enqueued, and is the only one who does not know yet; the place it came with is at the back already.
    """
    following = deque([(blocker, ended, result, error)])
    failed: list[Facts] = []
    while following:
        blocker, ended, result, error = following.popleft()
        failing: dict[str, None] = {}
        for dependent, position, policy, state in tx.all("open_edges_to", blocker):
            if new is not None and dependent != new:
                continue
            if ended == State.SUCCEEDED:
                _close(tx, dependent, position, result, new=new is not None)
            elif policy == BlockerPolicy.PROCEED:
                _close(tx, dependent, position, failure_value(blocker, ended, error), new=new is not None)
            elif state == State.BLOCKED and (policy == BlockerPolicy.FAIL or ended == DELETED):
                failing[dependent] = None
        why = blocker_failed(blocker, ended)
        for job in facts(tx, failing).values():
            _finish(tx, job, State.FAILED, None, why)
            failed.append(job)
            if job.blocks:
                following.append((job.id, State.FAILED, None, why))
    return failed


def _close(tx: Transaction, dependent: str, position: int, result: str | None, *, new: bool) -> None:
    """Close one edge; with the last one the dependent comes in line, if it still waits."""
    tx.run("close_edge", dependent, position, result)
    row = tx.one("unblock", dependent)
    assert row is not None
    state, left, run_at, queue = row
    if left or state != State.BLOCKED:
        return
    due = run_at is None or run_at <= tx.wall
    tx.run("join_line", dependent, tx.seq(1) if due and not new else None, None if due else run_at)
    tx.moved(queue, "blocked", "waiting" if due else "scheduled")
    tx.came_in_line(queue)


def drop_unkept(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Remove those of these jobs, all final, that are not kept at all, unless somebody has a claim on them."""
    unkept = [job.id for job in jobs if job.keep == 0 and not job.waited]
    if unkept:
        remove(tx, [job for job in facts(tx, unkept).values() if not claimed(tx, job)])


def claimed(tx: Transaction, job: Facts) -> bool:
    """Whether a final job is still needed: by one that waits for it, or as the holder of a unique key."""
    if job.blocks and any(row[3] == State.BLOCKED for row in tx.all("open_edges_to", job.id)):
        return True
    if job.unique is None or job.window is None:
        return False
    holder = tx.one("unique_holder", job.task, job.unique, tx.wall)
    return holder is not None and holder[0] == job.id


def delete(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Take jobs out of the store, whatever their state, telling whoever has to do with them."""
    for job in jobs:
        if job.state == State.RUNNING:
            tx.tell_holder(job.worker, SignalKind.DELETED, job.id)
    remove(tx, jobs)
    for job in jobs:
        if job.blocks:
            drop_unkept(tx, follow(tx, job.id, DELETED, error=error_of(job.error)))


def remove(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Take jobs, their edges and their keys out of the store."""
    ids = dumps([job.id for job in jobs])
    tx.run("delete_jobs", ids)
    tx.run("delete_edges", ids)
    for job in jobs:
        tx.count(job.queue, job.place, -1)
        if job.unique is not None:
            tx.run("free_unique", job.task, job.unique, job.id, True)
        if job.waited:
            tx.tell_waiters(job.id, SignalKind.DELETED)
