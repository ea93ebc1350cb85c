"""Events about jobs, queues, workers, runs and schedules, one type for each kind; listeners and watchers get them.

An event says what happened, and to what. It never holds arguments or results. Events are hints: those of a process that
dies may be lost, and an operation that is tried again may send its events twice. The truth is in the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

import msgspec

from tenure.core.job import ErrorInfo, State
from tenure.core.lease import AbortReason
from tenure.errors import InvalidOption

__all__ = [
    "ALL",
    "KINDS",
    "AttemptEvent",
    "Broken",
    "Cancelled",
    "Completed",
    "Deleted",
    "EndEvent",
    "Enqueued",
    "Event",
    "Expired",
    "Failed",
    "Fenced",
    "JobEvent",
    "Kind",
    "LeaseLost",
    "Leased",
    "Lost",
    "Overdue",
    "Parked",
    "QueueEvent",
    "QueuePaused",
    "QueuePurged",
    "QueueResumed",
    "Released",
    "Renewed",
    "Reoffered",
    "Rescheduled",
    "Retried",
    "Revived",
    "RunAdvanced",
    "RunEnded",
    "RunEvent",
    "RunStarted",
    "ScheduleChanged",
    "ScheduleEvent",
    "ScheduleFired",
    "ScheduleSkipped",
    "Succeeded",
    "Triggered",
    "Unblocked",
    "WorkerEvent",
    "WorkerMissing",
    "WorkerPruned",
    "WorkerRetired",
    "WorkerStarted",
    "WorkerStopped",
    "WorkerStopping",
    "bits_of",
    "brief",
    "kind_of",
]

MESSAGE = 500
"""The longest message of an error in an event, in characters."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="event"):
    """The base of all events. `JobEvent`, `QueueEvent`, `WorkerEvent`, `RunEvent` and `ScheduleEvent` are the bases of groups."""

    bit: ClassVar[int] = 0
    """The bit of this kind in a mask of kinds; internal."""

    at: float
    """When it happened, in seconds since the epoch, by the clock of the process that did it."""

    @property
    def kind(self) -> str:
        """The name of the kind, such as `succeeded` or `worker_started`."""
        return str(self.__struct_config__.tag)

    def fields(self) -> dict[str, Any]:
        """The fields that are set, by name, without `at`, and with the kind as `event`."""
        fields: dict[str, Any] = {"event": self.kind}
        for name in self.__struct_fields__:
            if name != "at" and (value := getattr(self, name)) not in (None, ""):
                fields[name] = {"type": value.type, "message": value.message} if isinstance(value, ErrorInfo) else value
        return fields


# Jobs.


class JobEvent(Event, frozen=True):
    """The base of events about a job."""

    job_id: str
    task: str = ""
    """Empty if it is not known, because the record is gone."""

    queue: str = ""
    run_id: str | None = None
    """The run that the job is a step of; None if it is not a step, or if the process that sent the event did not know it."""


class AttemptEvent(JobEvent, frozen=True):
    """The base of events about an attempt of a job."""

    attempt: int | None = None
    """Attempt number, from 1; None if it is not known."""

    worker: str | None = None


class EndEvent(AttemptEvent, frozen=True):
    """The base of events about the end of an attempt."""

    duration: float | None = None
    """Seconds that the attempt ran; None if it did not run, or not in the process that sent the event."""

    error: ErrorInfo | None = None
    """The error that it ended with, without the traceback, the message cut to 500 characters."""


class Enqueued(JobEvent, frozen=True, tag="enqueued"):
    """A job was created: by a producer, from an inbox, with the success of another job, or as the next step of a run."""

    state: State = State.WAITING


class Leased(AttemptEvent, frozen=True, tag="leased"):
    """A worker has leased the job. Its function starts soon; otherwise `Released` follows."""


class Renewed(AttemptEvent, frozen=True, tag="renewed"):
    """Its worker has renewed the lease."""


class LeaseLost(AttemptEvent, frozen=True, tag="lease_lost"):
    """The worker has found out that it no longer holds the job, and stops the attempt."""

    reason: AbortReason = AbortReason.ERROR


class Fenced(AttemptEvent, frozen=True, tag="fenced"):
    """A worker with an outdated token tried to settle the job; the store refused it."""


class Succeeded(EndEvent, frozen=True, tag="succeeded"):
    """The job has succeeded. Final."""


class Retried(EndEvent, frozen=True, tag="retried"):
    """The attempt failed or asked for a retry; the next attempt comes after the delay."""

    delay: float = 0.0
    """Seconds until the job is due."""


class Rescheduled(EndEvent, frozen=True, tag="rescheduled"):
    """The job has rescheduled itself. The attempt does not count."""

    delay: float = 0.0
    run_at: float | None = None
    """When it is due instead of after the delay, in seconds since the epoch."""


class Parked(EndEvent, frozen=True, tag="parked"):
    """The job waits to be completed from outside, without a worker."""

    timeout: float | None = None
    """Seconds until it times out; None: never."""


class Failed(EndEvent, frozen=True, tag="failed"):
    """The job has failed. Final. By its last attempt, by losses, by a failed blocker, or by the timeout of a parked job."""


class Reoffered(EndEvent, frozen=True, tag="reoffered"):
    """The worker does not know the task; the job goes back for other workers, after the delay."""

    delay: float = 0.0


class Broken(EndEvent, frozen=True, tag="broken"):
    """The payload cannot be decoded, or no worker knows the task. Final; the payload is kept."""


class Released(EndEvent, frozen=True, tag="released"):
    """The job is back at the front of its queue, as if it had not been leased."""


class Lost(AttemptEvent, frozen=True, tag="lost"):
    """The job was taken from a worker that is gone. It is back at the front of its queue, or `Failed` follows."""

    losses: int = 0


class Unblocked(JobEvent, frozen=True, tag="unblocked"):
    """All blockers of the job have ended; it is waiting or scheduled."""


class Overdue(JobEvent, frozen=True, tag="overdue"):
    """The parked step was not completed in time; the step that `on_timeout` names follows."""


class Triggered(JobEvent, frozen=True, tag="triggered"):
    """The job was scheduled, and an operator has made it due now."""


class Cancelled(JobEvent, frozen=True, tag="cancelled"):
    """The job was cancelled. Final."""


class Expired(JobEvent, frozen=True, tag="expired"):
    """The job had not started when it expired; it is cancelled. Final."""


class Completed(JobEvent, frozen=True, tag="completed"):
    """The job was completed from outside; it has succeeded. Final."""


class Deleted(JobEvent, frozen=True, tag="deleted"):
    """The job was deleted. Retention sends no event, and a purge only `QueuePurged`."""


class Revived(JobEvent, frozen=True, tag="revived"):
    """The job was final, and an operator has retried it: it waits again."""


# Queues.


class QueueEvent(Event, frozen=True):
    """The base of events about a queue."""

    queue: str


class QueuePaused(QueueEvent, frozen=True, tag="queue_paused"):
    """The queue is paused: workers get no more jobs of it."""


class QueueResumed(QueueEvent, frozen=True, tag="queue_resumed"):
    """The queue is resumed: workers get its jobs again."""


class QueuePurged(QueueEvent, frozen=True, tag="queue_purged"):
    """Jobs of the queue that had not started were deleted; a large purge sends several events, one a batch."""

    jobs: int
    """How many were deleted."""


# Workers.


class WorkerEvent(Event, frozen=True):
    """The base of events about a worker, or about a program that holds jobs by hand."""

    worker: str


class WorkerStarted(WorkerEvent, frozen=True, tag="worker_started"):
    """The worker has registered, and leases jobs."""

    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] = ()


class WorkerStopping(WorkerEvent, frozen=True, tag="worker_stopping"):
    """The worker leases no more jobs, and finishes those that it runs."""


class WorkerStopped(WorkerEvent, frozen=True, tag="worker_stopped"):
    """The worker has left the registry."""


class WorkerMissing(WorkerEvent, frozen=True, tag="worker_missing"):
    """The worker has been silent so long that it may be gone. Each process that sees this in the registry sends it once."""

    silent_for: float = 0.0
    """Seconds since its last sign of life."""


class WorkerRetired(WorkerEvent, frozen=True, tag="worker_retired"):
    """The worker was known to be dead, and was removed from the registry; `Lost` follows for each of its jobs."""

    reason: str = ""


class WorkerPruned(WorkerEvent, frozen=True, tag="worker_pruned"):
    """The worker was missing and held no jobs, and was removed from the registry."""


# Runs.


class RunEvent(Event, frozen=True):
    """The base of events about a run of a flow."""

    run_id: str
    flow: str


class RunStarted(RunEvent, frozen=True, tag="run_started"):
    """The run has begun: its first step was created."""


class RunAdvanced(RunEvent, frozen=True, tag="run_advanced"):
    """A step has succeeded, and the next one was created."""

    job_id: str
    """The step that has succeeded."""

    task: str
    next_id: str
    next_task: str


class RunEnded(RunEvent, frozen=True, tag="run_ended"):
    """The last step of the run has ended, and the run with it."""

    job_id: str
    """The last step."""

    task: str
    state: State


# Schedules.


class ScheduleEvent(Event, frozen=True):
    """The base of events about a schedule."""

    schedule: str


class ScheduleFired(ScheduleEvent, frozen=True, tag="schedule_fired"):
    """A tick of the schedule has enqueued a job, whose `Enqueued` event comes too."""

    tick: float
    job_id: str
    task: str
    queue: str
    lag: float = 0.0
    """Seconds from the tick to its firing."""


class ScheduleSkipped(ScheduleEvent, frozen=True, tag="schedule_skipped"):
    """A tick of the schedule has enqueued nothing."""

    tick: float
    why: str
    """Why: `skipped` (by overlap), `duplicate`, `missed` (not fired in time) or `refused` (by a hook)."""

    job_id: str | None = None
    """The job that was in the way of a skipped tick, or that owns the unique key of a duplicate."""


class ScheduleChanged(ScheduleEvent, frozen=True, tag="schedule_changed"):
    """The schedule was created, changed or deleted, by code or by an operator."""

    change: str
    """`created`, `changed` or `deleted`."""


Kind: TypeAlias = type[Event] | str
"""A type of event, a base of several, or the name of a kind (`Event.kind`)."""


def _leaves(of: type[Event]) -> list[type[Event]]:
    below = of.__subclasses__()
    return [leaf for each in below for leaf in _leaves(each)] if below else [of]


KINDS: dict[str, type[Event]] = {str(leaf.__struct_config__.tag): leaf for leaf in _leaves(Event)}
"""Every type of event by its name."""

ALL = (1 << len(KINDS)) - 1
"""The bits of all kinds."""

for _number, _leaf in enumerate(KINDS.values()):
    _leaf.bit = 1 << _number


def kind_of(kind: Kind) -> type[Event]:
    """The type of this kind; `InvalidOption` if there is none."""
    if isinstance(kind, str):
        if kind not in KINDS:
            raise InvalidOption(f"there is no kind of event named {kind!r:.80}: the kinds are {', '.join(KINDS)}")
        return KINDS[kind]
    if not (isinstance(kind, type) and issubclass(kind, Event)):
        raise InvalidOption(f"a kind of event is a type of tenure.events or the name of one, got {kind!r:.80}")
    return kind


def bits_of(kinds: Iterable[Kind]) -> int:
    """The bits of these kinds; a base stands for all its kinds."""
    return sum({leaf.bit for kind in kinds for leaf in _leaves(kind_of(kind))})


def brief(error: ErrorInfo | None) -> ErrorInfo | None:
    """An error as an event carries it: no traceback, the message cut to `MESSAGE`."""
    return None if error is None else ErrorInfo(error.type, error.message[:MESSAGE])
