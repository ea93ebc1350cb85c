"""Jobs becoming final, and what follows from it: unique keys, edges, waiters, retention."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Sequence

from tenure.core.job import BlockerPolicy, ErrorInfo, State
from tenure.core.lifecycle import blocker_failed, failure_value
from tenure.stores.sqlite.rows import Facts, dumps, error_of, facts, whole_runs
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.values import AnnouncementKind, Change

__all__ = [
    "KEEP_FOR_WAITERS",
    "KEEP_WITH_RUN",
    "claimed",
    "close_edges",
    "conclude",
    "delete",
    "drop_unkept",
    "end",
    "ended_by",
    "propagate",
    "remove",
]

KEEP_FOR_WAITERS = 60.0
"""Seconds that a result somebody waits for is kept at least."""

KEEP_WITH_RUN = float("inf")
"""Until when a step is kept that has handed over: it goes with its run."""

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
) -> None:
    """Make a job final, with all that follows. `by` is the worker whose doing it was."""
    drop_unkept(tx, conclude(tx, job, state, result=result, error=error, by=by))


def conclude(
    tx: Transaction,
    job: Facts,
    state: State,
    *,
    result: str | None = None,
    error: ErrorInfo | None = None,
    by: str | None = None,
    settled: bool = False,
    successor: str | None = None,
) -> list[Facts]:
    """Make a job final as `end` does; the jobs that ended, which the caller is to drop if they are not kept.

    The token stays known only if it was this that `settled` the job.
    """
    ended = _finish(tx, job, state, result, error, by, settled=settled, successor=successor)
    failed = propagate(tx, ended, state, result, error or error_of(job.error))
    return failed if successor is not None else [job, *failed]


def ended_by(tx: Transaction, job: Facts, successor: str | None) -> list[Facts]:
    """Which jobs' dependents, waiters and keys it is time for when this one is final, having this successor.

    A run's first step stands for the run: not before that has ended is it over, and then with the last.
    """
    if successor is not None:
        return [] if job.is_first_step else [job]
    if job.run_id is None or job.is_first_step:
        return [job]
    return [job, *facts(tx, [job.run_id]).values()]


def _finish(
    tx: Transaction,
    job: Facts,
    state: State,
    result: str | None,
    error: ErrorInfo | None,
    by: str | None = None,
    *,
    settled: bool = False,
    successor: str | None = None,
) -> list[Facts]:
    """End one job: its record, key, counters and waiters; which jobs that is the end of."""
    ended = ended_by(tx, job, successor)
    keep_until = None
    if successor is not None:
        keep_until = KEEP_WITH_RUN
        tx.count(job.queue, "passed", 1)
    elif job.keep is not None:
        keep_until = tx.wall + max(job.keep, KEEP_FOR_WAITERS if any(each.waited for each in ended) else 0.0)
    why = None if error is None else dumps(error)
    tx.run("end_job", job.id, state, tx.wall, result, why, keep_until, settled, successor)
    tx.count_move(job.queue, job.counter, state)
    tx.count_total(state, job.queue, by)
    for each in ended:
        if each.unique is not None:
            tx.run("free_unique", each.task, each.unique, each.id, state is State.CANCELLED)
        if each.waited:
            tx.notify_waiters(each.id, AnnouncementKind.DONE)
    return ended


def propagate(
    tx: Transaction,
    ended: Sequence[Facts],
    how: str,
    result: str | None = None,
    error: ErrorInfo | None = None,
    *,
    new: str | None = None,
    new_dependents: Collection[str] = (),
) -> list[Facts]:
    """Tell those who wait for what has ended how, and those who wait for them in turn if that ends them; who has ended so.

    `new` has just been enqueued, and is the only one who does not know yet; the place it came with is at the back already. Those
    that are `new_dependents` with it are told by themselves.
    """
    following = deque([(ended, how, result, error)])
    failed: list[Facts] = []
    first = True
    while following:
        ended, how, result, error = following.popleft()
        only, first = new if first else None, False
        blockers = [each.id for each in ended if each.blocks]
        if not blockers:
            continue
        closing: list[tuple[str, int, str | None]] = []
        failing: dict[str, str] = {}
        for dependent, position, policy, state, blocker in tx.all("open_edges_to", blockers[0], blockers[-1]):
            if dependent != only and (only is not None or dependent in new_dependents):
                continue
            if how == State.SUCCEEDED:
                closing.append((dependent, position, result))
            elif policy == BlockerPolicy.PROCEED:
                closing.append((dependent, position, failure_value(blocker, how, error)))
            elif state == State.BLOCKED and (policy == BlockerPolicy.FAIL or how == DELETED):
                failing.setdefault(dependent, blocker)
        for dependent, position, given in closing:
            tx.run("close_edge", dependent, position, given)
        _unblock(tx, [dependent for dependent, _, _ in closing], new=only is not None)
        for job in facts(tx, failing).values() if failing else ():
            why = blocker_failed(failing[job.id], how)
            following.append((_finish(tx, job, State.FAILED, None, why), State.FAILED, None, why))
            tx.add_consequence(Change.FAILED, job.id, job.task, job.queue)
            failed.append(job)
    return failed


def close_edges(tx: Transaction, succeeded: Sequence[tuple[str, str | None]]) -> None:
    """Close the edges to jobs that have all succeeded, one after the other, each with its result."""
    edges = tx.array("edges_to_close", dumps([job_id for job_id, _ in succeeded]))
    tx.run("close_edges", dumps([(dependent, position, succeeded[by][1]) for by, dependent, position in edges]))
    _unblock(tx, [dependent for _, dependent, _ in edges])


def _unblock(tx: Transaction, dependents: Sequence[str], *, new: bool = False) -> None:
    """An edge of each of these has closed, in this order; with its last one a dependent comes in line, if it still waits."""
    if not dependents:
        return
    # By whose last edge closes first.
    closed = Counter(reversed(dependents))
    left = {row[0]: row for row in tx.all("count_closed_edges", dumps(list(closed.items())))}
    for dependent in reversed(closed):
        _, state, blocked_by, run_at, queue, task = left[dependent]
        if blocked_by or state != State.BLOCKED:
            continue
        due = run_at is None or run_at <= tx.wall
        tx.run("put_in_line", dependent, tx.reserve_seqs(1) if due and not new else None, None if due else run_at)
        tx.count_move(queue, "blocked", "waiting" if due else "scheduled")
        tx.wake_workers(queue)
        if not new:
            tx.add_consequence(Change.UNBLOCKED, dependent, task, queue)


def drop_unkept(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Remove those of these jobs, all final, that are not kept at all, unless somebody has a claim on them."""
    unkept = [job.id for job in jobs if job.keep == 0 and not job.waited]
    if unkept:
        for steps in whole_runs(tx, facts(tx, unkept).values()).values():
            if not claimed(tx, steps, recent=True):
                remove(tx, steps)


def claimed(tx: Transaction, steps: Sequence[Facts], *, recent: bool) -> bool:
    """Whether a final job, or a run, is still needed: by one that waits for it, or as the holder of a unique key.

    By whoever has asked to be told of its end too, if that is `recent`.
    """
    return any((recent and job.waited) or _claimed(tx, job) for job in steps)


def _claimed(tx: Transaction, job: Facts) -> bool:
    if job.blocks and any(row[3] == State.BLOCKED for row in tx.all("open_edges_to", job.id, None)):
        return True
    if job.unique is None or job.window is None:
        return False
    owner = tx.one("unique_owner", job.task, job.unique, tx.wall)
    return owner is not None and owner[0] == job.id


def delete(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Take jobs out of the store, whatever their state, telling whoever has to do with them."""
    for job in jobs:
        if job.state == State.RUNNING:
            tx.notify_holder(job.worker, AnnouncementKind.DELETED, job.id)
    remove(tx, jobs)
    for job in sorted(jobs, key=lambda job: job.number):
        if job.blocks:
            drop_unkept(tx, propagate(tx, [job], DELETED, error=error_of(job.error)))


def remove(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Take jobs, their edges and their keys out of the store; with the first step of a run what the run has."""
    if not jobs:
        return
    ids = dumps([job.id for job in jobs])
    tx.run("delete_jobs", ids)
    tx.run("delete_edges", ids)
    if runs := [job.id for job in jobs if job.is_first_step]:
        tx.run("delete_attributes", dumps(runs))
        tx.run("delete_lookups", dumps(runs))
    for job in jobs:
        tx.count(job.queue, job.counter, -1)
        if job.successor is not None:
            tx.count(job.queue, "passed", -1)
        if job.unique is not None:
            tx.run("free_unique", job.task, job.unique, job.id, True)
        if job.waited:
            tx.notify_waiters(job.id, AnnouncementKind.DELETED)
