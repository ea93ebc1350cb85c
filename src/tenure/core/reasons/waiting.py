"""Reasons of jobs that wait: Scheduled, BlockedBy, NoWorker and others."""

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
    """The queue of the job is paused."""

    queue: str

    @property
    def sentence(self) -> str:
        return f"queue {self.queue} is paused"

    @property
    def advice(self) -> str:
        return f"tenure resume {self.queue}"


class Scheduled(Reason, frozen=True):
    """The job is not due yet."""

    job: str
    at: float
    left: float
    """Seconds until it is due."""

    attempt: int
    """Attempts so far."""

    error: ErrorInfo | None
    """Error of the last attempt, or of a worker that did not know its task; None if there was none."""

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
    """A job or run that another job waits for."""

    id: str
    task: str
    queue: str
    state: State

    def __str__(self) -> str:
        return f"{self.id} ({self.task}, {self.state})"


class BlockedBy(Reason, frozen=True):
    """The job waits for other jobs."""

    blockers: tuple[Blocker, ...]
    """The first of these jobs."""

    more: int
    """Number of the others."""

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
        return f"tenure explain {self.blockers[0].id} says why that one has not ended"


class AwaitsCompletion(Reason, frozen=True):
    """The job has returned `Wait` and waits to be completed from outside."""

    job: str

    @property
    def sentence(self) -> str:
        return "it waits to be completed from outside"

    @property
    def advice(self) -> str:
        return f"tenure complete {self.job}, or job.complete(value) where its code is"


class NoWorker(Reason, frozen=True):
    """No live worker serves the queue of the job."""

    queue: str
    missing: tuple[str, ...]
    """Ids of missing workers that serve it."""

    @property
    def sentence(self) -> str:
        missing = f" (missing: {', '.join(self.missing)})" if self.missing else ""
        return f"no live worker serves queue {self.queue}{missing}"

    @property
    def advice(self) -> str:
        return f"start one: tenure work module:app -q {self.queue}"


class TaskUnknown(Reason, frozen=True):
    """None of the live workers that serve the queue knows the task of the job."""

    task: str
    queue: str
    workers: tuple[str, ...]
    """Ids of the live workers that serve the queue."""

    @property
    def sentence(self) -> str:
        number = f"{len(self.workers)} workers" if len(self.workers) > 1 else "one worker"
        return f"queue {self.queue} is served by {number}, and none of them knows task {self.task}: {', '.join(self.workers)}"

    @property
    def advice(self) -> str:
        return (
            f"start a worker that has {self.task}, or name it in the aliases= of the task that it has become; "
            "until then the job keeps its place if tasks= of the workers leaves it out; otherwise it is offered again and ends as broken"
        )


class WorkersInTrouble(Reason, frozen=True):
    """Every live worker that could run the job has trouble."""

    troubles: dict[str, str]
    """What each worker reports about itself, by its id."""

    @property
    def sentence(self) -> str:
        troubles = ", ".join(f"{worker} says {trouble!r}" for worker, trouble in self.troubles.items())
        return f"every worker that could run it has trouble: {troubles}"

    @property
    def advice(self) -> str:
        return "fix that, or start another worker"


class Suspect(Reason, frozen=True):
    """The job was lost at least twice, so a worker runs it only alone."""

    losses: int
    max_losses: int

    @property
    def sentence(self) -> str:
        limit = f" of {self.max_losses}" if self.max_losses else ""
        return f"its worker was lost {self.losses}{limit} times, so it waits for a worker that holds no other job, or that runs it in a child process"

    @property
    def advice(self) -> str:
        return 'look at what it does to its worker, and give its task isolation="process"'


class InLine(Reason, frozen=True):
    """The job is due, and other jobs come first."""

    ahead: int
    priority: int
    more: bool
    """True if there are more than `ahead`."""

    workers: tuple[str, ...]
    """Ids of the workers that can run it."""

    passing: tuple[str, ...] = ()
    """Ids of workers that serve its queue and cannot run it, because they do not know its task."""

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
        advice = "it runs as soon as one of its workers has a free slot: tenure workers shows what they run"
        if not self.passing:
            return advice
        passing = f"{len(self.passing)} workers of its queue do" if len(self.passing) > 1 else f"{self.passing[0]} does"
        return f"{advice}; only {', '.join(self.workers)} can run it, {passing} not know its task"
