"""What operators do to jobs and queues, and what retention does for them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenure.core.checks import Duration, seconds
from tenure.core.job import AttemptEnd, State
from tenure.core.lifecycle import Finish
from tenure.core.options import Retention
from tenure.errors import HasDependents
from tenure.stores.base import BATCH, QUIET
from tenure.stores.sqlite import ending, settling
from tenure.stores.sqlite.attempts import remember
from tenure.stores.sqlite.ending import end
from tenure.stores.sqlite.rows import Facts, dumps, facts, meant, whole
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.values import NOT_FOUND, OK, AnnouncementKind, Verdict, refused

__all__ = [
    "cancel",
    "claim_chore",
    "complete",
    "delete",
    "forget",
    "pause",
    "prune",
    "purge",
    "release",
    "resume",
    "retry",
    "trigger",
]


def _each(tx: Transaction, ids: Sequence[str], act: Callable[[Transaction, Facts], Verdict]) -> list[Verdict]:
    verdicts = []
    for id_ in ids:
        job = meant(tx, id_)
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
        remember(tx, [(job.number, job.fence, AttemptEnd.CANCELLED, None)])
        tx.tell_holder(job.worker, AnnouncementKind.CANCELLED, job.id)
    end(tx, job, State.CANCELLED)
    return OK


def complete(tx: Transaction, job_id: str, step: Finish) -> Verdict:
    """End a job as succeeded; this very one, though its id may be a run's."""
    job = facts(tx, [job_id]).get(job_id)
    if job is None:
        return NOT_FOUND
    state = State(job.state)
    return refused("it is final already", state=state) if state.final else settling.complete(tx, job, step)


def retry(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """Let final jobs begin anew."""
    return _each(tx, ids, _retry)


def _retry(tx: Transaction, job: Facts) -> Verdict:
    state = State(job.state)
    if not state.final:
        return refused("it is not final", state=state)
    if job.successor is not None:
        return refused(f"it has handed over to job {job.successor}", state=state)
    blockers = tx.all("open_edges_of", job.id)
    for blocker, exists in blockers:
        if not exists:
            return refused(f"job {blocker}, which it waits for, is gone", state=state, other=blocker)
    reopened = ending.over(tx, job, None)
    keyed = [(each, each.unique) for each in reopened if each.unique_until is None or each.unique_until > tx.wall]
    for each, key in keyed:
        holder = None if key is None else tx.one("unique_holder", each.task, key, tx.wall)
        if holder is not None and holder[0] != each.id:
            return refused(f"job {holder[0]} holds its unique key", state=state, other=holder[0])
    for each, key in keyed:
        if key is not None:
            tx.run("hold_unique", each.task, key, each.id, each.unique_until)
    for each in reopened:
        if each.waited:
            tx.run("forget_waited", each.id)
    if state is State.SUCCEEDED and job.nonce is not None:
        remember(tx, [(job.number, job.fence, AttemptEnd.SUCCEEDED, None)])
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


def release(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """Take running jobs from their holders, and put them back in their places."""
    return _each(tx, ids, _release)


def _release(tx: Transaction, job: Facts) -> Verdict:
    if job.state != State.RUNNING:
        return refused("it is not running", state=State(job.state))
    tx.tell_holder(job.worker, AnnouncementKind.TAKEN, job.id)
    tx.run("release_job", job.id)
    tx.moved(job.queue, "running", "waiting")
    tx.came_in_line(job.queue)
    return OK


def delete(tx: Transaction, ids: Sequence[str], *, cascade: bool) -> list[str]:
    """Remove jobs, with those that wait for them if `cascade`."""
    jobs = _with_their_runs(tx, facts(tx, dict.fromkeys(ids)))
    looked_at = deque(jobs.values())
    while looked_at:
        job = looked_at.popleft()
        edges = tx.all("open_edges_to", job.id, None) if job.blocks else []
        waiting = dict.fromkeys(row[0] for row in edges if row[3] == State.BLOCKED and row[0] not in jobs)
        if not waiting:
            continue
        others = _with_their_runs(tx, facts(tx, waiting))
        if not cascade:
            raise HasDependents(job.id, others)
        others = {id_: other for id_, other in others.items() if id_ not in jobs}
        jobs |= others
        looked_at.extend(others.values())
    ending.delete(tx, list(jobs.values()))
    return list(jobs)


def _with_their_runs(tx: Transaction, jobs: Mapping[str, Facts]) -> dict[str, Facts]:
    """These jobs, and after each the other steps of its run."""
    runs = whole(tx, jobs.values())
    return {each.id: each for id_, job in jobs.items() for each in (job, *runs[id_])}


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
    ending.delete(tx, list(_with_their_runs(tx, jobs).values()))
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
            ended = succeeded - row[17] + cancelled
            pruned += _prune_queue(tx, row[0], states, ended, retention.succeeded, retention.count, limit - pruned)
        if pruned < limit and failed + broken:
            states = State.FAILED, State.BROKEN
            pruned += _prune_queue(
                tx, row[0], states, failed + broken, retention.failed, retention.count, limit - pruned
            )
    tx.flush()  # the counts say which queues are empty
    tx.run("forget_quiet", tx.wall - QUIET, BATCH)
    tx.run("note_quiet", tx.wall, BATCH)
    return pruned


def forget(tx: Transaction, silences: Mapping[str, float]) -> list[str]:
    """Remove workers that have been silent for long and hold nothing."""
    return [id_ for id_, silence in silences.items() if tx.run("forget_worker", id_, tx.boot - silence)]


def claim_chore(tx: Transaction, chore: str, interval: float) -> bool:
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
        going = _unclaimed(tx, free)[:limit]
        if going or len(rows) < size:
            break
        size *= 2  # all of them are claimed: look behind them
    tx.run("delete_finished", dumps([row[0] for row, steps in going if not steps]))
    for (queue, state), count in Counter((row[2], row[3]) for row, steps in going if not steps).items():
        tx.count(queue, state, -count)
    ending.remove(tx, [step for _, steps in going for step in steps])
    return len(going)


def _unclaimed(tx: Transaction, rows: Sequence[list[Any]]) -> list[tuple[list[Any], list[Facts]]]:
    """Those of these rows that nobody has a claim on; with what is to go with each, if it is more than the row itself."""
    claimable = whole(tx, facts(tx, [row[1] for row in rows if row[6]]).values())
    found: list[tuple[list[Any], list[Facts]]] = []
    for row in rows:
        steps = claimable.get(row[1], [])
        if not ending.claimed(tx, steps, recent=row[4] + ending.WAITED_FOR > tx.wall):
            found.append((row, steps))
    return found
