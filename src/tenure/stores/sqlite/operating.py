"""What operators do to jobs and queues, and what retention does for them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenure.checks import Duration, seconds
from tenure.errors import HasDependents
from tenure.job import State
from tenure.options import Retention
from tenure.stores.base import NOT_FOUND, OK, SignalKind, Verdict, refused
from tenure.stores.sqlite import ending
from tenure.stores.sqlite.ending import end
from tenure.stores.sqlite.rows import Facts, dumps, facts
from tenure.stores.sqlite.transaction import Transaction

__all__ = ["cancel", "complete", "delete", "forget", "pause", "prune", "purge", "resume", "retry", "trigger", "turn"]


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
    end(tx, job, State.CANCELLED)
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
    blockers = tx.all("open_edges_of", job.id)
    for blocker, exists in blockers:
        if not exists:
            return refused(f"job {blocker}, which it waits for, is gone", state=state, other=blocker)
    if job.unique is not None and (job.unique_until is None or job.unique_until > tx.wall):
        holder = tx.one("unique_holder", job.task, job.unique, tx.wall)
        if holder is not None and holder[0] != job.id:
            return refused(f"job {holder[0]} holds its unique key", state=state, other=holder[0])
        tx.run("hold_unique", job.task, job.unique, job.id, job.unique_until)
    tx.run("revive_job", job.id, len(blockers), None if blockers else tx.seq(1))
    tx.moved(job.queue, state, "blocked" if blockers else "waiting")
    if not blockers:
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
    looked_at = deque(jobs.values())
    while looked_at:
        job = looked_at.popleft()
        edges = tx.all("open_edges_to", job.id) if job.blocks else []
        others = dict.fromkeys(row[0] for row in edges if row[3] == State.BLOCKED and row[0] not in jobs)
        if others and not cascade:
            raise HasDependents(job.id, others)
        found = facts(tx, others)
        jobs |= found
        looked_at.extend(found.values())
    ending.delete(tx, list(jobs.values()))
    return list(jobs)


def pause(tx: Transaction, queue: str) -> bool:
    """Pause a queue; whether that changed anything."""
    return tx.run("pause_queue", queue) > 0


def resume(tx: Transaction, queue: str) -> bool:
    """Resume a queue; whether that changed anything."""
    row = tx.one("resume_queue", queue)
    if row is not None and row[0]:
        tx.came_in_line(queue, row[0])
    return row is not None


def purge(tx: Transaction, queue: str, limit: int) -> int:
    """Remove jobs of a queue that have not started."""
    jobs = facts(tx, [row[0] for row in tx.all("unstarted_jobs", queue, limit)])
    ending.delete(tx, list(jobs.values()))
    return len(jobs)


def prune(tx: Transaction, default: Retention, queues: Mapping[str, Retention], limit: int) -> int:
    """Remove finished jobs that retention does not keep, and whatever else has outlived its use."""
    tx.run("lapsed_uniques", tx.wall)
    pruned = _drop(tx, lambda size: tx.array("outlived_jobs", tx.wall, size), limit)
    tx.flush()
    for row in tx.all("list_queues"):
        retention = queues.get(row[0], default)
        succeeded, failed, cancelled, broken = row[6:10]
        if pruned < limit and succeeded + cancelled:
            states = State.SUCCEEDED, State.CANCELLED
            pruned += _prune_queue(
                tx, row[0], states, succeeded + cancelled, retention.succeeded, retention.count, limit - pruned
            )
        if pruned < limit and failed + broken:
            states = State.FAILED, State.BROKEN
            pruned += _prune_queue(
                tx, row[0], states, failed + broken, retention.failed, retention.count, limit - pruned
            )
    return pruned


def forget(tx: Transaction, silences: Mapping[str, float]) -> list[str]:
    """Remove workers that have been silent for long and hold nothing."""
    return [id_ for id_, silence in silences.items() if tx.run("forget_worker", id_, tx.boot - silence)]


def turn(tx: Transaction, chore: str, interval: float) -> bool:
    """Take the turn at a chore, if it is time."""
    return tx.run("take_turn", chore, tx.boot, interval) > 0


def _prune_queue(
    tx: Transaction, queue: str, states: tuple[State, State], number: int, age: Duration, most: int, limit: int
) -> int:
    """Remove jobs of a queue in two states that share one bound: those too old, and the oldest of those too many."""
    surplus = number - most
    if surplus > 0 and (row := tx.one("kept_count", queue, *states)):
        surplus -= row[0]
    ended_by = tx.wall - seconds(age, "age")

    def outdated(size: int) -> list[Any]:
        oldest = tx.array("old_jobs", queue, *states, size)
        return [row for index, row in enumerate(oldest) if index < surplus or row[4] <= ended_by]

    return _drop(tx, outdated, limit)


def _drop(tx: Transaction, oldest: Callable[[int], list[Any]], limit: int) -> int:
    """Remove up to `limit` of the oldest finished jobs, passing over those that somebody has a claim on; how many went."""
    size = limit
    while True:
        rows = oldest(size)
        free = [row for row in rows if not row[5] or row[4] + ending.WAITED_FOR <= tx.wall]
        claimable = facts(tx, [row[1] for row in free if row[6]])
        claimed = {job.id for job in claimable.values() if ending.claimed(tx, job)}
        going = [row for row in free if row[1] not in claimed][:limit]
        if going or len(rows) < size:
            break
        size *= 2  # all of them are claimed: look behind them
    tx.run("delete_finished", dumps([row[0] for row in going if not row[6]]))
    for (queue, state), count in Counter((row[2], row[3]) for row in going if not row[6]).items():
        tx.count(queue, state, -count)
    ending.remove(tx, [claimable[row[1]] for row in going if row[6]])
    return len(going)
