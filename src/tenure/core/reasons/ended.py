"""Why a job does not run again: it runs already, or has ended, or there is none."""

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
    """It runs."""

    worker: str
    started_at: float
    left: float
    """Seconds until its lease ends, unless that is renewed."""

    @property
    def sentence(self) -> str:
        return (
            f"{self.worker} runs it, since {moment(self.started_at)}; its lease has {span(self.left)} left, "
            "and is renewed while the worker lives"
        )


class HolderMissing(Reason, frozen=True):
    """Whoever holds it cannot be heard, and its lease has not ended yet."""

    worker: str
    left: float
    silent_for: float | None
    """Seconds; None if it is not in the registry any more."""

    @property
    def sentence(self) -> str:
        heard = "is not registered" if self.silent_for is None else f"has been silent for {span(self.silent_for)}"
        return (
            f"{self.worker}, which holds it, {heard}; the lease has {span(self.left)} left, and then it goes to another"
        )

    @property
    def advice(self) -> str:
        return f"if that worker is dead, tenure retire {self.worker} gives its jobs to others at once"


class Orphaned(Reason, frozen=True):
    """Its lease has ended, and nobody has taken it from its holder yet."""

    queue: str
    worker: str
    expired_for: float
    reapers: tuple[str, ...]
    """Live workers that serve its queue, and those who hold jobs of it by hand."""

    @property
    def sentence(self) -> str:
        ended = f"the lease of {self.worker} ended {span(self.expired_for)} ago"
        if not self.reapers:
            return f"{ended}, and no live worker serves queue {self.queue} to take the job from it"
        return f"{ended}, and {', '.join(self.reapers)} should take the job from it within seconds"

    @property
    def advice(self) -> str:
        if not self.reapers:
            return f"start one: tenure work module:app -q {self.queue}"
        return f"if none does, they run with reap=False: tenure retire {self.worker}"


class Finished(Reason, frozen=True):
    """It has ended, as somebody wanted."""

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
    """It is a step, and its run has gone on."""

    run: str
    successor: str

    @property
    def sentence(self) -> str:
        return f"it has succeeded and handed over to step {self.successor}"

    @property
    def advice(self) -> str:
        return f"tenure explain {self.run} says where the run is"


class Expired(Reason, frozen=True):
    """It had not started when its time to do so was over."""

    job: str
    at: float
    cancelled: bool
    """Whether that has ended it already."""

    @property
    def sentence(self) -> str:
        over = f"it had to start before {moment(self.at)}, and did not"
        return over if self.cancelled else f"{over}: whoever looks at its queue next cancels it"

    @property
    def advice(self) -> str:
        return f"tenure retry {self.job} puts it back in line, without that limit" if self.cancelled else ""


class AttemptsUsedUp(Reason, frozen=True):
    """It has failed as often as it may."""

    job: str
    attempts: int
    """Losses not counted."""

    limit: int
    error: ErrorInfo | None

    @property
    def sentence(self) -> str:
        return f"its {self.limit} attempts are used up, the last one failed{in_brackets(self.error)}"

    @property
    def advice(self) -> str:
        return f"end the cause, then tenure retry {self.job}"


class LossesUsedUp(Reason, frozen=True):
    """Its workers died as often as they may."""

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
    """It failed, although it had attempts left."""

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
        return f"end the cause, then tenure retry {self.job}"


class Broken(Reason, frozen=True):
    """It cannot be read, or nobody knew its task for too long."""

    job: str
    error: ErrorInfo | None

    @property
    def sentence(self) -> str:
        return f"it is broken{in_brackets(self.error)}"

    @property
    def advice(self) -> str:
        return f"mend the task that has to read it, then tenure retry {self.job}: its bytes are as they were"


class NotFound(Reason, frozen=True):
    """No job has this id."""

    job: str
    unserved: tuple[str, ...]
    """Queues that no live worker serves: whatever lies in their inboxes is no job yet."""

    @property
    def sentence(self) -> str:
        return f"job {self.job} never existed, was deleted, or retention has removed it"

    @property
    def advice(self) -> str:
        named = f": nobody serves {', '.join(self.unserved)}" if self.unserved else ""
        return f"if a program put it in the inbox of a queue, it becomes a job when a worker of that queue looks there{named}"
