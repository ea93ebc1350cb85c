"""Implements the operations of operators on jobs and queues (cancel, retry, delete, pause, ...), and pruning."""

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
from tenure.stores.sqlite.attempts import record_attempts
from tenure.stores.sqlite.ending import end
from tenure.stores.sqlite.rows import Facts, dumps, facts, resolve, whole_runs
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.values import (
    ALREADY_FINAL,
    NOT_FINAL,
    NOT_FOUND,
    NOT_RUNNING,
    NOT_SCHEDULED,
    OK,
    AnnouncementKind,
    BlockerGone,
    UniqueHeld,
    Verdict,
    handed_over,
    refused,
)

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


def _for_each(tx: Transaction, ids: Sequence[str], act: Callable[[Transaction, Facts], Verdict]) -> list[Verdict]:
    verdicts = []
    for id_ in ids:
        job = resolve(tx, id_)
        verdicts.append(NOT_FOUND if job is None else act(tx, job))
    return verdicts


def cancel(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """Cancel jobs that are not final."""
    return _for_each(tx, ids, _cancel)


def _cancel(tx: Transaction, job: Facts) -> Verdict:
    state = State(job.state)
    if state.final:
        return refused(ALREADY_FINAL, state=state)
    if state is State.RUNNING:
        record_attempts(tx, [(job.number, job.fence, AttemptEnd.CANCELLED, None)])
        tx.notify_holder(job.worker, AnnouncementKind.CANCELLED, job.id)
    end(tx, job, State.CANCELLED)
    return OK


def complete(tx: Transaction, job_id: str, transition: Finish) -> Verdict:
    """Complete a job from outside. If the id is a run's, this is its first step, not its current one."""
    job = facts(tx, [job_id]).get(job_id)
    if job is None:
        return NOT_FOUND
    state = State(job.state)
    return refused(ALREADY_FINAL, state=state) if state.final else settling.complete(tx, job, transition)


def retry(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """Start final jobs again."""
    return _for_each(tx, ids, _retry)


def _retry(tx: Transaction, job: Facts) -> Verdict:
    state = State(job.state)
    if not state.final:
        return refused(NOT_FINAL, state=state)
    if job.successor is not None:
        return refused(handed_over(job.successor), state=state)
    blockers = tx.all("open_edges_of", job.id)
    for blocker, exists in blockers:
        if not exists:
            return refused(BlockerGone(blocker), state=state)
    reopened = ending.ended_by(tx, job, None)
    keyed = [(each, each.unique) for each in reopened if each.unique_until is None or each.unique_until > tx.wall]
    for each, key in keyed:
        owner = None if key is None else tx.one("unique_owner", each.task, key, tx.wall)
        if owner is not None and owner[0] != each.id:
            return refused(UniqueHeld(owner[0]), state=state)
    for each, key in keyed:
        if key is not None:
            tx.run("claim_unique", each.task, key, each.id, each.unique_until)
    for each in reopened:
        if each.waited:
            tx.run("clear_waited", each.id)
    if state is State.SUCCEEDED and job.nonce is not None:
        record_attempts(tx, [(job.number, job.fence, AttemptEnd.SUCCEEDED, None)])
    tx.run("retry_job", job.id, len(blockers), None if blockers else tx.reserve_seqs(1), tx.wall)
    tx.count_move(job.queue, state, "blocked" if blockers else "waiting")
    if not blockers:
        tx.wake_workers(job.queue)
    return OK


def trigger(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """Put scheduled jobs in line now."""
    return _for_each(tx, ids, _trigger)


def _trigger(tx: Transaction, job: Facts) -> Verdict:
    if job.counter != "scheduled":
        return refused(NOT_SCHEDULED, state=State(job.state))
    tx.run("put_in_line", job.id, tx.reserve_seqs(1), None, tx.wall)
    tx.count_move(job.queue, "scheduled", "waiting")
    tx.wake_workers(job.queue)
    return OK


def release(tx: Transaction, ids: Sequence[str]) -> list[Verdict]:
    """Take running jobs from their holders, and put them back in their places in line."""
    return _for_each(tx, ids, _release)


def _release(tx: Transaction, job: Facts) -> Verdict:
    if job.state != State.RUNNING:
        return refused(NOT_RUNNING, state=State(job.state))
    tx.notify_holder(job.worker, AnnouncementKind.TAKEN, job.id)
    tx.run("release_job", job.id)
    tx.count_move(job.queue, "running", "waiting")
    tx.wake_workers(job.queue)
    return OK


def delete(tx: Transaction, ids: Sequence[str], *, cascade: bool) -> list[str]:
    """Delete jobs; with `cascade` also the jobs that wait for them. Returns the ids of all deleted jobs."""
    jobs = _with_their_runs(tx, facts(tx, dict.fromkeys(ids)))
    unvisited = deque(jobs.values())
    while unvisited:
        job = unvisited.popleft()
        edges = tx.all("open_edges_to", job.id, None) if job.blocks else []
        waiting = dict.fromkeys(row[0] for row in edges if row[3] == State.BLOCKED and row[0] not in jobs)
        if not waiting:
            continue
        others = _with_their_runs(tx, facts(tx, waiting))
        if not cascade:
            raise HasDependents(job.id, others)
        others = {id_: other for id_, other in others.items() if id_ not in jobs}
        jobs |= others
        unvisited.extend(others.values())
    ending.delete(tx, list(jobs.values()))
    return list(jobs)


def _with_their_runs(tx: Transaction, jobs: Mapping[str, Facts]) -> dict[str, Facts]:
    """These jobs, each followed by the other steps of its run."""
    runs = whole_runs(tx, jobs.values())
    return {each.id: each for id_, job in jobs.items() for each in (job, *runs[id_])}


def pause(tx: Transaction, queue: str) -> bool:
    """Pause a queue. Returns False if it was paused already."""
    return tx.run("pause_queue", queue) > 0


def resume(tx: Transaction, queue: str) -> bool:
    """Resume a queue. Returns False if it was not paused."""
    row = tx.one("resume_queue", queue)
    if row is not None and row[0]:
        tx.wake_workers(queue, row[0])
    return row is not None


def purge(tx: Transaction, queue: str, limit: int) -> int:
    """Delete up to `limit` jobs of a queue that have not started. Returns how many."""
    jobs = facts(tx, [row[0] for row in tx.all("unstarted_jobs", queue, limit)])
    ending.delete(tx, list(_with_their_runs(tx, jobs).values()))
    return len(jobs)


def prune(tx: Transaction, default: Retention, queues: Mapping[str, Retention], limit: int) -> int:
    """Delete up to `limit` final jobs that retention does not keep, expired unique keys, and queues that have been empty for long.

    Returns how many jobs were deleted.
    """
    tx.run("delete_expired_uniques", tx.wall)
    pruned = _prune_oldest(tx, lambda size: tx.array("jobs_past_keep", tx.wall, size), limit)
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
    tx.flush()  # the statements below find empty queues by their counters
    tx.run("delete_quiet_queues", tx.wall - QUIET, BATCH)
    tx.run("mark_quiet_queues", tx.wall, BATCH)
    return pruned


def forget(tx: Transaction, silences: Mapping[str, float]) -> list[str]:
    """Remove workers that have been silent for too long and hold no job. `silences`: worker id to seconds. Returns the removed ids."""
    return [id_ for id_, silence in silences.items() if tx.run("delete_silent_worker", id_, tx.boot - silence)]


def claim_chore(tx: Transaction, chore: str, interval: float) -> bool:
    """Claim a periodic chore. Returns False if it was claimed less than `interval` seconds ago."""
    return tx.run("claim_chore", chore, tx.boot, interval) > 0


def _prune_queue(
    tx: Transaction, queue: str, states: tuple[State, State], number: int, age: Duration, most: int, limit: int
) -> int:
    """Delete jobs of a queue in two states that share one limit: jobs that are too old, and the oldest ones beyond `most`."""
    surplus = number - most
    if surplus > 0 and (row := tx.one("count_kept_jobs", queue, *states)):
        surplus -= row[0]
    ended_by = tx.wall - seconds(age, "age")

    def outdated(size: int) -> list[Any]:
        oldest = tx.array("oldest_final_jobs", queue, *states, size)
        return [row for index, row in enumerate(oldest) if index < surplus or row[4] <= ended_by]

    return _prune_oldest(tx, outdated, limit)


def _prune_oldest(tx: Transaction, oldest: Callable[[int], list[Any]], limit: int) -> int:
    """Delete up to `limit` of the oldest final jobs, without those that are still needed. Returns how many.

    `oldest(size)` reads the first `size` rows that retention does not keep.
    """
    size = limit
    while True:
        rows = oldest(size)
        free = [row for row in rows if not row[5] or row[4] + ending.KEEP_FOR_WAITERS <= tx.wall]
        removed = _unclaimed(tx, free)[:limit]
        if removed or len(rows) < size:
            break
        size *= 2  # all of them are still needed: look further
    tx.run("delete_plain_jobs", dumps([row[0] for row, steps in removed if not steps]))
    for (queue, state), count in Counter((row[2], row[3]) for row, steps in removed if not steps).items():
        tx.count(queue, state, -count)
    ending.remove(tx, [step for _, steps in removed for step in steps])
    return len(removed)


def _unclaimed(tx: Transaction, rows: Sequence[list[Any]]) -> list[tuple[list[Any], list[Facts]]]:
    """The rows that are no longer needed, each with the jobs to delete: a run's steps, or none if only the row itself is deleted."""
    claimable = whole_runs(tx, facts(tx, [row[1] for row in rows if row[6]]).values())
    found: list[tuple[list[Any], list[Facts]]] = []
    for row in rows:
        steps = claimable.get(row[1], [])
        if not ending.claimed(tx, steps, recent=row[4] + ending.KEEP_FOR_WAITERS > tx.wall):
            found.append((row, steps))
    return found
