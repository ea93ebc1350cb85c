"""What operators do to jobs and queues, and what retention does for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenure.errors import HasDependents
from tenure.job import ErrorInfo, State
from tenure.options import Retention
from tenure.stores.base import NOT_FOUND, OK, SignalKind, Verdict, refused
from tenure.stores.sqlite.ending import end, remove
from tenure.stores.sqlite.rows import Facts, dumps, facts
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["cancel", "complete", "delete", "pause", "prune", "purge", "retry", "trigger"]

SILENT_FOR = 600.0
"""Seconds after which a worker that holds nothing is forgotten."""


def _each(tx: Transaction, ids: Sequence[str], act: Callable[[Transaction, Facts], Verdict]) -> list[Verdict]:
    verdicts = []
    for id_ in ids:
        job = facts(tx, [id_]).get(id_)
        verdicts.append(NOT_FOUND if job is None else act(tx, job))
    return verdicts


def cancel(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """End jobs as cancelled."""
    return _each(tx, ids, _cancel)


def _cancel(tx: Transaction, job: Facts) -> Verdict:
    state = State(job.state)
    if state.final:
        return refused("it is final already", state=state)
    if state is State.RUNNING:
        tx.tell_holder(job.worker, SignalKind.CANCELLED, job.id)
    end(tx, job, State.CANCELLED, error=ErrorInfo("Cancelled", "somebody cancelled it"))
    return OK


def complete(tx: Transaction, job_id: str, result: str) -> Verdict:
    """End a job as succeeded."""

    def act(tx: Transaction, job: Facts) -> Verdict:
        state = State(job.state)
        if state.final:
            return refused("it is final already", state=state)
        if state is State.RUNNING:
            tx.tell_holder(job.worker, SignalKind.COMPLETED, job.id)
        end(tx, job, State.SUCCEEDED, result=result)
        return OK

    return _each(tx, [job_id], act)[0]


def retry(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """Let final jobs begin anew."""
    return _each(tx, ids, _retry)


def _retry(tx: Transaction, job: Facts) -> Verdict:
    state = State(job.state)
    if not state.final:
        return refused("it is not final", state=state)
    if job.unique is not None:
        holder = tx.one("unique_holder", job.task, job.unique, tx.wall)
        if holder is not None and holder[0] != job.id:
            return refused("another job holds its unique key", state=state, other=holder[0])
        tx.run("hold_unique", job.task, job.unique, job.id, None if job.window is None else tx.wall + job.window)
    row = tx.one("open_edges_of", job.id)
    assert row is not None
    tx.run("revive_job", job.id, row[0], tx.seq(1))
    tx.moved(job.queue, state, "blocked" if row[0] else "waiting")
    if not row[0]:
        tx.came_in_line(job.queue)
    return OK


def trigger(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """Let scheduled jobs come in line now."""
    return _each(tx, ids, _trigger)


def _trigger(tx: Transaction, job: Facts) -> Verdict:
    if job.place != "scheduled":
        return refused("it is not scheduled", state=State(job.state))
    tx.run("join_line", job.id, tx.seq(1), None)
    tx.moved(job.queue, "scheduled", "waiting")
    tx.came_in_line(job.queue)
    return OK


def delete(tx: Transaction, ids: Sequence[str], *, cascade: bool) -> list[str]:
    """Remove jobs, with those that wait for them if `cascade`."""
    jobs = facts(tx, dict.fromkeys(ids))
    asked = list(jobs)
    open_ = list(jobs.values())
    while open_:
        job = open_.pop()
        waiting = {row[0] for row in tx.all("open_edges_to", job.id)} - jobs.keys() if job.blocks else set()
        if waiting and not cascade:
            raise HasDependents(job.id, sorted(waiting))
        found = facts(tx, waiting)
        jobs |= found
        open_ += found.values()
    remove(tx, list(jobs.values()))
    return asked


def pause(tx: Transaction, queue: str, *, paused: bool) -> bool:
    """Pause or resume a queue; whether that changed anything."""
    if not tx.run("pause_queue", queue, paused):
        return False
    row = tx.one("count_in_line", queue)
    assert row is not None
    if not paused and (row[0] or row[1]):
        tx.came_in_line(queue, row[0] + row[1])
    return True


def purge(tx: Transaction, queue: str, limit: int) -> int:
    """Remove jobs of a queue that have not started."""
    jobs = facts(tx, [row[0] for row in tx.all("unstarted_jobs", queue, limit)])
    remove(tx, list(jobs.values()))
    return len(jobs)


def prune(tx: Transaction, default: Retention, queues: Mapping[str, Retention], limit: int) -> int:
    """Remove finished jobs that retention does not keep, and whatever else has outlived its use."""
    tx.run("lapsed_uniques", tx.wall)
    tx.run("silent_workers", tx.boot - SILENT_FOR)
    outlived = facts(tx, [row[0] for row in tx.all("outlived_jobs", tx.wall, limit)])
    remove(tx, list(outlived.values()))
    pruned = len(outlived)
    for row in tx.all("list_queues"):
        counts = {"succeeded": row[6], "failed": row[7], "cancelled": row[8], "broken": row[9]}
        retention = queues.get(row[0], default)
        for states, age in (
            ((State.SUCCEEDED, State.CANCELLED), retention.succeeded),
            ((State.FAILED, State.BROKEN), retention.failed),
        ):
            surplus = sum(counts[state] for state in states) - retention.count
            if pruned < limit and any(counts[state] for state in states):
                pruned += _prune_group(tx, row[0], states, tx.wall - float(age), surplus, limit - pruned)  # type: ignore[arg-type]
    return pruned


def _prune_group(
    tx: Transaction, queue: str, states: tuple[State, State], ended_by: float, surplus: int, limit: int
) -> int:
    """Remove jobs of a queue in two states that share one bound: those too old, and the oldest of those too many."""
    too_many = None
    if surplus > 0:
        row = tx.one("surplus_ended", queue, states[0], min(surplus, limit), states[1])
        too_many = row[0] if row else None
    pruned = 0
    # Of the jobs that end in the very instant at which the surplus does, no more than the surplus may go.
    budget = min(limit, surplus) if too_many is not None and too_many > ended_by else limit
    for state in states:
        found = tx.all("old_jobs", queue, state, max(ended_by, too_many or ended_by), budget - pruned)
        blocking = [id_ for id_, blocks in found if blocks]
        if blocking:
            remove(tx, list(facts(tx, blocking).values()))
        plain = dumps([id_ for id_, blocks in found if not blocks])
        tx.run("delete_jobs", plain)
        tx.run("delete_edges", plain)
        tx.count(queue, state, len(blocking) - len(found))
        pruned += len(found)
        if pruned >= budget:
            break
    return pruned
