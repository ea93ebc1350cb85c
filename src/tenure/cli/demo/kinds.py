"""The kinds of jobs of `tenure demo`, and the check that each ended as expected. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tenure.core.job import JobRecord, State
from tenure.stores.values import QueueInfo

__all__ = ["JOBS", "KINDS", "JobKind", "Summary", "finished", "summarize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """One task of the demo, the number of its jobs, and how each of them must end."""

    task: str
    """The name of the task and of its queue."""

    about: str
    jobs: int
    delay: float = 0.0
    ends: State = State.SUCCEEDED
    attempts: int = 1
    """Attempts until it ends, without those that were lost with a worker."""

    losses: int = 0
    """The fewest losses of each job. Jobs of other kinds may be lost too, if the killed worker held them."""


KINDS = (
    JobKind(task="victim", about="its worker is killed with kill -9", jobs=1, losses=1),
    JobKind(task="flaky", about="fails twice, then works", jobs=24, attempts=3),
    JobKind(task="hopeless", about="fails for good after 2 attempts", jobs=6, ends=State.FAILED, attempts=2),
    JobKind(task="slow", about="blocks a thread for half a second", jobs=24),
    JobKind(task="later", about="enqueued to run after 3 s", jobs=5, delay=3.0),
    JobKind(task="quick", about="waits 30 ms", jobs=240),
)
"""In the order in which the workers serve their queues, so that a worker leases the victim at once."""


JOBS = sum(kind.jobs for kind in KINDS)


def finished(queue: QueueInfo) -> int:
    """How many jobs of a queue are final."""
    return queue.succeeded + queue.failed + queue.cancelled + queue.broken


@dataclass(frozen=True, slots=True)
class Summary:
    """How the jobs of one kind ended."""

    kind: JobKind
    ended: Counter[str]
    """Number of jobs by state; `gone` are those that the store no longer has."""

    attempts: int
    losses: int
    wrong: int
    """Number of jobs that did not end as expected."""


def summarize(kind: JobKind, jobs: Sequence[JobRecord | None]) -> Summary:
    """Compare the jobs of one kind in the store with how they should have ended."""
    found = [job for job in jobs if job is not None]
    ended = Counter("gone" if job is None else job.label for job in jobs)
    right = sum(_ended_as_expected(kind, job) for job in found)
    return Summary(kind, ended, sum(job.attempt for job in found), sum(job.losses for job in found), kind.jobs - right)


def _ended_as_expected(kind: JobKind, job: JobRecord) -> bool:
    return (
        job.state is kind.ends
        and job.attempt - job.losses == kind.attempts
        and job.losses >= kind.losses
        and (job.started_at or 0.0) >= job.created_at + kind.delay
    )
