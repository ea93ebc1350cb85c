"""`enqueue` stores new jobs: plans the call first, then carries it out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from tenure.core.job import NewJob, State, Writes
from tenure.errors import BlockerNotFound, MissingAttribute, UniqueConflict
from tenure.stores.memory.data import Data
from tenure.stores.memory.ending import drop_unkept, propagate
from tenure.stores.memory.jobs import Edge, Run, StoredJob
from tenure.stores.values import Enqueued

__all__ = ["Plan", "add", "enqueue", "plan"]


@dataclass(slots=True)
class Plan:
    """What an enqueue will do, after all checks."""

    coming: dict[str, NewJob] = field(default_factory=dict)
    """The jobs to store, by id."""

    leads_to: list[tuple[str, bool]] = field(default_factory=list)
    """For each job of the call: the id to answer, and whether it is that of the owner of its unique key."""


def enqueue(data: Data, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Store all of these jobs, or raise and store none."""
    planned = plan(data, jobs)
    ended = [each for new in planned.coming.values() for each in add(data, new)]
    answers = [Enqueued(id_, _state(data, id_), duplicate) for id_, duplicate in planned.leads_to]
    drop_unkept(data, ended)
    return answers


def _state(data: Data, id_: str) -> State:
    job = data.resolve(id_)
    assert job is not None
    return job.state


def plan(data: Data, jobs: Iterable[NewJob], ending: Collection[StoredJob] = (), writes: Writes | None = None) -> Plan:
    """Decide what to do with each job, changing nothing. Raises if one of them refuses the whole call.

    The jobs in `ending` become final before these are stored, so their unique keys are free; `writes` are the
    attributes that they write.
    """
    planned = Plan()
    taken: dict[tuple[str, str], str] = {}
    stands_for: dict[str, str] = {}
    for new in jobs:
        if new.id in data.jobs or new.id in planned.coming:
            planned.leads_to.append((new.id, False))
            continue
        if new.unique is not None:
            owner = taken.get((new.task, new.unique)) or _owner(data, new.task, new.unique, ending)
            if owner is not None and new.unique_raises:
                raise UniqueConflict(new.task, new.unique, owner)
            if owner is not None:
                stands_for[new.id] = owner
                planned.leads_to.append((owner, True))
                continue
            taken[new.task, new.unique] = new.id
        after = tuple(stands_for.get(blocker, blocker) for blocker in new.after)
        for blocker in after:
            if blocker not in data.jobs and blocker not in planned.coming:
                raise BlockerNotFound(blocker)
        _check_attributes(data, new, writes)
        planned.coming[new.id] = replace(new, after=after)
        planned.leads_to.append((new.id, False))
    return planned


def _owner(data: Data, task: str, key: str, ending: Collection[StoredJob]) -> str | None:
    job = data.owner(task, key)
    return None if job is None or (job in ending and job.unique_until is None) else job.new.id


def _check_attributes(data: Data, new: NewJob, writes: Writes | None) -> None:
    if new.step is None or not new.step.needs:
        return
    own = new.step.writes if new.id == new.step.run_id else writes
    run = data.runs.get(new.step.run_id)
    known = {*(run.attributes if run else ()), *(own.attributes if own else ())}
    for name in new.step.needs:
        if name not in known:
            raise MissingAttribute(new.task, name)


def add(data: Data, new: NewJob) -> list[StoredJob]:
    """Store a job: in line, scheduled, blocked, or failed at once because a blocker has failed.

    Returns the jobs that became final: itself and, if it is the end of a run, dependents of the run.
    """
    now = data.clock.wall()
    run_at = now + new.delay if new.run_at is None else new.run_at
    job = StoredJob(
        new=new,
        number=next(data.numbers),
        created_at=now,
        seq=next(data.seqs),
        run_at=run_at if run_at > now else None,
        expires_at=None if new.expires is None else now + new.expires,
        unique_until=None if new.window is None else now + new.window,
    )
    data.jobs[new.id] = job
    data.queue(new.queue).add(job)
    if new.unique is not None:
        data.keys[new.task, new.unique] = job
    if new.step is not None:
        job.run = data.runs.setdefault(new.step.run_id, Run(new.step.flow, job.number))
        job.run.steps.append(job)
        job.run.write(new.step.writes)
    job.edges = [Edge(job, position, blocker) for position, blocker in enumerate(new.after)]
    job.open_edges = len(job.edges)
    for edge in job.edges:
        data.link(edge)
    ended: list[StoredJob] = []
    for blocker in dict.fromkeys(new.after):
        current = data.resolve(blocker)
        assert current is not None
        if current.state.final:
            ended += propagate(data, current, current.state, only=job)
    if job.state is State.BLOCKED and not job.blocked_by:
        data.join(job, job.run_at)
        job.ready_at = None  # when it was created
    return ended
