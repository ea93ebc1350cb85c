"""Why a job does not run yet."""

from __future__ import annotations

import msgspec

from tenure.core.job import ErrorInfo, State
from tenure.core.reasons.reason import Reason, in_brackets, moment, span

__all__ = [
    "AwaitsCompletion",
    "BlockedBy",
    "Blocker",
    "InLine",
    "NoWorker",
    "Paused",
    "Scheduled",
    "Suspect",
    "TaskUnknown",
    "WorkersInTrouble",
]


class Paused(Reason, frozen=True):
    """Nobody is given jobs of its queue."""

    queue: str

    @property
    def sentence(self) -> str:
        return f"queue {self.queue} is paused"

    @property
    def advice(self) -> str:
        return f"tenure resume {self.queue}"


class Scheduled(Reason, frozen=True):
    """It is not due yet."""

    job: str
    at: float
    left: float
    """Seconds until then."""

    attempt: int
    """How many attempts it has behind it."""

    error: ErrorInfo | None
    """Why it waits, if it has been tried, or handed to a worker that did not know its task."""

    @property
    def sentence(self) -> str:
        when = f"it is due at {moment(self.at)}, in {span(self.left)}"
        if self.attempt:
            return f"{when}, after attempt {self.attempt}{in_brackets(self.error)}"
        return f"{when}{in_brackets(self.error)}"

    @property
    def advice(self) -> str:
        return f"tenure trigger {self.job} puts it in line now"


class Blocker(msgspec.Struct, frozen=True):
    """Something that a job waits for."""

    id: str
    task: str
    queue: str
    state: State

    def __str__(self) -> str:
        return f"{self.id} ({self.task}, {self.state})"


class BlockedBy(Reason, frozen=True):
    """Others have to succeed first."""

    blockers: tuple[Blocker, ...]
    """The first of them."""

    more: int
    """How many there are besides."""

    @property
    def sentence(self) -> str:
        others = f" and {self.more} more" if self.more else ""
        return f"it waits for {', '.join(map(str, self.blockers))}{others}"

    @property
    def advice(self) -> str:
        for blocker in self.blockers:
            if blocker.state.final:
                return (
                    f"{blocker.id} has ended as {blocker.state}: tenure retry {blocker.id}, or cancel what waits for it"
                )
        return f"tenure explain {self.blockers[0].id} says why that has not ended"


class AwaitsCompletion(Reason, frozen=True):
    """It is parked until somebody completes it."""

    job: str

    @property
    def sentence(self) -> str:
        return "it waits to be completed from outside"

    @property
    def advice(self) -> str:
        return f"tenure complete {self.job}, or job.complete(value) where its code is"


class NoWorker(Reason, frozen=True):
    """No live worker serves its queue."""

    queue: str
    missing: tuple[str, ...]
    """Workers that do serve it, and have not been heard of lately."""

    @property
    def sentence(self) -> str:
        gone = f"; {', '.join(self.missing)} would, and cannot be heard" if self.missing else ""
        return f"no live worker serves queue {self.queue}{gone}"

    @property
    def advice(self) -> str:
        return f"start one: tenure work module:app -q {self.queue}"


class TaskUnknown(Reason, frozen=True):
    """Of the live workers that serve its queue none knows its task."""

    task: str
    queue: str
    workers: tuple[str, ...]
    """Those that serve it."""

    @property
    def sentence(self) -> str:
        number = f"{len(self.workers)} workers" if len(self.workers) > 1 else "one worker"
        return f"queue {self.queue} is served by {number}, and none of them knows task {self.task}: {', '.join(self.workers)}"

    @property
    def advice(self) -> str:
        return (
            f"start a worker that has {self.task}, or name it in the aliases= of the task that it has become; "
            "until then the job stays in line if the tasks= of its workers leave it out, else it is offered again, and broken in the end"
        )


class WorkersInTrouble(Reason, frozen=True):
    """All live workers that could run it are kept from it."""

    troubles: dict[str, str]
    """What each says of itself, by its id."""

    @property
    def sentence(self) -> str:
        troubles = ", ".join(f"{worker} says {trouble!r}" for worker, trouble in self.troubles.items())
        return f"whoever could run it is kept from it: {troubles}"

    @property
    def advice(self) -> str:
        return "end what keeps them, or start another worker"


class Suspect(Reason, frozen=True):
    """It was lost so often that it is handed out only alone."""

    losses: int
    max_losses: int

    @property
    def sentence(self) -> str:
        limit = f" of {self.max_losses}" if self.max_losses else ""
        return f"its worker was lost {self.losses}{limit} times, so it waits for one that holds nothing else, or runs it in a child"

    @property
    def advice(self) -> str:
        return 'look at what it does to its worker, and give its task isolation="process"'


class InLine(Reason, frozen=True):
    """It is due, and others come first."""

    ahead: int
    priority: int
    more: bool
    """Whether there are more than `ahead` says."""

    workers: tuple[str, ...]
    """Those that could run it."""

    passing: tuple[str, ...] = ()
    """Those that serve its queue and leave it to these, because they do not know its task."""

    @property
    def sentence(self) -> str:
        where = f"in line at priority {self.priority}"
        if not self.ahead:
            return f"it is the first {where}"
        return (
            f"it is {where} behind {'more than ' if self.more else ''}{self.ahead} other{'s' if self.ahead > 1 else ''}"
        )

    @property
    def advice(self) -> str:
        if not self.workers:
            return ""
        advice = "it runs as soon as one of its workers has room: tenure workers shows what they are at"
        if not self.passing:
            return advice
        passing = f"{len(self.passing)} workers of its queue do" if len(self.passing) > 1 else f"{self.passing[0]} does"
        return f"{advice}; only {', '.join(self.workers)} can run it, {passing} not know its task"
