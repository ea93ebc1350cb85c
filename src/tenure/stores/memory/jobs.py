"""A stored job, and where in its queue it stands."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice, takewhile

from tenure.core.job import AttemptRecord, ErrorInfo, JobRecord, NewJob, Progress, State, Writes
from tenure.core.lease import Token
from tenure.stores.values import QueueInfo, Totals

__all__ = ["Edge", "Queue", "Run", "Shelf", "StoredJob"]


@dataclass(slots=True, eq=False)
class Edge:
    """One job's waiting for another."""

    dependent: StoredJob
    position: int
    blocker: str
    open: bool = True
    result: str | None = None


@dataclass(slots=True, eq=False)
class Run:
    """One passage through a flow."""

    flow: str
    number: int
    """That of its first step."""

    steps: list[StoredJob] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    lookups: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def write(self, writes: Writes | None) -> None:
        if writes is not None:
            self.attributes |= writes.attributes
            self.lookups |= writes.lookups


@dataclass(slots=True, eq=False, kw_only=True)
class StoredJob:
    """What a producer has asked for, and what has become of it since."""

    new: NewJob
    number: int
    """The how-manieth job of the data it is."""

    created_at: float
    seq: int
    state: State = State.BLOCKED
    run_at: float | None = None
    expires_at: float | None = None
    unique_until: float | None = None
    """End of the window of its unique key; None: held until final."""

    attempt: int = 0
    losses: int = 0
    fence: int = 0
    misses: int = 0
    token: Token | None = None
    """While running: of the lease that holds it; else of the one that settled it. None once that token is dead."""

    worker: str | None = None
    lease_until: float = 0.0
    """By the boot clock."""

    solo: bool = False
    parked_until: float | None = None
    """Blocked until completed from outside, or until then; infinity: for ever."""

    on_timeout: str | None = None
    """The step that follows if nobody has completed it by then."""

    run: Run | None = None
    successor: str | None = None

    started_at: float | None = None
    ended_at: float | None = None
    awaited: bool = False
    """Whether somebody has asked to be told of its end."""

    result: str | None = None
    error: ErrorInfo | None = None
    attempts: tuple[AttemptRecord, ...] = ()
    progress: Progress | None = None
    edges: list[Edge] = field(default_factory=list)
    open_edges: int = 0
    """How many of them are open: a count of 10,000 edges each time that one closes would take longer than their jobs."""

    @property
    def blocked_by(self) -> int:
        """How many things it waits for: open edges, or its completion from outside."""
        return self.open_edges + (self.parked_until is not None)

    @property
    def begins(self) -> bool:
        """Whether it is the first step of a run, whose id is the run's."""
        return self.run is not None and self.run.steps[0] is self

    @property
    def whole(self) -> list[StoredJob]:
        """What goes when it goes: the steps of its run, or itself."""
        return [self] if self.run is None else list(self.run.steps)

    @property
    def over(self) -> list[StoredJob]:
        """Which jobs' dependents, waiters and keys it is time for, now that this one is final.

        A run's first step stands for the run: not before that has ended is it over, and then with the last.
        """
        if self.successor is not None:
            return [] if self.begins else [self]
        return [self] if self.run is None or self.begins else [self, self.run.steps[0]]

    def record(self, boot: float) -> JobRecord:
        """The job as everybody may read it, at this time since boot."""
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
        )


class Shelf(StrEnum):
    """Where jobs of a queue stand, each shelf in an order of its own."""

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
    """Beside another: not started, and to be cancelled at a time."""

    PARKED = "parked"
    """Beside `BLOCKED`: fails at a time."""


Place = tuple[float, int, str]


def places(job: StoredJob) -> list[tuple[Shelf, Place]]:
    """Every shelf that a job belongs on as it is now, and its place there. Nothing else decides about that."""
    seq, id_ = job.seq, job.new.id
    found: list[tuple[Shelf, Place]] = []
    match job.state:
        case State.WAITING if job.run_at is not None:
            found.append((Shelf.SCHEDULED, (job.run_at, seq, id_)))
        case State.WAITING:
            suspect = job.losses >= 2
            found.append((Shelf.SUSPECTS if suspect else Shelf.LINE, (job.new.priority, seq, id_)))
        case State.BLOCKED:
            found.append((Shelf.BLOCKED, (job.new.priority, seq, id_)))
        case State.RUNNING:
            found.append((Shelf.RUNNING, (job.lease_until, seq, id_)))
        case _:
            found.append((Shelf(job.state.value), (job.ended_at or 0.0, job.number, id_)))
    if job.expires_at is not None and job.attempt == 0 and not job.state.final:
        found.append((Shelf.EXPIRING, (job.expires_at, seq, id_)))
    if job.parked_until is not None:
        found.append((Shelf.PARKED, (job.parked_until, seq, id_)))
    return found


@dataclass(slots=True, eq=False)
class Queue:
    """The jobs of one queue, each on the shelves that its state implies."""

    name: str
    paused: bool = False
    arrived: int = 0
    """When a job last came in line, as a number that grows with every arrival in the data."""

    inbox: deque[bytes] = field(default_factory=deque)
    """What other programs have put there, the oldest first."""

    totals: Counter[str] = field(default_factory=Counter)
    quiet: tuple[float, int] | None = None
    """When `prune` first found the queue empty, and the sum of its totals then."""

    shelves: defaultdict[Shelf, list[Place]] = field(default_factory=lambda: defaultdict(list))

    def put(self, job: StoredJob) -> None:
        """Put a job on its shelves."""
        for shelf, place in places(job):
            insort(self.shelves[shelf], place)

    def take(self, job: StoredJob) -> None:
        """Take a job off its shelves, before anything about it changes."""
        for shelf, place in places(job):
            del self.shelves[shelf][bisect_left(self.shelves[shelf], place)]

    def ids(self, shelf: Shelf) -> Iterator[str]:
        """Who stands on a shelf, in order."""
        return (id_ for _, _, id_ in self.shelves[shelf])

    def over(self, shelf: Shelf, now: float, limit: int) -> list[str]:
        """Whose time, which is what this shelf is ordered by, has come by now; the first of them first."""
        past = takewhile(lambda place: place[0] <= now, self.shelves[shelf])
        return [id_ for _, _, id_ in islice(past, limit)]

    @property
    def empty(self) -> bool:
        """Whether no job of it is stored, nothing is in its inbox and it is not paused."""
        return not (self.paused or self.inbox or any(self.shelves.values()))

    def info(self) -> QueueInfo:
        counts = {shelf: len(places) for shelf, places in self.shelves.items()}
        return QueueInfo(
            name=self.name,
            paused=self.paused,
            waiting=counts.get(Shelf.LINE, 0) + counts.get(Shelf.SUSPECTS, 0),
            scheduled=counts.get(Shelf.SCHEDULED, 0),
            blocked=counts.get(Shelf.BLOCKED, 0),
            running=counts.get(Shelf.RUNNING, 0),
            succeeded=counts.get(Shelf.SUCCEEDED, 0),
            failed=counts.get(Shelf.FAILED, 0),
            cancelled=counts.get(Shelf.CANCELLED, 0),
            broken=counts.get(Shelf.BROKEN, 0),
            totals=Totals(**self.totals),
        )
