"""Jobs coming into the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from msgspec.structs import replace

from tenure.core.job import NewJob, State
from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.stores.sqlite import runs
from tenure.stores.sqlite.bulk import Bulk
from tenure.stores.sqlite.ending import drop_unkept, follow, over
from tenure.stores.sqlite.rows import Facts, dumps, error_of, meant, payload_of
from tenure.stores.sqlite.transaction import NotPlain, Row, Transaction
from tenure.stores.values import Enqueued

__all__ = ["enqueue"]

Placed = tuple[NewJob, State, float | None]


def enqueue(
    tx: Transaction, jobs: Sequence[NewJob], written: Mapping[str, Collection[str]] = MappingProxyType({})
) -> list[Enqueued]:
    """Store these jobs, or raise: `UniqueConflict`, `BlockerNotFound`, `MissingAttribute`.

    `written` are names of attributes that runs are known to have.
    """
    special = [job for job in jobs if job.unique is not None or job.after]
    if special:
        known = set(tx.array("known_jobs", dumps([job.id for job in special])))
        special = [job for job in special if job.id not in known]
    holders = _claim_unique_keys(tx, special)
    dependents = _dependents(tx, special, jobs, holders)
    blockers = {blocker for job in dependents for blocker in job.after}
    fresh = [job for job in jobs if job.id not in holders] if holders else jobs
    steps = [job for job in fresh if job.step is not None]
    if steps:
        runs.require(tx, steps, written)
    placed = [_placed(tx, job) for job in fresh]
    if tx.plainly:
        _count(tx, placed)  # before the seq is drawn, which writes both at once
    first = tx.seq(len(fresh)) if fresh else 0
    rows = [_row(tx, job, state, first + index, run_at, blockers) for index, (job, state, run_at) in enumerate(placed)]
    states = {job.id: state for job, state, _ in placed}
    marked: Collection[str] = states
    if _jobs.insert(tx, rows) < len(rows):
        # Some were there before: this is a repeated call, or an id of the caller's own making.
        if tx.plainly:
            raise NotPlain
        found = {id_: (State(state), seq) for id_, state, seq in tx.all("states_of", dumps(list(states)))}
        states = {id_: state for id_, (state, _) in found.items()}
        placed = [each for each, row in zip(placed, rows, strict=True) if found[row[0]][1] == row[6]]
        stored = {job.id for job, _, _ in placed}
        dependents = [job for job in dependents if job.id in stored]
        steps = [job for job, _, _ in placed if job.step is not None]
        marked = stored
    if not tx.plainly:
        _count(tx, placed)
    if tx.edges:
        tx.run("mark_awaited", dumps([job.id for job, _, _ in placed]))
    if steps:
        runs.write(tx, [(job.step.run_id, job.step.writes) for job in steps if job.step is not None], new=True)
    failed = _tie(tx, dependents, marked) if dependents else []
    if dependents or holders:
        wanted = [*holders.values(), *(job.id for job in dependents)]
        states |= {id_: State(state) for id_, state, _ in tx.all("states_of", dumps(wanted))}
    drop_unkept(tx, failed)
    return [
        Enqueued(holders[job.id], states[holders[job.id]], duplicate=True)
        if job.id in holders
        else Enqueued(job.id, states[job.id])
        for job in jobs
    ]


_jobs = Bulk("insert_jobs", 24)


def _placed(tx: Transaction, job: NewJob) -> Placed:
    """A job, the state that it begins in, and when it is due if that is later."""
    run_at = job.run_at if job.run_at is not None else tx.wall + job.delay if job.delay > 0 else None
    if run_at is not None and run_at <= tx.wall:
        run_at = None
    return job, State.BLOCKED if job.after else State.WAITING, run_at


def _count(tx: Transaction, placed: Sequence[Placed]) -> None:
    counts = Counter((job.queue, state, run_at is None) for job, state, run_at in placed)
    for (queue, state, due), number in counts.items():
        if state is State.BLOCKED:
            tx.count(queue, state, number)
        else:
            tx.count(queue, state if due else "scheduled", number)
            # A worker must hear of scheduled jobs too: one may be due before it meant to look again.
            tx.came_in_line(queue, number)


def _row(tx: Transaction, job: NewJob, state: State, seq: int, run_at: float | None, blockers: Collection[str]) -> Row:
    step = job.step
    return (
        job.id,
        job.task,
        job.queue,
        state,
        payload_of(job),
        job.priority,
        seq,
        run_at,
        tx.wall,
        job.max_attempts,
        job.max_losses,
        job.lease,
        job.keep,
        None if job.expires is None else tx.wall + job.expires,
        dumps(job.tags) if job.tags else None,
        job.unique,
        job.window,
        None if step is None else step.run_id,
        len(job.after),
        len(job.after),
        job.if_blocker_fails if job.after else None,
        job.id in blockers,
        step.flow if step is not None and step.run_id == job.id else None,
        _names(step.reads) if step is not None and step.reads else None,
    )


@lru_cache(1000)
def _names(reads: tuple[str, ...]) -> str:
    return dumps(reads)


def _claim_unique_keys(tx: Transaction, jobs: Sequence[NewJob]) -> dict[str, str]:
    """Give each new job its unique key; the holders of keys that were not free, by the id of the job that wanted them."""
    holders: dict[str, str] = {}
    for job in jobs:
        if job.unique is None:
            continue
        row = tx.one("unique_holder", job.task, job.unique, tx.wall)
        if row is None:
            tx.run("hold_unique", job.task, job.unique, job.id, None if job.window is None else tx.wall + job.window)
        elif row[0] != job.id:
            if job.unique_raises:
                raise UniqueConflict(job.task, job.unique, row[0])
            holders[job.id] = row[0]
    return holders


def _dependents(
    tx: Transaction, special: Sequence[NewJob], jobs: Sequence[NewJob], holders: Mapping[str, str]
) -> list[NewJob]:
    """Those of the new jobs that wait for others.

    A blocker is stored, or comes before its dependent in the same call; one of these that turned out a duplicate is the
    holder of its key. Any other raises `BlockerNotFound`.
    """
    blocked = [job for job in special if job.after and job.id not in holders]
    if not blocked:
        return []
    places = {job.id: place for place, job in reversed(list(enumerate(jobs)))}

    def comes_before(blocker: str, job: NewJob) -> bool:
        return places.get(blocker, len(jobs)) < places[job.id]

    dependents = [
        replace(job, after=tuple(holders.get(each, each) if comes_before(each, job) else each for each in job.after))
        for job in blocked
    ]
    found = set(tx.array("known_jobs", dumps({blocker for job in dependents for blocker in job.after})))
    for job in dependents:
        for blocker in job.after:
            if blocker not in found and not comes_before(blocker, job):
                raise BlockerNotFound(blocker)
    return dependents


def _tie(tx: Transaction, dependents: Sequence[NewJob], marked: Collection[str]) -> list[Facts]:
    """Enter the edges of new blocked jobs, and let blockers that have ended already count at once; who has failed by that.

    Those that are `marked` are known to have edges to close, or to have none.
    """
    tx.run("insert_edges", dumps([(job.id, place, each) for job in dependents for place, each in enumerate(job.after)]))
    blockers = {blocker for job in dependents for blocker in job.after}
    older = [blocker for blocker in blockers if blocker not in marked]
    if not older:
        return []
    tx.run("mark_blocking", dumps(older))
    ended = {row[0] for row in tx.all("ended_blockers", dumps(older))}
    failed: list[Facts] = []
    coming = {job.id for job in dependents}
    for job in dependents if ended else ():
        for blocker in dict.fromkeys(job.after):
            last = meant(tx, blocker) if blocker in ended else None
            if last is not None and State(last.state).final:
                gone = over(tx, last, last.successor)
                failed += follow(tx, gone, last.state, last.result, error_of(last.error), new=job.id, coming=coming)
                ended |= {each.id for each in failed}
        # This job has met its blockers. A later job of this call may still end one of them: it may end a run that an older job
        # waits for, which this job waits for in turn. `follow` tells it of that, as it tells stored jobs.
        coming.discard(job.id)
    return failed
