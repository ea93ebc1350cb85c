"""Reasons of jobs that run already, have ended or do not exist: Held, Finished, Failed and others."""

from __future__ import annotations

from tenure.core.job import ErrorInfo, State
from tenure.core.reasons.reason import Reason, in_brackets, moment, span

__all__ = [
    "AttemptsUsedUp",
    "Broken",
    "Expired",
    "Failed",
    "Finished",
    "HandedOver",
    "Held",
    "HolderMissing",
    "LossesUsedUp",
    "NotFound",
    "Orphaned",
]


class Held(Reason, frozen=True):
    """A live worker is running the job."""

    worker: str
    started_at: float
    left: float
    """Seconds until its lease expires, unless it is renewed."""

    @property
    def sentence(self) -> str:
        return (
            f"worker {self.worker} runs it, since {moment(self.started_at)}; its lease has {span(self.left)} left, "
            "and is renewed while the worker lives"
        )


class HolderMissing(Reason, frozen=True):
    """The worker that holds the job is missing, and the lease has not expired yet."""

    worker: str
    left: float
    """Seconds until the lease expires."""

    silent_for: float | None
    """Seconds since the worker's last heartbeat; None if it is no longer in the registry."""

    @property
    def sentence(self) -> str:
        status = "is not registered" if self.silent_for is None else f"has been silent for {span(self.silent_for)}"
        return f"worker {self.worker}, which holds it, {status}; the lease expires in {span(self.left)}, and then another worker gets the job"

    @property
    def advice(self) -> str:
        return f"if that worker is dead, tenure retire {self.worker} gives its jobs to other workers at once"


class Orphaned(Reason, frozen=True):
    """The lease of the job has expired, and no worker has recovered the job yet."""

    queue: str
    worker: str
    expired_for: float
    reapers: tuple[str, ...]
    """Ids of live workers that serve its queue, and of apps that lease its jobs by hand."""

    @property
    def sentence(self) -> str:
        expired = f"the lease of {self.worker} expired {span(self.expired_for)} ago"
        if not self.reapers:
            return f"{expired}, and no live worker serves queue {self.queue} to recover the job"
        return f"{expired}, and {', '.join(self.reapers)} should recover the job within seconds"

    @property
    def advice(self) -> str:
        if not self.reapers:
            return f"start one: tenure work module:app -q {self.queue}"
        return f"if none does, they run with reap=False: tenure retire {self.worker}"


class Finished(Reason, frozen=True):
    """The job has succeeded or was cancelled."""

    job: str
    state: State
    at: float

    @property
    def sentence(self) -> str:
        return f"it {'was cancelled' if self.state is State.CANCELLED else self.state} at {moment(self.at)}"

    @property
    def advice(self) -> str:
        return f"tenure retry {self.job} puts it back in line"


class HandedOver(Reason, frozen=True):
    """The job is a step that has succeeded, and its run has gone on."""

    run: str
    successor: str

    @property
    def sentence(self) -> str:
        return f"it has succeeded and handed over to step {self.successor}"

    @property
    def advice(self) -> str:
        return f"tenure explain {self.run} says which step the run is at"


class Expired(Reason, frozen=True):
    """The job had not started when it expired."""

    job: str
    at: float
    cancelled: bool
    """True if it was cancelled for it already."""

    @property
    def sentence(self) -> str:
        expired = f"it had to start before {moment(self.at)}, and did not"
        return expired if self.cancelled else f"{expired}: the next worker that looks at its queue cancels it"

    @property
    def advice(self) -> str:
        return f"tenure retry {self.job} puts it back in line, without that limit" if self.cancelled else ""


class AttemptsUsedUp(Reason, frozen=True):
    """The job has failed in all of its attempts."""

    job: str
    attempts: int
    """Attempts so far, losses not counted."""

    limit: int
    error: ErrorInfo | None

    @property
    def sentence(self) -> str:
        if self.limit == 1:
            return f"its only attempt failed{in_brackets(self.error)}"
        return f"its {self.limit} attempts are used up, the last one failed{in_brackets(self.error)}"

    @property
    def advice(self) -> str:
        return f"fix the cause, then tenure retry {self.job}"


class LossesUsedUp(Reason, frozen=True):
    """The job was lost `max_losses` times, because its workers died."""

    job: str
    losses: int
    limit: int
    error: ErrorInfo | None

    @property
    def sentence(self) -> str:
        return f"its worker was lost {self.losses} times, and {self.limit} is its limit"

    @property
    def advice(self) -> str:
        return f'look at what it does to its worker, give its task isolation="process", then tenure retry {self.job}'


class Failed(Reason, frozen=True):
    """The job failed although it had attempts left."""

    job: str
    attempt: int
    error: ErrorInfo | None

    @property
    def sentence(self) -> str:
        return (
            f"it failed in attempt {self.attempt}{in_brackets(self.error)}"
            if self.attempt
            else f"it failed{in_brackets(self.error)}"
        )

    @property
    def advice(self) -> str:
        return f"fix the cause, then tenure retry {self.job}"


class Broken(Reason, frozen=True):
    """The job cannot be decoded, or no live worker knew its task for too long."""

    job: str
    error: ErrorInfo | None

    @property
    def sentence(self) -> str:
        return f"it is broken{in_brackets(self.error)}"

    @property
    def advice(self) -> str:
        return f"fix the task that has to read it, then tenure retry {self.job}: its payload is unchanged"


class NotFound(Reason, frozen=True):
    """No job has this id."""

    job: str
    unserved: tuple[str, ...]
    """Queues that no live worker serves: entries of their inboxes are no jobs yet."""

    @property
    def sentence(self) -> str:
        return f"job {self.job} never existed, was deleted, or retention has removed it"

    @property
    def advice(self) -> str:
        unserved = f": no live worker serves {', '.join(self.unserved)}" if self.unserved else ""
        return f"if a program put it in the inbox of a queue, it becomes a job when a worker of that queue reads the inbox{unserved}"
