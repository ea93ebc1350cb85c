"""`StoredJob` and `Queue`: jobs as they are stored, and the indexes of their queue."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, takewhile

from tenure.core.job import AttemptRecord, ErrorInfo, JobRecord, NewJob, Progress, State, Writes
from tenure.core.lease import Token
from tenure.stores.values import PRIORITIES, QueueInfo, Totals

__all__ = ["Edge", "Index", "Queue", "Run", "StoredJob"]


@dataclass(slots=True, eq=False)
class Edge:
    """An edge: one job waits for another."""

    dependent: StoredJob
    position: int
    """Index in the `after` of the dependent."""

    blocker: str
    """Id of the job, or of the run, that is waited for."""

    open: bool = True
    result: str | None = None


@dataclass(slots=True, eq=False)
class Run:
    """A run of a flow."""

    flow: str
    number: int
    """The number of its first step."""

    steps: list[StoredJob] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    lookups: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def write(self, writes: Writes | None) -> None:
        if writes is not None:
            self.attributes |= writes.attributes
            self.lookups |= writes.lookups


@dataclass(slots=True, eq=False, kw_only=True)
class StoredJob:
    """A job as its producer enqueued it (`new`), and its state since."""

    new: NewJob
    number: int
    """Counts the jobs ever stored, from 1; the order of enqueueing."""

    created_at: float
    seq: int
    state: State = State.BLOCKED
    run_at: float | None = None
    expires_at: float | None = None
    unique_until: float | None = None
    """When the window of its unique key ends; None: it owns the key until it is final."""

    attempt: int = 0
    losses: int = 0
    fence: int = 0
    misses: int = 0
    token: Token | None = None
    """The token of the lease that holds it, or of the one that settled it; None once that token has ended."""

    worker: str | None = None
    lease_until: float = 0.0
    """When the lease expires, by the boot clock."""

    solo: bool = False
    parked_until: float | None = None
    """When its parking times out, infinity for never; None: it is not parked."""

    on_timeout: str | None = None
    """The step to hand over to if its parking times out; None: it fails then."""

    run: Run | None = None
    successor: str | None = None

    ready_at: float | None = None
    """When it last became due; None: when it was created."""

    started_at: float | None = None
    ended_at: float | None = None
    awaited: bool = False
    """Whether a store object waits for its end."""

    result: str | None = None
    error: ErrorInfo | None = None
    attempts: tuple[AttemptRecord, ...] = ()
    progress: Progress | None = None
    edges: list[Edge] = field(default_factory=list)
    open_edges: int = 0
    """Number of open edges; to count 10,000 edges whenever one closes would take longer than their jobs."""

    @property
    def blocked_by(self) -> int:
        """Number of open edges, plus 1 if it is parked."""
        return self.open_edges + (self.parked_until is not None)

    @property
    def begins_run(self) -> bool:
        """Whether it is the first step of a run, whose id is the run's."""
        return self.run is not None and self.run.steps[0] is self

    @property
    def with_run(self) -> list[StoredJob]:
        """The jobs that are removed together with it: all steps of its run, or itself alone."""
        return [self] if self.run is None else list(self.run.steps)

    @property
    def represents(self) -> list[StoredJob]:
        """The jobs whose dependents, waiters and unique keys are affected when this one becomes final.

        The first step of a run stands for the run: it is affected by the end of the last step, not by its own.
        """
        if self.successor is not None:
            return [] if self.begins_run else [self]
        return [self] if self.run is None or self.begins_run else [self, self.run.steps[0]]

    def record(self, boot: float) -> JobRecord:
        """The job as callers read it, at this time of the boot clock."""
        new = self.new
        running = self.state is State.RUNNING
        return JobRecord(
            id=new.id,
            task=new.task,
            queue=new.queue,
            state=self.state,
            payload=new.payload,
            raw=new.raw,
            priority=new.priority,
            seq=self.seq,
            run_at=self.run_at,
            created_at=self.created_at,
            attempt=self.attempt,
            losses=self.losses,
            fence=self.fence,
            misses=self.misses,
            max_attempts=new.max_attempts,
            max_losses=new.max_losses,
            lease=new.lease,
            keep=new.keep,
            expires_at=self.expires_at,
            tags=new.tags,
            unique=new.unique,
            run_id=new.run_id,
            started_at=self.started_at,
            ended_at=self.ended_at,
            worker=self.worker,
            lease_left=self.lease_until - boot if running else None,
            result=self.result,
            error=self.error,
            progress=self.progress if running else None,
            blocked_by=self.blocked_by if self.state is State.BLOCKED else 0,
            results=tuple(edge.result for edge in self.edges),
            successor=self.successor,
            on_timeout=self.on_timeout if self.parked_until is None else None,
            reads=() if new.step is None else new.step.reads,
            ready_at=self.ready_at,
            headers=new.headers,
        )


class Index(StrEnum):
    """The indexes of a queue, each in its own order.

    A job is in one of the first nine, and may be in the last two as well.
    """

    LINE = "line"
    SUSPECTS = "suspects"
    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BROKEN = "broken"
    EXPIRING = "expiring"
    """Jobs that have not started and expire at a time."""

    PARKED = "parked"
    """Parked jobs, by the time of their timeout."""


SortKey = tuple[float, int, str]
"""What an index is ordered by, then seq or number, then the id of the job."""


def index_entries(job: StoredJob) -> list[tuple[Index, SortKey]]:
    """All indexes that a job belongs to as it is now, each with its sort key. Nothing else decides this."""
    seq, id_ = job.seq, job.new.id
    found: list[tuple[Index, SortKey]] = []
    match job.state:
        case State.WAITING if job.run_at is not None:
            found.append((Index.SCHEDULED, (job.run_at, seq, id_)))
        case State.WAITING:
            suspect = job.losses >= 2
            found.append((Index.SUSPECTS if suspect else Index.LINE, (job.new.priority, seq, id_)))
        case State.BLOCKED:
            found.append((Index.BLOCKED, (job.new.priority, seq, id_)))
        case State.RUNNING:
            found.append((Index.RUNNING, (job.lease_until, seq, id_)))
        case _:
            found.append((Index(job.state.value), (job.ended_at or 0.0, job.number, id_)))
    if job.expires_at is not None and job.attempt == 0 and not job.state.final:
        found.append((Index.EXPIRING, (job.expires_at, seq, id_)))
    if job.parked_until is not None:
        found.append((Index.PARKED, (job.parked_until, seq, id_)))
    return found


@dataclass(slots=True, eq=False)
class Queue:
    """A queue: its inbox, its totals and the indexes of its jobs."""

    name: str
    paused: bool = False
    arrived: int = 0
    """The value of `Data.arrivals` when something last arrived in this queue."""

    inbox: deque[bytes] = field(default_factory=deque)
    """Entries of other programs, the oldest first."""

    totals: Counter[str] = field(default_factory=Counter)
    quiet: tuple[float, int] | None = None
    """When `prune` first found the queue empty, and the sum of its totals then."""

    indexes: defaultdict[Index, list[SortKey]] = field(default_factory=lambda: defaultdict(list))

    def add(self, job: StoredJob) -> None:
        """Enter a job in its indexes."""
        for index, key in index_entries(job):
            insort(self.indexes[index], key)

    def remove(self, job: StoredJob) -> None:
        """Take a job out of its indexes, before anything about it changes."""
        for index, key in index_entries(job):
            del self.indexes[index][bisect_left(self.indexes[index], key)]

    def ids(self, index: Index) -> Iterator[str]:
        """The ids in an index, in order."""
        return (id_ for _, _, id_ in self.indexes[index])

    def due(self, index: Index, now: float, limit: int) -> list[str]:
        """Up to `limit` ids of an index that is ordered by time, whose time has been reached; the earliest first."""
        past = takewhile(lambda key: key[0] <= now, self.indexes[index])
        return [id_ for _, _, id_ in islice(past, limit)]

    @property
    def empty(self) -> bool:
        """Whether no job of it is stored, nothing is in its inbox and it is not paused."""
        return not (self.paused or self.inbox or any(self.indexes.values()))

    def first_of_each_priority(self) -> list[str]:
        """The ids of the first jobs in line of the first `PRIORITIES` priorities, suspects apart from the others."""
        found: list[str] = []
        for index in (Index.LINE, Index.SUSPECTS):
            seen: set[float] = set()
            for priority, _, id_ in self.indexes[index]:
                if priority not in seen:
                    seen.add(priority)
                    found.append(id_)
                if len(seen) >= PRIORITIES:
                    break
        return found

    def info(self, oldest: float | None = None) -> QueueInfo:
        counts = {index: len(keys) for index, keys in self.indexes.items()}
        return QueueInfo(
            name=self.name,
            paused=self.paused,
            waiting=counts.get(Index.LINE, 0) + counts.get(Index.SUSPECTS, 0),
            scheduled=counts.get(Index.SCHEDULED, 0),
            blocked=counts.get(Index.BLOCKED, 0),
            running=counts.get(Index.RUNNING, 0),
            succeeded=counts.get(Index.SUCCEEDED, 0),
            failed=counts.get(Index.FAILED, 0),
            cancelled=counts.get(Index.CANCELLED, 0),
            broken=counts.get(Index.BROKEN, 0),
            totals=Totals(**self.totals),
            oldest=oldest,
        )
