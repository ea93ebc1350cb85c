"""What the store objects of one process share: jobs, queues, keys, edges, workers, and who is to be told of changes."""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from tenure.core.clock import Clock, SystemClock
from tenure.core.job import HISTORY, AttemptEnd, ErrorInfo, JobRecord, State, in_brief, past_attempt
from tenure.stores.memory.jobs import Edge, Queue, Run, StoredJob
from tenure.stores.memory.wakeup import IdleCaller, Mailbox
from tenure.stores.values import Announcement, AnnouncementKind, Change, Consequence, WorkerInfo

__all__ = ["LOCK", "Data", "RegisteredWorker"]

LOCK = threading.Lock()
"""Held around every step, of whatever data: a fork waits for it, so that no child inherits half a step."""

os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


@dataclass(slots=True, eq=False)
class RegisteredWorker:
    info: WorkerInfo
    mailbox: Mailbox[Announcement]
    beat: float
    totals: Counter[str] = field(default_factory=Counter)


class Data:
    """The data of a store, and the small moves that every step is made of. The caller holds `LOCK`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.idle: list[IdleCaller] = []
        self.reset()

    def reset(self) -> None:
        """Empty it; callers that wait for work go on waiting."""
        self.jobs: dict[str, StoredJob] = {}
        self.queues: dict[str, Queue] = {}
        self.workers: dict[str, RegisteredWorker] = {}
        self.keys: dict[tuple[str, str], StoredJob] = {}
        """Who holds each unique key, by task and key."""

        self.dependents: defaultdict[str, list[Edge]] = defaultdict(list)
        """The open edges that wait for each job."""

        self.runs: dict[str, Run] = {}
        self.waiters: defaultdict[str, set[Mailbox[Announcement]]] = defaultdict(set)
        self.watchers: set[Mailbox[str]] = set()
        self.consequences: list[Consequence] = []
        """What the step under way has done to jobs that its caller did not name."""

        self.chores: dict[str, float] = {}
        """When somebody last took the turn at each chore."""

        self.arrivals = 0
        """How often there was something new to lease."""

        self.seqs = count(1)
        self.numbers = count(1)

    def queue(self, name: str) -> Queue:
        """The queue of that name, which comes to exist by this."""
        return self.queues.setdefault(name, Queue(name))

    def existing(self, names: Iterable[str]) -> list[Queue]:
        """Those of these queues that exist, in order."""
        return [self.queues[name] for name in dict.fromkeys(names) if name in self.queues]

    def resolve(self, id_: str) -> StoredJob | None:
        """The job that an id means: a run's id, its current step."""
        job = self.jobs.get(id_)
        return job if job is None or job.run is None or not job.begins_run else job.run.steps[-1]

    def record(self, job: StoredJob) -> JobRecord:
        return job.record(self.clock.boot())

    # Moves.

    @contextmanager
    def changing(self, job: StoredJob) -> Iterator[StoredJob]:
        """Move a job from the shelves that it was on to those that it belongs on after the block."""
        queue = self.queues[job.new.queue]
        queue.remove(job)
        yield job
        queue.add(job)

    def join(self, job: StoredJob, run_at: float | None = None) -> None:
        """Put a job in line, at the back; or let it wait for its time, keeping its seq, if that is yet to come."""
        with self.changing(job):
            job.state = State.WAITING
            job.run_at = run_at if run_at is not None and run_at > self.clock.wall() else None
            if job.run_at is None:
                job.seq = next(self.seqs)
        self.wake(job.new.queue)

    def count(self, what: str, queue: str, worker: str | None = None) -> None:
        """Count what has happened, for its queue and for the worker whose doing it was."""
        self.queues[queue].totals[what] += 1
        if worker in self.workers:
            self.workers[worker].totals[what] += 1

    def report(self, change: Change, job: StoredJob) -> None:
        """Note what has become of a job that the caller did not name."""
        self.consequences.append(Consequence(change, job.new.id, job.new.task, job.new.queue))

    def enter_attempt(self, job: StoredJob, outcome: AttemptEnd, left: ErrorInfo | None = None) -> None:
        """Enter the attempt that is over, or was with the job's end, in the history of the job."""
        ended_at = self.clock.wall() if job.ended_at is None else job.ended_at
        past = past_attempt(
            job.attempt, job.fence, job.started_at or 0.0, ended_at, job.worker, outcome, in_brief(left)
        )
        job.attempts = (*job.attempts, past)[-HISTORY:]

    # Keys.

    def owner(self, task: str, key: str) -> StoredJob | None:
        """Who holds a unique key now."""
        job = self.keys.get((task, key))
        return None if job is None or self.window_is_over(job) else job

    def window_is_over(self, job: StoredJob) -> bool:
        return job.unique_until is not None and job.unique_until <= self.clock.wall()

    def free_key(self, job: StoredJob) -> None:
        # Past its window the key may be another's by now.
        if job.new.unique is not None and self.keys.get((job.new.task, job.new.unique)) is job:
            del self.keys[job.new.task, job.new.unique]

    # Edges.

    def link(self, edge: Edge) -> None:
        self.dependents[edge.blocker].append(edge)

    def unlink(self, edge: Edge) -> None:
        edges = self.dependents[edge.blocker]
        edges.remove(edge)
        if not edges:
            del self.dependents[edge.blocker]

    def blocked_on(self, job: StoredJob) -> list[StoredJob]:
        """Who waits for a job. (A job that has ended may have open edges too, and waits for nothing.)"""
        edges = self.dependents.get(job.new.id, ())
        return [edge.dependent for edge in edges if edge.dependent.state is State.BLOCKED]

    # Who is to be woken or told.

    def wake(self, queue: str, number: int = 1) -> None:
        """There is something new in a queue: wake as many of those who wait for that."""
        if self.queues[queue].paused:
            return
        self.arrivals += 1
        self.queues[queue].arrived = self.arrivals
        for caller in [caller for caller in self.idle if caller.serves(queue)][:number]:
            self.idle.remove(caller)
            caller.wake()

    def revoke(self, job: StoredJob, kind: AnnouncementKind) -> None:
        """End the token of a job and tell its holder, if it has one."""
        if job.state is State.RUNNING and job.worker in self.workers:
            self.workers[job.worker].mailbox.post(Announcement(kind, job.new.id))
        job.token = None

    def notify_waiters(self, job: StoredJob, kind: AnnouncementKind) -> None:
        for mailbox in self.waiters.pop(job.new.id, ()):
            mailbox.post(Announcement(kind, job.new.id))
