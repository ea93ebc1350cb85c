"""Derives events from what a store was asked and what it answered. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tenure import events
from tenure.core.job import JobRecord, NewJob, State
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Finish, Park, Requeue, Transition
from tenure.core.schedule import Firing, Overlap, SchedulePut, TickRecord
from tenure.events import Event
from tenure.stores.values import (
    OK,
    Change,
    Consequence,
    Enqueued,
    Leased,
    LeaseRequest,
    Reaped,
    Renewal,
    Settlement,
    Unchanged,
    Verdict,
    VerdictKind,
    WorkerInfo,
)

__all__ = [
    "BY_CHANGE",
    "CREATION",
    "ENDS",
    "RUNS",
    "completed",
    "enqueued",
    "failed_without_worker",
    "fired",
    "followed",
    "leased",
    "lost",
    "operated",
    "put",
    "renewed",
    "settled",
    "settled_and_leased",
    "started",
]

RUNS = events.bits_of([events.RunEvent])
CREATION = events.Enqueued.bit | RUNS
"""Kinds of events that may happen when jobs are created."""

ENDS = events.bits_of([events.EndEvent, events.Fenced]) | CREATION
"""Kinds of events that may happen when attempts are settled."""

BY_CHANGE: Mapping[Change, type[events.JobEvent]] = {
    Change.ENQUEUED: events.Enqueued,
    Change.BROKEN: events.Broken,
    Change.UNBLOCKED: events.Unblocked,
    Change.FAILED: events.Failed,
    Change.EXPIRED: events.Expired,
    Change.OVERDUE: events.Overdue,
}


def enqueued(wants: int, at: float, jobs: Iterable[NewJob], answers: Iterable[Enqueued]) -> Iterator[Event]:
    """Events of these jobs being enqueued."""
    for job, answer in zip(jobs, answers, strict=True):
        if not answer.duplicate:
            yield from _created(wants, at, job, answer.state)


def fired(
    wants: int, at: float, firings: Iterable[Firing], answers: Iterable[tuple[TickRecord, ...] | None]
) -> Iterator[Event]:
    """Events of schedules being fired, without the `Enqueued` of jobs that may wait for the last one."""
    for firing, answer in zip(firings, answers, strict=True):
        if answer is None:
            continue
        for (tick, job), entry in zip(firing.jobs, answer, strict=True):
            if not entry.enqueued:
                if wants & events.ScheduleSkipped.bit:
                    yield events.ScheduleSkipped(at, firing.name, tick, entry.end.value, entry.job_id)
                continue
            if (
                firing.overlap is not Overlap.WAIT
            ):  # of those that may wait for the last one, only the store knows the state
                yield from _created(wants, at, job, State.WAITING)
            if wants & events.ScheduleFired.bit:
                yield events.ScheduleFired(
                    at, firing.name, tick, job.id, job.task, job.queue, max(entry.at - tick, 0.0)
                )
        if wants & events.ScheduleSkipped.bit:
            for entry in firing.entries:
                yield events.ScheduleSkipped(at, firing.name, entry.tick, entry.end.value, entry.job_id)


def put(wants: int, at: float, puts: Iterable[SchedulePut], answers: Iterable[bool]) -> Iterator[Event]:
    """Events of schedules being created, changed or deleted."""
    for each, done in zip(puts, answers, strict=True):
        if done and wants & events.ScheduleChanged.bit:
            change = "deleted" if each.settings is None else "changed" if each.if_version else "created"
            yield events.ScheduleChanged(at, each.name, change)


def leased(wants: int, at: float, request: LeaseRequest, answer: Leased) -> Iterator[Event]:
    """Events of jobs being leased."""
    if wants & events.Leased.bit:
        for lease in answer.leases:
            job = lease.job
            yield events.Leased(at, job.id, job.task, job.queue, job.run_id, job.attempt, request.worker)


def renewed(
    wants: int, at: float, renewals: Sequence[Renewal], answers: Sequence[AbortReason | Unchanged | None]
) -> Iterator[Event]:
    """Events of leases being renewed, or found to be lost."""
    for renewal, answer in zip(renewals, answers, strict=True):
        job = renewal.lease.job
        if isinstance(answer, AbortReason):
            if wants & events.LeaseLost.bit:
                yield events.LeaseLost(at, job.id, job.task, job.queue, job.run_id, job.attempt, job.worker, answer)
        elif answer is None and renewal.ttl is not None and wants & events.Renewed.bit:
            yield events.Renewed(at, job.id, job.task, job.queue, job.run_id, job.attempt, job.worker)


def settled(
    wants: int, at: float, settlements: Sequence[Settlement], verdicts: Sequence[Verdict], durations: dict[str, float]
) -> Iterator[Event]:
    """Events of attempts being settled. `durations` has the seconds that they ran, by job id; used entries are removed."""
    succeeded = events.Succeeded if wants & events.Succeeded.bit else None
    for (lease, transition), verdict in zip(settlements, verdicts, strict=True):
        job = lease.job
        duration = durations.pop(job.id, None) if durations else None
        if verdict is OK and type(transition) is Finish and transition.state is State.SUCCEEDED and job.run_id is None:
            # The same as below in a third of the time, because most attempts end like this.
            if succeeded is not None:
                yield succeeded(at, job.id, job.task, job.queue, None, job.attempt, job.worker, duration)
            if transition.children:
                yield from _followed(wants, at, job, transition)
        elif verdict.kind is VerdictKind.OK:
            made = _ENDED.get(transition.state) if type(transition) is Finish else _put_back(transition)
            if made is not None and wants & made.bit:
                yield _ended(made, at, job, transition, duration)
            if type(transition) is Finish and (transition.children or job.run_id is not None):
                yield from _followed(wants, at, job, transition)
        elif verdict.kind is not VerdictKind.REFUSED and job.attempt and wants & events.Fenced.bit:
            # Attempt 0 is a lease that never existed, with which a worker finds out whether the store settles at all.
            yield events.Fenced(at, job.id, job.task, job.queue, job.run_id, job.attempt, job.worker)


def settled_and_leased(
    wants: int,
    at: float,
    settlements: Sequence[Settlement],
    request: LeaseRequest,
    answer: tuple[Sequence[Verdict], Leased],
    durations: dict[str, float],
) -> Iterator[Event]:
    """Events of attempts being settled and jobs being leased in one call."""
    verdicts, given = answer
    if settlements:
        yield from settled(wants, at, settlements, verdicts, durations)
    yield from leased(wants, at, request, given)


_ENDED: Mapping[State, type[events.EndEvent]] = {
    State.SUCCEEDED: events.Succeeded,
    State.FAILED: events.Failed,
    State.BROKEN: events.Broken,
}


def _put_back(transition: Transition) -> type[events.EndEvent]:
    match transition:
        case Requeue(front=True):
            return events.Released
        case Requeue(missed=True):
            return events.Reoffered
        case Requeue(counts=True):
            return events.Retried
        case Requeue():
            return events.Rescheduled
        case _:
            return events.Parked


def _ended(
    made: type[events.EndEvent], at: float, job: JobRecord, transition: Transition, duration: float | None
) -> events.EndEvent:
    fields = (at, job.id, job.task, job.queue, job.run_id, job.attempt, job.worker, duration)
    match transition:
        case Finish(error=None):
            return made(*fields)
        case Finish(error=error):
            return made(*fields, events.brief(error))
        case Park(timeout=timeout):
            return events.Parked(*fields, None, timeout)
    error = events.brief(transition.error)
    if made is events.Rescheduled:
        return events.Rescheduled(*fields, error, transition.delay, transition.run_at)
    if made is events.Retried:
        return events.Retried(*fields, error, transition.delay)
    if made is events.Reoffered:
        return events.Reoffered(*fields, error, transition.delay)
    return events.Released(*fields)


def _followed(wants: int, at: float, job: JobRecord, transition: Finish) -> Iterator[Event]:
    """Events of the jobs that were created with the end of a job, and of what that end means for its run."""
    for child in transition.children:
        yield from _created(wants, at, child, State.BLOCKED if child.after else State.WAITING)
    if job.run_id is None:
        return
    if (after := transition.successor) is None:
        yield from _run_ended(wants, at, job, transition.state)
        return
    if wants & events.Enqueued.bit:
        yield events.Enqueued(
            at, after.id, after.task, after.queue, job.run_id, State.BLOCKED if after.after else State.WAITING
        )
    if wants & events.RunAdvanced.bit:
        yield events.RunAdvanced(at, job.run_id, _flow(job.task), job.id, job.task, after.id, after.task)


def _created(wants: int, at: float, job: NewJob, state: State) -> Iterator[Event]:
    step = job.step
    if wants & events.Enqueued.bit:
        yield events.Enqueued(at, job.id, job.task, job.queue, None if step is None else step.run_id, state)
    if step is not None and step.run_id == job.id and wants & events.RunStarted.bit:
        yield events.RunStarted(at, step.run_id, step.flow)


def _run_ended(wants: int, at: float, job: JobRecord, state: State) -> Iterator[Event]:
    """The event of a run having ended with this job, if the job is a step."""
    if job.run_id is not None and wants & events.RunEnded.bit:
        yield events.RunEnded(at, job.run_id, _flow(job.task), job.id, job.task, state)


def lost(wants: int, at: float, jobs: Iterable[Reaped]) -> Iterator[Event]:
    """Events of jobs being taken from dead workers. `failed_without_worker` gives the events of those that failed by it."""
    if wants & events.Lost.bit:
        for job in jobs:
            yield events.Lost(at, job.id, job.task, job.queue, None, None, job.worker, job.losses)


def failed_without_worker(
    wants: int, at: float, jobs: Sequence[Consequence | Reaped], records: Sequence[JobRecord | None]
) -> Iterator[Event]:
    """Events of jobs that failed without their worker. `records` are the store's, None for those that are gone."""
    for job, record in zip(jobs, records, strict=True):
        job_id = job.id if isinstance(job, Reaped) else job.job_id
        if wants & events.Failed.bit:
            yield (
                events.Failed(at, job_id, job.task, job.queue)
                if record is None
                else events.Failed(
                    at, job_id, job.task, job.queue, record.run_id, record.attempt or None, record.worker, None,
                    events.brief(record.error),
                )
            )  # fmt: skip
        if record is not None:
            yield from _run_ended(wants, at, record, State.FAILED)


def followed(wants: int, at: float, consequences: Sequence[Consequence]) -> Iterator[Event]:
    """Events of an operation's consequences for other jobs. `failed_without_worker` gives those of jobs that failed by it."""
    for each in consequences:
        kind = BY_CHANGE[each.change]
        if each.change is not Change.FAILED and wants & kind.bit:
            yield kind(at, each.job_id, each.task, each.queue)


def completed(wants: int, at: float, job_id: str, transition: Finish, record: JobRecord | None) -> Iterator[Event]:
    """Events of a job being completed from outside."""
    yield from operated(wants, at, events.Completed, [job_id], [record])
    if record is not None:
        yield from _followed(wants, at, record, transition)
    else:
        for child in transition.children:
            yield from _created(wants, at, child, State.BLOCKED if child.after else State.WAITING)


def operated(
    wants: int,
    at: float,
    kind: type[events.JobEvent] | None,
    ids: Sequence[str],
    records: Sequence[JobRecord | None],
    end: State | None = None,
) -> Iterator[Event]:
    """Events of this kind for jobs on which an operator has acted.

    `end` is the state in which they have ended by it; None if they have not.
    """
    for job_id, job in zip(ids, records, strict=True):
        if kind is not None and wants & kind.bit:
            yield kind(at, job_id) if job is None else kind(at, job.id, job.task, job.queue, job.run_id)
        if end is not None and job is not None:
            yield from _run_ended(wants, at, job, end)


def started(at: float, worker: WorkerInfo) -> Event:
    """The event of a worker entering the registry."""
    return events.WorkerStarted(at, worker.id, worker.host, worker.pid, worker.queues)


def _flow(task: str) -> str:
    """The name of the flow, from the task name of a step."""
    return task.rpartition(".")[0]
