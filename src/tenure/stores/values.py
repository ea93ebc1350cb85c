"""What calls of a store take and give."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from tenure.core.job import JobRecord, Progress, State
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Finish, Transition

__all__ = [
    "JOBS_SHOWN",
    "LEASE_LOST",
    "MISSING_AFTER",
    "NOT_FOUND",
    "OK",
    "UNCHANGED",
    "Announcement",
    "AnnouncementKind",
    "BusyQueues",
    "Change",
    "Consequence",
    "Enqueued",
    "Fact",
    "Health",
    "Layout",
    "LeaseRequest",
    "LeaseStatus",
    "Leased",
    "Page",
    "Pulse",
    "QueueInfo",
    "Reaped",
    "Renewal",
    "RunPage",
    "RunRecord",
    "RunSearch",
    "Search",
    "Settlement",
    "Totals",
    "Unchanged",
    "Verdict",
    "VerdictKind",
    "WorkerInfo",
    "awaited_inside",
    "clock_fact",
    "refused",
]

MISSING_AFTER = 10.0
"""Seconds of silence after which a worker is missing, unless it says otherwise itself. That is shown and takes nothing from it: its
jobs are judged by their leases."""

JOBS_SHOWN = 20
"""Jobs that a worker names with a beat, at most."""

Settlement = tuple[Lease, Transition]


def awaited_inside(settlements: Sequence[Settlement]) -> Collection[str]:
    """Ids that children and successors of these settlements wait for.

    A store must not settle a job of this id, or a step of the run of this id, ahead of the other settlements of the call: the
    dependent exists before it ends, or comes when it may be removed already.
    """
    if len(settlements) < 2:
        return ()
    found: set[str] = set()
    for _, step in settlements:
        if isinstance(step, Finish):
            for child in step.children:
                found.update(child.after)
            if step.successor is not None:
                found.update(step.successor.after)
    return found


class VerdictKind(StrEnum):
    OK = "ok"
    LEASE_LOST = "lease_lost"
    NOT_FOUND = "not_found"
    REFUSED = "refused"


class Verdict(msgspec.Struct, frozen=True):
    """What became of one item of a batch."""

    kind: VerdictKind
    reason: str = ""
    """Of a refusal: what stands in the way, as a sentence."""

    state: State | None = None
    """Of an operator's refusal: the state that the job is in."""

    other: str | None = None
    """Of a refusal: the job that stands in the way."""


OK = Verdict(VerdictKind.OK)
LEASE_LOST = Verdict(VerdictKind.LEASE_LOST)
NOT_FOUND = Verdict(VerdictKind.NOT_FOUND)


def refused(reason: str, *, state: State | None = None, other: str | None = None) -> Verdict:
    """Refuse one item, saying what stands in its way."""
    return Verdict(VerdictKind.REFUSED, reason, state, other)


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """The job that an enqueue led to."""

    id: str
    state: State
    duplicate: bool = False
    """Whether it is an older job that holds the unique key; `id` is that job's, and the new one was not stored."""


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants how many jobs from which queues."""

    queues: tuple[str, ...]
    """Names, the first served first."""

    limit: int
    worker: str
    ttl: float
    """Seconds until the lease expires, for jobs that do not say themselves."""

    nonce: int
    """The random part of the tokens of this call, never used before."""

    solo: bool = False
    """Whether the caller holds nothing else and can take any suspect."""

    isolated: tuple[str, ...] = ()
    """Tasks whose jobs the caller runs in a process of their own each: it can take a suspect of these though it holds others."""

    skip_tasks: tuple[str, ...] = ()
    """Tasks whose jobs the caller leaves to other workers; at most `BATCH` of them, no name twice."""

    at_most: float | None = None
    """Seconds after which every lease of this request expires, if its job and `ttl` say more."""

    def length(self, own: float | None) -> float:
        """Seconds that a lease lasts, for a job with this lease of its own."""
        wanted = self.ttl if own is None else own
        return wanted if self.at_most is None else min(wanted, self.at_most)

    def given(self, job: JobRecord, number: int = 0) -> Lease:
        """The lease of a job that was handed out to this request, and is still held under it."""
        return Lease(job, Token(job.fence, self.nonce), self.length(job.lease), number=number)


class Leased(msgspec.Struct, frozen=True):
    """What a request for leases got, in the order in which the jobs stood in line."""

    leases: list[Lease]
    suspect_waiting: bool = False
    """Whether a suspect waits in these queues for somebody who holds nothing else, being none of the `isolated` tasks of the
    request and none that it skips, whatever was leased. Never set for a solo request."""

    due_in: float | None = None
    """When `leases` is empty: seconds until the next scheduled job of these queues is due; None if there is none."""

    inbox: bool = False
    """Whether something lies in an inbox of these queues, paused ones too, whatever was leased: time for `take_in`."""

    passed_over: tuple[str, ...] = ()
    """When `leases` is empty: those of `skip_tasks` that have a job in line here, as far as the store has looked, in the order
    of the request."""


class Renewal(msgspec.Struct, frozen=True):
    """A holder's sign of life for one job."""

    lease: Lease
    ttl: float | None = None
    """Hold it for this many seconds from now; None leaves the expiry as it is."""

    progress: Progress | None = None


class Reaped(msgspec.Struct, frozen=True):
    """A job that was taken from a worker which is silent or gone."""

    id: str
    queue: str
    task: str
    worker: str | None
    losses: int
    failed: bool
    """Whether it failed as lost, rather than going back to the front."""


class Totals(msgspec.Struct, frozen=True):
    """What has happened since the store was made; never lowered."""

    processed: int = 0
    """Attempts that a worker ended: succeeded + retried + failed by its settle (not released, rescheduled or parked)."""

    succeeded: int = 0
    failed: int = 0
    """Jobs that became failed, for whatever reason."""

    retried: int = 0
    """Attempts that were settled to run again, errors and `Retry` alike."""

    lost: int = 0
    cancelled: int = 0
    broken: int = 0


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: how many jobs it has in each state, and what has happened in it."""

    name: str
    paused: bool = False
    waiting: int = 0
    """In line: due, and leasable unless the queue is paused."""

    scheduled: int = 0
    """Waiting for their time."""

    blocked: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    broken: int = 0
    totals: Totals = Totals()


class BusyQueues(NamedTuple):
    """The queues that have something to do, of those that a list of patterns serves."""

    queues: tuple[str, ...]
    """In the order in which they are served, the first `NAMED`. Those that the list names are among them, whether they have something
    to do or not."""

    overdue: tuple[str, ...]
    """Those in which a lease has expired or a parking is over, for `reap`."""


class Pulse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker says of itself with every beat."""

    held: int = 0
    """Jobs in its hands, those that it has leased ahead among them."""

    jobs: tuple[str, ...] = ()
    """Ids of those that it runs, the one begun first first; no more than `JOBS_SHOWN`."""

    memory: int = 0
    """Bytes of memory that its process occupies."""

    strays: int = 0
    """Threads that run on although their jobs have been given up."""

    trouble: str = ""
    """What keeps it from leasing jobs, for people to read; empty if nothing does."""

    queues: tuple[str, ...] | None = None
    """What it serves now, if that is no longer what it registered with."""

    missing_after: float = MISSING_AFTER
    """Seconds of silence after which it is missing."""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the registry knows it."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    """As it was asked to serve them: names and patterns."""

    tasks: tuple[str, ...]
    """Names of the tasks that it knows."""

    concurrency: int
    lanes: tuple[str, ...] = ()
    """Where it runs them: `loop`, `thread`, `process`."""

    held: int = 0
    """As of its last beat, like all that a `Pulse` says."""

    jobs: tuple[str, ...] = ()
    memory: int = 0
    strays: int = 0
    trouble: str = ""
    missing_after: float = MISSING_AFTER
    started_at: float = 0.0
    """Set by the store."""

    silent_for: float = 0.0
    """Seconds since its last beat; set by the store. A beat from the future, by a clock that was set back since, tells nothing: it
    counts as silence of as many seconds as it lies ahead."""

    totals: Totals = Totals()

    @property
    def missing(self) -> bool:
        """Whether it has been silent for so long that it may be gone."""
        return self.silent_for > self.missing_after

    @property
    def pulse(self) -> Pulse:
        """What it says of itself when it registers."""
        return Pulse(
            held=self.held, jobs=self.jobs, memory=self.memory, strays=self.strays, trouble=self.trouble,
            missing_after=self.missing_after,
        )  # fmt: skip

    def beating(self, pulse: Pulse) -> WorkerInfo:
        """The same worker, after this beat."""
        queues = self.queues if pulse.queues is None else pulse.queues
        return msgspec.structs.replace(
            self, held=pulse.held, jobs=pulse.jobs, memory=pulse.memory, strays=pulse.strays, trouble=pulse.trouble,
            queues=queues, missing_after=pulse.missing_after,
        )  # fmt: skip


Unchanged = Literal["unchanged"]
UNCHANGED: Final[Unchanged] = "unchanged"
"""Of a renewal: the job is held, but not for longer."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list. Without a state: all of them, by order of enqueueing, newest first.

    With a state: waiting jobs by place, and after those in line the scheduled ones by run_at; blocked ones by priority and
    seq; running ones by start; final ones by their end, the latest first.
    """

    state: State | None = None
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    limit: int = 50
    cursor: str | None = None
    """Where the page before this one ended; opaque."""


class Page(msgspec.Struct, frozen=True):
    """A part of a listing."""

    jobs: list[JobRecord]
    cursor: str | None
    """For the next page; None at the end. A page may be short of its limit and still have a cursor: a call looks at no
    more than 2,000 rows."""

    searched: int
    """How many jobs were looked at for this page."""


class RunRecord(msgspec.Struct, frozen=True):
    """What a store knows of a run."""

    id: str
    flow: str
    created_at: float
    step: JobRecord
    """The current step, or, once the run is final, the last one: its state, result and error are the run's."""

    completed_queue: str | None = None
    """The queue of the latest step that has succeeded."""


class RunSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list, the newest first."""

    flow: str | None = None
    lookup: tuple[str, str] | None = None
    """Name and value of what they can be found by; with a flow only."""

    state: State | None = None
    limit: int = 50
    cursor: str | None = None
    """Where the page before this one ended; opaque."""


class RunPage(msgspec.Struct, frozen=True):
    """A part of a listing of runs; as `Page`."""

    runs: list[RunRecord]
    cursor: str | None
    searched: int


class AnnouncementKind(StrEnum):
    CANCELLED = "cancelled"
    TAKEN = "taken"
    COMPLETED = "completed"
    DELETED = "deleted"
    DONE = "done"
    """A job that this store object waits for is final."""

    WORK = "work"
    """A worker that is registered with this store object should ask for a lease; the job id is empty."""


class Announcement(msgspec.Struct, frozen=True):
    """A hint that something has happened to a job. May be lost, may come twice: the truth is in the store."""

    kind: AnnouncementKind
    job_id: str


class Change(StrEnum):
    """What has become of a job that nobody named."""

    ENQUEUED = "enqueued"
    """It was taken in from an inbox."""

    BROKEN = "broken"
    """It was taken in, and cannot be read."""

    UNBLOCKED = "unblocked"
    """The last that it waited for has ended; it is in line, or scheduled. Not of one that comes to exist in this step."""

    FAILED = "failed"
    """One that it waited for has ended without success, perhaps before it came to exist, or nobody completed it in time."""

    EXPIRED = "expired"
    OVERDUE = "overdue"
    """Nobody has completed it in time, and it is in line to hand over to the step for that case."""


class Consequence(msgspec.Struct, frozen=True):
    """What a step did to a job that its caller did not name."""

    change: Change
    job_id: str
    task: str
    queue: str


class Layout(msgspec.Struct, frozen=True):
    """The version of the store's layout: as found (None if the store is still empty), and the newest that this Tenure knows."""

    found: int | None
    known: int


class Health(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It works, and one day it may not."""

    BAD = "bad"
    """Jobs may be lost, or do not run."""


class Fact(msgspec.Struct, frozen=True):
    """Something that people should know of a store; `tenure doctor` tells it, a worker that starts logs what is not ok."""

    name: str
    value: str
    health: Health = Health.OK
    advice: str = ""
    """What to do about it, as a sentence; there is one if it is not ok."""


def clock_fact(beats: int, leases: int) -> Fact:
    """The fact about the clock of a store with a server: this many beats and leases are from the future."""
    if not beats and not leases:
        return Fact("clock", "no beat and no lease is from the future")
    return Fact(
        "clock",
        f"{beats:,} beats of workers and {leases:,} leases are from the future: the clock of the server was set back",
        Health.WARN,
        "Let the clock be slewed, not set. Workers that serve the queue cut such leases to their length within a second; a job "
        "or a retry that was delayed while the clock was ahead waits for its time: `tenure trigger ID` starts it now.",
    )


class LeaseStatus(StrEnum):
    """What a lease is worth."""

    HELD = "held"
    """The job runs under this token."""

    SETTLED = "settled"
    """This very token has settled it, and it has not been leased since."""

    LOST = "lost"
    """Somebody else has taken, ended or revived it."""

    GONE = "gone"
    """There is no such job (any more)."""
