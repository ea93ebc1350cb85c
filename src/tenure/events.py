"""What happens to jobs, queues, workers and runs, one type for each thing that can: what listeners are called with, and watchers see.

An event says what has happened, and to what; it never has arguments or results in it. Events are hints: of what a process did that has
died since nobody may have been told, and what was asked of the store twice may be told twice. The truth is in the store.
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
"""Characters of an error's message that an event has at most."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="event"):
    """Something has happened. Events with more in common have a base in common: `JobEvent`, `QueueEvent`, `WorkerEvent`, `RunEvent`."""

    bit: ClassVar[int] = 0
    """Which of all kinds it is; for Tenure itself."""

    at: float
    """When, in seconds since the epoch, by the clock of the process that did it."""

    @property
    def kind(self) -> str:
        """The name of what has happened, such as `succeeded` or `worker_started`."""
        return str(self.__struct_config__.tag)

    def fields(self) -> dict[str, Any]:
        """What it says, by name, as far as it says anything; without the time, and with the kind as `event`."""
        fields: dict[str, Any] = {"event": self.kind}
        for name in self.__struct_fields__:
            if name != "at" and (value := getattr(self, name)) not in (None, ""):
                fields[name] = {"type": value.type, "message": value.message} if isinstance(value, ErrorInfo) else value
        return fields


# Jobs.


class JobEvent(Event, frozen=True):
    """Something has happened to a job."""

    job_id: str
    task: str = ""
    """Empty if it was not known any more, because the record had gone."""

    queue: str = ""
    run_id: str | None = None
    """The run that it is a step of; None also where whoever did this has not learnt of it."""


class AttemptEvent(JobEvent, frozen=True):
    """It has happened to an attempt of a job, in somebody's hands."""

    attempt: int | None = None
    """The first is 1; None where it is not known."""

    worker: str | None = None


class EndEvent(AttemptEvent, frozen=True):
    """An attempt has ended."""

    duration: float | None = None
    """Seconds that it ran; None if it did not, or not in the process that tells."""

    error: ErrorInfo | None = None
    """What it ended with, without the traceback, and of a long message the beginning."""


class Enqueued(JobEvent, frozen=True, tag="enqueued"):
    """A job has come to exist: by a producer, from an inbox, with the success of another, or as the next step of a run."""

    state: State = State.WAITING


class Leased(AttemptEvent, frozen=True, tag="leased"):
    """A worker has it. Its function starts soon; if not, it is `Released`."""


class Renewed(AttemptEvent, frozen=True, tag="renewed"):
    """Its worker holds it for longer."""


class LeaseLost(AttemptEvent, frozen=True, tag="lease_lost"):
    """Whoever runs it has learnt that it is no longer theirs, and lets it go."""

    reason: AbortReason = AbortReason.ERROR


class Fenced(AttemptEvent, frozen=True, tag="fenced"):
    """Somebody whose token is no longer current has wanted to say how it ended, and was refused."""


class Succeeded(EndEvent, frozen=True, tag="succeeded"):
    """It has succeeded: final."""


class Retried(EndEvent, frozen=True, tag="retried"):
    """The attempt has failed, or has asked for another one; that comes after the delay."""

    delay: float = 0.0
    """Seconds until it is due."""


class Rescheduled(EndEvent, frozen=True, tag="rescheduled"):
    """It has put itself off; the attempt does not count."""

    delay: float = 0.0
    run_at: float | None = None
    """Due at this time, in seconds since the epoch, instead of after the delay."""


class Parked(EndEvent, frozen=True, tag="parked"):
    """It waits to be completed from outside."""

    timeout: float | None = None


class Failed(EndEvent, frozen=True, tag="failed"):
    """It has failed: final. By its last attempt, by losses, by what it waited for, or because nobody completed it in time."""


class Reoffered(EndEvent, frozen=True, tag="reoffered"):
    """The worker does not know the task; it is offered again, for others."""

    delay: float = 0.0


class Broken(EndEvent, frozen=True, tag="broken"):
    """It cannot be read, or nobody knows its task: final, its bytes are kept."""


class Released(EndEvent, frozen=True, tag="released"):
    """It is given back to the front, as if it had not been leased."""


class Lost(AttemptEvent, frozen=True, tag="lost"):
    """It was taken from a worker that is gone. Back to the front, or, as `Failed` tells next, failed."""

    losses: int = 0


class Unblocked(JobEvent, frozen=True, tag="unblocked"):
    """All that it waited for has ended; it is in line, or scheduled."""


class Overdue(JobEvent, frozen=True, tag="overdue"):
    """Nobody has completed the step in time; the step for that case follows."""


class Triggered(JobEvent, frozen=True, tag="triggered"):
    """It was scheduled, and is in line now, because somebody fields so."""


class Cancelled(JobEvent, frozen=True, tag="cancelled"):
    """Somebody has cancelled it: final."""


class Expired(JobEvent, frozen=True, tag="expired"):
    """Its time to start was over before it had: it is cancelled, and final."""


class Completed(JobEvent, frozen=True, tag="completed"):
    """Somebody has completed it from outside: succeeded, final."""


class Deleted(JobEvent, frozen=True, tag="deleted"):
    """Somebody has removed it. (What retention removes is not told, and of a purge only `QueuePurged`.)"""


class Revived(JobEvent, frozen=True, tag="revived"):
    """It was final, and somebody has put it in line again: retried by an operator."""


# Queues.


class QueueEvent(Event, frozen=True):
    """Something has happened to a queue."""

    queue: str


class QueuePaused(QueueEvent, frozen=True, tag="queue_paused"):
    """No more jobs of it are handed out."""


class QueueResumed(QueueEvent, frozen=True, tag="queue_resumed"):
    """They are again."""


class QueuePurged(QueueEvent, frozen=True, tag="queue_purged"):
    """Jobs of it that had not started were deleted; a large purge comes in several steps."""

    jobs: int


# Workers.


class WorkerEvent(Event, frozen=True):
    """Something has happened to a worker, or to somebody who holds jobs by hand."""

    worker: str


class WorkerStarted(WorkerEvent, frozen=True, tag="worker_started"):
    """It is in the registry, and takes jobs."""

    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] = ()


class WorkerStopping(WorkerEvent, frozen=True, tag="worker_stopping"):
    """It takes no more jobs, and ends those in hand."""


class WorkerStopped(WorkerEvent, frozen=True, tag="worker_stopped"):
    """It has left the registry."""


class WorkerMissing(WorkerEvent, frozen=True, tag="worker_missing"):
    """It has been silent for so long that it may be gone; told once by each process that sees it in the registry."""

    silent_for: float = 0.0


class WorkerRetired(WorkerEvent, frozen=True, tag="worker_retired"):
    """It was known to be dead, and struck off; each of its jobs is told as `Lost`."""

    reason: str = ""


class WorkerPruned(WorkerEvent, frozen=True, tag="worker_pruned"):
    """It was missing and held nothing, and was struck off."""


# Runs.


class RunEvent(Event, frozen=True):
    """Something has happened to a run of a flow."""

    run_id: str
    flow: str


class RunStarted(RunEvent, frozen=True, tag="run_started"):
    """It has begun: its first step has come to exist."""


class RunAdvanced(RunEvent, frozen=True, tag="run_advanced"):
    """A step has succeeded and handed over to the next."""

    job_id: str
    """The step that has succeeded."""

    task: str
    next_id: str
    next_task: str


class RunEnded(RunEvent, frozen=True, tag="run_ended"):
    """Its last step has ended, and it with it."""

    job_id: str
    """That step."""

    task: str
    state: State


Kind: TypeAlias = type[Event] | str
"""A type of events, a base of several, or the name of one (`Event.kind`)."""


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
    """The type that is meant; `InvalidOption` if there is none."""
    if isinstance(kind, str):
        if kind not in KINDS:
            raise InvalidOption(f"there is no kind of event named {kind!r:.80}: there are {', '.join(KINDS)}")
        return KINDS[kind]
    if not (isinstance(kind, type) and issubclass(kind, Event)):
        raise InvalidOption(f"a kind of event is a type of tenure.events, or its name, got {kind!r:.80}")
    return kind


def bits_of(kinds: Iterable[Kind]) -> int:
    """The bits of these kinds, and of all below them."""
    return sum({leaf.bit for kind in kinds for leaf in _leaves(kind_of(kind))})


def brief(error: ErrorInfo | None) -> ErrorInfo | None:
    """An error as an event tells it."""
    return None if error is None else ErrorInfo(error.type, error.message[:MESSAGE])
