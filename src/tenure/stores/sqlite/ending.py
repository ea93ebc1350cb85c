"""Makes jobs final, with all consequences: unique keys, edges, waiters, retention. Also deletes jobs."""

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
"""Seconds that a final job is kept at least if a caller waits for it."""

KEEP_WITH_RUN = float("inf")
"""Until when a step is kept that has handed over: it is removed with its run."""

DELETED = "deleted"
"""How a blocker has ended that was deleted."""


def end(
    tx: Transaction,
    job: Facts,
    state: State,
    *,
    result: str | None = None,
    error: ErrorInfo | None = None,
    by: str | None = None,
) -> None:
    """Make a job final, with all consequences. `by` is the worker whose totals count it; None for none."""
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
    """Make a job final as `end` does, but remove no job. Returns the jobs that ended, for the caller to pass to `drop_unkept`.

    `settled`: whether the holder of the lease has ended the job. Only then does its token stay valid, for a repeated settle.
    """
    ended = _finish(tx, job, state, result, error, by, settled=settled, successor=successor)
    failed = propagate(tx, ended, state, result, error or error_of(job.error))
    return failed if successor is not None else [job, *failed]


def ended_by(tx: Transaction, job: Facts, successor: str | None) -> list[Facts]:
    """The jobs whose dependents, waiters and unique keys are due when `job` becomes final with this successor.

    The first step of a run stands for the whole run. So it ends with the run's last step, not when it hands over.
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
    """Make one job final: its record, unique key, counters and waiters. Returns what `ended_by` returns."""
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
    """Propagate the end of these jobs to their dependents, breadth first. Returns the dependents that failed because of it.

    `new` is a dependent that has just been enqueued: only its edges to `ended` are looked at, because older dependents know already.
    It keeps the seq it was enqueued with, which is at the back of the line. `new_dependents` are jobs of the same call that are not yet
    connected to their blockers: each is passed over here, and gets a call with `new` later.
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
    """Close the edges to jobs that have all succeeded, in this order. `succeeded` has the id and the result of each."""
    edges = tx.array("edges_to_close", dumps([job_id for job_id, _ in succeeded]))
    tx.run("close_edges", dumps([(dependent, position, succeeded[by][1]) for by, dependent, position in edges]))
    _unblock(tx, [dependent for _, dependent, _ in edges])


def _unblock(tx: Transaction, dependents: Sequence[str], *, new: bool = False) -> None:
    """Count closed edges: one for each item of `dependents`, in this order. A dependent whose last edge has closed joins the line."""
    if not dependents:
        return
    # In the order in which their last edges close.
    closed = Counter(reversed(dependents))
    left = {row[0]: row for row in tx.all("count_closed_edges", dumps(list(closed.items())))}
    for dependent in reversed(closed):
        _, state, blocked_by, run_at, queue, task = left[dependent]
        if blocked_by or state != State.BLOCKED:
            continue
        due = run_at is None or run_at <= tx.wall
        seq = tx.reserve_seqs(1) if due and not new else None
        tx.run("put_in_line", dependent, seq, None if due else run_at, tx.wall)
        tx.count_move(queue, "blocked", "waiting" if due else "scheduled")
        tx.wake_workers(queue)
        if not new:
            tx.add_consequence(Change.UNBLOCKED, dependent, task, queue)


def drop_unkept(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Remove those of these final jobs that have `keep=0`, unless they are still needed (`claimed`)."""
    unkept = [job.id for job in jobs if job.keep == 0 and not job.waited]
    if unkept:
        for steps in whole_runs(tx, facts(tx, unkept).values()).values():
            if not claimed(tx, steps, recent=True):
                remove(tx, steps)


def claimed(tx: Transaction, steps: Sequence[Facts], *, recent: bool) -> bool:
    """Whether a final job, or a run with these steps, is still needed: by a blocked dependent, or as the owner of a unique key.

    A caller that waits for its end counts too, if that end is `recent`.
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
    """Delete jobs in any state. Notifies their holders and waiters, and propagates to their dependents."""
    for job in jobs:
        if job.state == State.RUNNING:
            tx.notify_holder(job.worker, AnnouncementKind.DELETED, job.id)
    remove(tx, jobs)
    for job in sorted(jobs, key=lambda job: job.number):
        if job.blocks:
            drop_unkept(tx, propagate(tx, [job], DELETED, error=error_of(job.error)))


def remove(tx: Transaction, jobs: Sequence[Facts]) -> None:
    """Delete the rows of jobs, with their edges and unique keys; with the first step of a run, the run's attributes and lookups."""
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
