"""Enqueues jobs: checks them, inserts their rows, connects them to their blockers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from tenure.core.job import NewJob, State
from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.stores.sqlite import runs
from tenure.stores.sqlite.bulk_insert import BulkInsert
from tenure.stores.sqlite.ending import drop_unkept, ended_by, propagate
from tenure.stores.sqlite.rows import Facts, dumps, error_of, payload_of, resolve
from tenure.stores.sqlite.transaction import Row, Transaction
from tenure.stores.values import Enqueued

__all__ = ["enqueue"]

_Placed = tuple[NewJob, State, float | None]
"""A job, its first state, and when it is due (None: now). A plain tuple, because one is created for every job."""


class _Admitted(NamedTuple):
    """The jobs of a call, sorted by what they need. Everything that could refuse one has been checked."""

    new: Sequence[NewJob]
    """The jobs to store: all except the duplicates."""

    owners: Mapping[str, str]
    """For each duplicate (a job whose unique key was taken), by its id: the job that owns the key."""

    dependents: Sequence[NewJob]
    """The new jobs that wait for others."""

    steps: Sequence[NewJob]
    """The new jobs that are steps of runs."""


class _Stored(NamedTuple):
    """The new jobs after the INSERT."""

    placed: Sequence[_Placed]
    """The jobs that were inserted. The others existed before: the call is repeated, or the caller has chosen the ids."""

    states: dict[str, State]
    """The state of every new job by id, whether it was inserted now or before."""


def enqueue(
    tx: Transaction, jobs: Sequence[NewJob], written: Mapping[str, Collection[str]] = MappingProxyType({})
) -> list[Enqueued]:
    """Store these jobs, or raise `UniqueConflict`, `BlockerNotFound` or `MissingAttribute`.

    `written` has names of attributes that runs are known to have, by run id.
    """
    admitted = _admit(tx, jobs, written)
    stored = _store(tx, admitted)
    _connect(tx, admitted, stored)
    return _answer(jobs, admitted.owners, stored.states)


def _admit(tx: Transaction, jobs: Sequence[NewJob], written: Mapping[str, Collection[str]]) -> _Admitted:
    """Claim unique keys, and raise if a job cannot be stored: see `enqueue`."""
    special = [job for job in jobs if job.unique is not None or job.after]
    if special:
        known = set(tx.array("existing_jobs", dumps([job.id for job in special])))
        special = [job for job in special if job.id not in known]
    owners = _claim_unique_keys(tx, special)
    dependents = _dependents(tx, special, jobs, owners)
    new = [job for job in jobs if job.id not in owners] if owners else jobs
    steps = [job for job in new if job.step is not None]
    if steps:
        runs.require_attributes(tx, steps, written)
    return _Admitted(new, owners, dependents, steps)


def _store(tx: Transaction, admitted: _Admitted) -> _Stored:
    """Insert the new jobs at the back of the line, and count those that did not exist before."""
    blockers = {blocker for job in admitted.dependents for blocker in job.after}
    placed = [_place(tx, job) for job in admitted.new]
    first = tx.reserve_seqs(len(placed)) if placed else 0
    rows = [_row(tx, job, state, first + index, run_at, blockers) for index, (job, state, run_at) in enumerate(placed)]
    states = {job.id: state for job, state, _ in placed}
    if _jobs.insert(tx, rows) < len(rows):
        found = {id_: (State(state), seq) for id_, state, seq in tx.all("states_of", dumps(list(states)))}
        states = {id_: state for id_, (state, _) in found.items()}
        placed = [each for each, row in zip(placed, rows, strict=True) if found[row[0]][1] == row[6]]
    _count(tx, placed)
    return _Stored(placed, states)


def _connect(tx: Transaction, admitted: _Admitted, stored: _Stored) -> None:
    """Write the edges of the inserted jobs and the attributes of their runs, and bring `stored.states` up to date."""
    dependents, steps = admitted.dependents, admitted.steps
    if len(stored.placed) < len(admitted.new) and (dependents or steps):
        ids = {job.id for job, _, _ in stored.placed}
        dependents = [job for job in dependents if job.id in ids]
        steps = [job for job, _, _ in stored.placed if job.step is not None]
    if tx.edges:
        tx.run("mark_awaited", dumps([job.id for job, _, _ in stored.placed]))
    if steps:
        runs.write(tx, [(job.step.run_id, job.step.writes) for job in steps if job.step is not None], new=True)
    failed = _add_edges(tx, dependents, {job.id for job, _, _ in stored.placed}) if dependents else []
    if dependents or admitted.owners:
        wanted = [*admitted.owners.values(), *(job.id for job in dependents)]
        stored.states.update((id_, State(state)) for id_, state, _ in tx.all("states_of", dumps(wanted)))
    drop_unkept(tx, failed)


def _answer(jobs: Sequence[NewJob], owners: Mapping[str, str], states: Mapping[str, State]) -> list[Enqueued]:
    return [
        Enqueued(owners[job.id], states[owners[job.id]], duplicate=True)
        if job.id in owners
        else Enqueued(job.id, states[job.id])
        for job in jobs
    ]


_jobs = BulkInsert("insert_jobs", 25)


def _place(tx: Transaction, job: NewJob) -> _Placed:
    run_at = job.run_at if job.run_at is not None else tx.wall + job.delay if job.delay > 0 else None
    if run_at is not None and run_at <= tx.wall:
        run_at = None
    return job, State.BLOCKED if job.after else State.WAITING, run_at


def _count(tx: Transaction, placed: Sequence[_Placed]) -> None:
    counts = Counter((job.queue, state, run_at is None) for job, state, run_at in placed)
    for (queue, state, due), number in counts.items():
        if state is State.BLOCKED:
            tx.count(queue, state, number)
        else:
            tx.count(queue, state if due else "scheduled", number)
            # Scheduled jobs wake workers too: one may be due before an idle worker would look again.
            tx.wake_workers(queue, number)


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
        dumps(job.headers) if job.headers else None,
    )


@lru_cache(1000)
def _names(reads: tuple[str, ...]) -> str:
    return dumps(reads)


def _claim_unique_keys(tx: Transaction, jobs: Sequence[NewJob]) -> dict[str, str]:
    """Claim the unique key of each new job. Returns the owners of keys that were taken, by the id of the job that wanted the key."""
    owners: dict[str, str] = {}
    for job in jobs:
        if job.unique is None:
            continue
        row = tx.one("unique_owner", job.task, job.unique, tx.wall)
        if row is None:
            tx.run("claim_unique", job.task, job.unique, job.id, None if job.window is None else tx.wall + job.window)
        elif row[0] != job.id:
            if job.unique_raises:
                raise UniqueConflict(job.task, job.unique, row[0])
            owners[job.id] = row[0]
    return owners


def _dependents(
    tx: Transaction, special: Sequence[NewJob], jobs: Sequence[NewJob], owners: Mapping[str, str]
) -> list[NewJob]:
    """The new jobs that wait for others.

    A blocker exists already, or comes before its dependent in the same call. If that one is a duplicate, the owner of its unique key
    takes its place as the blocker. Any other blocker raises `BlockerNotFound`.
    """
    blocked = [job for job in special if job.after and job.id not in owners]
    if not blocked:
        return []
    places = {job.id: position for position, job in reversed(list(enumerate(jobs)))}

    def comes_before(blocker: str, job: NewJob) -> bool:
        return places.get(blocker, len(jobs)) < places[job.id]

    dependents = [
        replace(job, after=tuple(owners.get(each, each) if comes_before(each, job) else each for each in job.after))
        for job in blocked
    ]
    found = set(tx.array("existing_jobs", dumps({blocker for job in dependents for blocker in job.after})))
    for job in dependents:
        for blocker in job.after:
            if blocker not in found and not comes_before(blocker, job):
                raise BlockerNotFound(blocker)
    return dependents


def _add_edges(tx: Transaction, dependents: Sequence[NewJob], marked: Collection[str]) -> list[Facts]:
    """Insert the edges of new blocked jobs, and close those to blockers that have ended already. Returns the jobs that failed by that.

    Jobs that are `marked` have been inserted by this call, so their column `blocks` is right already.
    """
    tx.run(
        "insert_edges",
        dumps([(job.id, position, each) for job in dependents for position, each in enumerate(job.after)]),
    )
    blockers = {blocker for job in dependents for blocker in job.after}
    older = [blocker for blocker in blockers if blocker not in marked]
    if not older:
        return []
    tx.run("mark_blocking", dumps(older))
    ended = {row[0] for row in tx.all("ended_blockers", dumps(older))}
    failed: list[Facts] = []
    new_dependents = {job.id for job in dependents}
    for job in dependents if ended else ():
        for blocker in dict.fromkeys(job.after):
            last = resolve(tx, blocker) if blocker in ended else None
            if last is not None and State(last.state).final:
                ended_now = ended_by(tx, last, last.successor)
                failed += propagate(
                    tx,
                    ended_now,
                    last.state,
                    last.result,
                    error_of(last.error),
                    new=job.id,
                    new_dependents=new_dependents,
                )
                ended |= {each.id for each in failed}
        # This job is connected to its blockers now. A later job of this call may still end one of them: it may end a run that an older
        # job waits for, which this job waits for in turn. From now on `propagate` treats it like any stored job.
        new_dependents.discard(job.id)
    return failed
