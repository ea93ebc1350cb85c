"""`Data`: what store objects of one process share, such as jobs, queues, unique keys, edges, workers and waiters."""

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
from tenure.core.measures import HistoryRow, Mark
from tenure.core.schedule import ScheduleRecord
from tenure.stores.memory.jobs import Edge, Queue, Run, StoredJob
from tenure.stores.memory.wakeup import CrossLoopMailbox, IdleCaller
from tenure.stores.values import Action, Announcement, AnnouncementKind, Change, Consequence, WorkerInfo

__all__ = ["LOCK", "Data", "RegisteredWorker"]

LOCK = threading.Lock()
"""Held during every operation on any `Data`. A fork waits for it, so that no child inherits half an operation."""

os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


@dataclass(slots=True, eq=False)
class RegisteredWorker:
    info: WorkerInfo
    mailbox: CrossLoopMailbox[Announcement]
    beat: float
    totals: Counter[str] = field(default_factory=Counter)


class Data:
    """The data of a store, and the small changes that every operation consists of. The caller holds `LOCK`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.idle: list[IdleCaller] = []
        self.reset()

    def reset(self) -> None:
        """Remove everything. Callers that wait for work go on waiting."""
        self.jobs: dict[str, StoredJob] = {}
        self.queues: dict[str, Queue] = {}
        self.workers: dict[str, RegisteredWorker] = {}
        self.keys: dict[tuple[str, str], StoredJob] = {}
        """The owner of each unique key, by task and key."""

        self.dependents: defaultdict[str, list[Edge]] = defaultdict(list)
        """Open edges by the id of their blocker."""

        self.runs: dict[str, Run] = {}
        self.waiters: defaultdict[str, set[CrossLoopMailbox[Announcement]]] = defaultdict(set)
        self.watchers: set[CrossLoopMailbox[str]] = set()
        self.consequences: list[Consequence] = []
        """What the current operation has done to jobs that its caller did not name."""

        self.history: dict[tuple[int, float], dict[tuple[str, str], HistoryRow]] = {}
        """Rows by resolution and slot, then by queue and task."""

        self.marks: list[Mark] = []
        self.actions: list[tuple[int, Action]] = []
        """The audit, the latest first, each action with its number."""

        self.schedules: dict[str, ScheduleRecord] = {}
        self.chores: dict[str, float] = {}
        """When each chore was last claimed, by the boot clock."""

        self.arrivals = 0
        """Number of times that something new to lease has arrived."""

        self.seqs = count(1)
        self.numbers = count(1)

    def queue(self, name: str) -> Queue:
        """The queue of that name, which is created if it does not exist."""
        return self.queues.setdefault(name, Queue(name))

    def existing(self, names: Iterable[str]) -> list[Queue]:
        """The queues of these names that exist, in order."""
        return [self.queues[name] for name in dict.fromkeys(names) if name in self.queues]

    def resolve(self, id_: str) -> StoredJob | None:
        """The job of this id, or the current step if it is the id of a run."""
        job = self.jobs.get(id_)
        return job if job is None or job.run is None or not job.begins_run else job.run.steps[-1]

    def record(self, job: StoredJob) -> JobRecord:
        return job.record(self.clock.boot())

    # Changes.

    @contextmanager
    def changing(self, job: StoredJob) -> Iterator[StoredJob]:
        """Take a job out of the indexes of its queue, and enter it as it is after the block."""
        queue = self.queues[job.new.queue]
        queue.remove(job)
        yield job
        queue.add(job)

    def join(self, job: StoredJob, run_at: float | None = None) -> None:
        """Put a job in line, at the back; if `run_at` is in the future, schedule it with the seq that it has."""
        with self.changing(job):
            job.state = State.WAITING
            job.run_at = run_at if run_at is not None and run_at > self.clock.wall() else None
            if job.run_at is None:
                job.seq = next(self.seqs)
                job.ready_at = self.clock.wall()
        self.wake(job.new.queue)

    def count(self, what: str, queue: str, worker: str | None = None) -> None:
        """Add 1 to a total of a queue and, if given, of the worker that did it."""
        self.queues[queue].totals[what] += 1
        if worker in self.workers:
            self.workers[worker].totals[what] += 1

    def report(self, change: Change, job: StoredJob) -> None:
        """Report a change of a job that the caller did not name."""
        self.consequences.append(Consequence(change, job.new.id, job.new.task, job.new.queue))

    def enter_attempt(self, job: StoredJob, outcome: AttemptEnd, left: ErrorInfo | None = None) -> None:
        """Enter an attempt in the history of its job; it ended now, or when the job did."""
        ended_at = self.clock.wall() if job.ended_at is None else job.ended_at
        past = past_attempt(
            job.attempt, job.fence, job.started_at or 0.0, ended_at, job.worker, outcome, in_brief(left)
        )
        job.attempts = (*job.attempts, past)[-HISTORY:]

    # Keys.

    def owner(self, task: str, key: str) -> StoredJob | None:
        """The current owner of a unique key."""
        job = self.keys.get((task, key))
        return None if job is None or self.window_is_over(job) else job

    def window_is_over(self, job: StoredJob) -> bool:
        return job.unique_until is not None and job.unique_until <= self.clock.wall()

    def free_key(self, job: StoredJob) -> None:
        # Past its window, the key may have another owner by now.
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
        """The blocked jobs that wait for a job. Jobs that have ended may have open edges too, but wait no more."""
        edges = self.dependents.get(job.new.id, ())
        return [edge.dependent for edge in edges if edge.dependent.state is State.BLOCKED]

    # Waking and announcing.

    def wake(self, queue: str, number: int = 1) -> None:
        """Wake up to `number` callers that wait for work in this queue, because something new is there."""
        if self.queues[queue].paused:
            return
        self.arrivals += 1
        self.queues[queue].arrived = self.arrivals
        for caller in [caller for caller in self.idle if caller.serves(queue)][:number]:
            self.idle.remove(caller)
            caller.wake()

    def revoke(self, job: StoredJob, kind: AnnouncementKind) -> None:
        """End the token of a job, and announce it to the holder if there is one."""
        if job.state is State.RUNNING and job.worker in self.workers:
            self.workers[job.worker].mailbox.post(Announcement(kind, job.new.id))
        job.token = None

    def notify_waiters(self, job: StoredJob, kind: AnnouncementKind) -> None:
        for mailbox in self.waiters.pop(job.new.id, ()):
            mailbox.post(Announcement(kind, job.new.id))
