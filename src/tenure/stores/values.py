"""Arguments and answers of store operations, such as `Verdict`, `LeaseRequest`, `Leased` and `WorkerInfo`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from tenure.core.job import JobRecord, Progress, State
from tenure.core.lease import Lease, Token
from tenure.core.lifecycle import Finish, Transition
from tenure.errors import BlockerNotFound, JobError, MissingAttribute, UniqueConflict

__all__ = [
    "ACTIONS",
    "ACTIONS_KEPT",
    "ACTION_TEXT",
    "ALREADY_FINAL",
    "JOBS_SHOWN",
    "LEASE_LOST",
    "LOOK",
    "MISSING_AFTER",
    "NOT_FINAL",
    "NOT_FOUND",
    "NOT_RUNNING",
    "NOT_SCHEDULED",
    "OK",
    "PRIORITIES",
    "UNCHANGED",
    "Action",
    "ActionPage",
    "Announcement",
    "AnnouncementKind",
    "AttributeMissing",
    "BlockerGone",
    "BusyQueues",
    "Change",
    "Consequence",
    "EdgeInfo",
    "Enqueued",
    "Fact",
    "Health",
    "Layout",
    "LeaseRequest",
    "LeaseStatus",
    "Leased",
    "Order",
    "Page",
    "Pulse",
    "QueueInfo",
    "Reaped",
    "Refusal",
    "Renewal",
    "RunPage",
    "RunRecord",
    "RunSearch",
    "Search",
    "Settlement",
    "Totals",
    "Unchanged",
    "UniqueHeld",
    "Verdict",
    "VerdictKind",
    "WorkerInfo",
    "WrongState",
    "awaited_inside",
    "clock_fact",
    "error_of_refusal",
    "handed_over",
    "refused",
    "refused_by",
]

MISSING_AFTER = 10.0
"""Seconds of silence after which a worker is shown as missing, unless its `Pulse` says otherwise.

A missing worker keeps its jobs: only their leases decide.
"""

PRIORITIES = 16
"""Priorities of a line that `QueueInfo.oldest` looks at, at most: the first ones."""

LOOK = 2000
"""Rows that one search looks at, at most."""

JOBS_SHOWN = 20
"""Ids of running jobs that a worker sends with a beat, at most."""

Settlement = tuple[Lease, Transition]
"""A lease, and what becomes of its job."""


def awaited_inside(settlements: Sequence[Settlement]) -> Collection[str]:
    """Ids that children and successors of these settlements wait for.

    A store must not settle a job of this id, or a step of the run of this id, ahead of the other settlements of the call: the
    dependent exists before it ends, or comes when it may be removed already.
    """
    if len(settlements) < 2:
        return ()
    found: set[str] = set()
    for _, transition in settlements:
        if isinstance(transition, Finish):
            for child in transition.children:
                found.update(child.after)
            if transition.successor is not None:
                found.update(transition.successor.after)
    return found


class VerdictKind(StrEnum):
    OK = "ok"
    LEASE_LOST = "lease_lost"
    NOT_FOUND = "not_found"
    REFUSED = "refused"


class UniqueHeld(msgspec.Struct, frozen=True):
    """Another job owns the unique key that the job, or a new job of the item, needs."""

    owner: str
    """Id of the job that owns the key."""

    task: str = ""
    """Task of the new job; empty if it is the job itself whose retry was refused."""

    key: str = ""
    """The key, likewise."""

    @property
    def sentence(self) -> str:
        return (
            str(UniqueConflict(self.task, self.key, self.owner))
            if self.task
            else f"job {self.owner} owns its unique key"
        )


class BlockerGone(msgspec.Struct, frozen=True):
    """A job in `after` of the job, or of a new job of the item, does not exist."""

    blocker: str

    @property
    def sentence(self) -> str:
        return str(BlockerNotFound(self.blocker))


class AttributeMissing(msgspec.Struct, frozen=True):
    """The successor needs an attribute that its run does not have."""

    task: str
    """Name of the successor's step."""

    attribute: str

    @property
    def sentence(self) -> str:
        return str(MissingAttribute(self.task, self.attribute))


class WrongState(msgspec.Struct, frozen=True):
    """The job is in a state that does not allow the operator's call."""

    sentence: str


Refusal = UniqueHeld | BlockerGone | AttributeMissing | WrongState
"""Why an item was refused. `sentence` says it to a person."""

ALREADY_FINAL = WrongState("it is final already")
NOT_FINAL = WrongState("it is not final")
NOT_SCHEDULED = WrongState("it is not scheduled")
NOT_RUNNING = WrongState("it is not running")


def handed_over(successor: str) -> WrongState:
    """The refusal of a step that has handed over to `successor`."""
    return WrongState(f"it has handed over to job {successor}")


class Verdict(msgspec.Struct, frozen=True):
    """The answer to one item of a call."""

    kind: VerdictKind
    refusal: Refusal | None = None
    """Why the item was refused; None if it was not."""

    state: State | None = None
    """State of the job when an operator's call was refused; None otherwise."""

    @property
    def reason(self) -> str:
        """Why the item was refused, as a sentence; empty if it was not."""
        return "" if self.refusal is None else self.refusal.sentence


OK = Verdict(VerdictKind.OK)
LEASE_LOST = Verdict(VerdictKind.LEASE_LOST)
NOT_FOUND = Verdict(VerdictKind.NOT_FOUND)


def refused(refusal: Refusal, *, state: State | None = None) -> Verdict:
    """The verdict on a refused item."""
    return Verdict(VerdictKind.REFUSED, refusal, state)


def refused_by(error: UniqueConflict | BlockerNotFound | MissingAttribute) -> Verdict:
    """The verdict on an item whose new jobs cannot be enqueued because of this error."""
    match error:
        case UniqueConflict():
            return refused(UniqueHeld(error.holder, error.task, error.key))
        case BlockerNotFound():
            return refused(BlockerGone(error.blocker))
        case MissingAttribute():
            return refused(AttributeMissing(error.task, error.attribute))


def error_of_refusal(refusal: Refusal) -> JobError:
    """The error that says the same as a refusal of new jobs."""
    match refusal:
        case UniqueHeld(owner, task, key):
            return UniqueConflict(task, key, owner)
        case BlockerGone(blocker):
            return BlockerNotFound(blocker)
        case AttributeMissing(task, attribute):
            return MissingAttribute(task, attribute)
        case WrongState(sentence):
            return JobError(sentence)


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """The answer to one job of an enqueue."""

    id: str
    """Id of the stored job, or of the owner of the unique key if this is a duplicate."""

    state: State
    """State of that job; if `id` is a run's, of the run's current step."""

    duplicate: bool = False
    """Whether an older job owns the unique key, so that the new one was not stored."""


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's request for jobs."""

    queues: tuple[str, ...]
    """Queue names, no patterns; the first is served first."""

    limit: int
    """Jobs to hand out, at most."""

    worker: str
    """Id of the worker."""

    ttl: float
    """Seconds that a lease lasts, for jobs without their own `lease`."""

    nonce: int
    """Random part of the tokens of this request, never used before."""

    solo: bool = False
    """Whether the worker holds no other job, so that it can take any suspect."""

    isolated: tuple[str, ...] = ()
    """Tasks whose jobs the worker runs in a process each: it can take their suspects while it holds other jobs."""

    skip_tasks: tuple[str, ...] = ()
    """Tasks whose jobs the worker leaves to others; at most `BATCH` names, each once."""

    at_most: float | None = None
    """Seconds that a lease of this request lasts at most, whatever its job and `ttl` say; None: no limit."""

    def length(self, own: float | None) -> float:
        """Seconds that a lease lasts for a job whose own `lease` is `own`; None: the job has none."""
        wanted = self.ttl if own is None else own
        return wanted if self.at_most is None else min(wanted, self.at_most)

    def given(self, job: JobRecord, number: int = 0) -> Lease:
        """The lease of a job that was handed out to this request and is still held."""
        return Lease(job, Token(job.fence, self.nonce), self.length(job.lease), number=number)


class Leased(msgspec.Struct, frozen=True):
    """The answer to a `LeaseRequest`."""

    leases: list[Lease]
    """In the order in which the jobs were in line."""

    suspect_waiting: bool = False
    """Whether these queues have a suspect that this request may not have, whatever was leased.

    Skipped tasks do not count. Always False for a `solo` request.
    """

    due_in: float | None = None
    """Seconds until the next scheduled job of these queues is due; None if there is none or a job was leased."""

    inbox: bool = False
    """Whether an inbox of these queues has an entry, whatever was leased, so that the worker calls `take_in`.

    Paused queues count too.
    """

    passed_over: tuple[str, ...] = ()
    """Those of `skip_tasks` that have a job in line here, in the order of the request; empty if a job was leased."""


class Renewal(msgspec.Struct, frozen=True):
    """Extends one lease, and reports progress."""

    lease: Lease
    ttl: float | None = None
    """Seconds from now that the lease lasts; None leaves its end as it is."""

    progress: Progress | None = None
    """None leaves the stored progress as it is."""


class Reaped(msgspec.Struct, frozen=True):
    """A job that was taken from a worker because its lease had expired or the worker was retired."""

    id: str
    queue: str
    task: str
    worker: str | None
    """Id of the worker that held it."""

    losses: int
    """Losses of the job, this one included."""

    failed: bool
    """Whether the job failed as lost; otherwise it went back to the front."""


class Totals(msgspec.Struct, frozen=True):
    """Counts of what has happened in a queue or by a worker; they never fall."""

    processed: int = 0
    """Attempts that a worker settled as succeeded, retried or failed.

    Released, rescheduled and parked ones do not count.
    """

    succeeded: int = 0
    failed: int = 0
    """Jobs that became failed, for any reason."""

    retried: int = 0
    """Attempts that were settled to run again, after an error or by `Retry`."""

    lost: int = 0
    cancelled: int = 0
    broken: int = 0


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: its number of jobs by state, and its totals."""

    name: str
    paused: bool = False
    waiting: int = 0
    """Jobs in line: `lease` hands them out unless the queue is paused."""

    scheduled: int = 0
    """Jobs that wait for their `run_at`, and due ones that `lease` has not promoted yet."""

    blocked: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    broken: int = 0
    totals: Totals = Totals()
    oldest: float | None = None
    """Seconds since the job in line that has been due the longest became due; None if none is in line (READ-9)."""


class BusyQueues(NamedTuple):
    """The queues with something to do that a list of names and patterns serves."""

    queues: tuple[str, ...]
    """The first `NAMED` of them, in the order in which they are served.

    Queues that the list names without a pattern are always among them.
    """

    overdue: tuple[str, ...]
    """Queues in which a lease has expired or a parking is over, for `reap`."""


class Pulse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker reports about itself with each beat."""

    held: int = 0
    """Number of jobs that it holds, including those leased ahead."""

    jobs: tuple[str, ...] = ()
    """Ids of the jobs that it runs, in the order of their start; at most `JOBS_SHOWN`."""

    memory: int = 0
    """Memory of its process, in bytes."""

    strays: int = 0
    """Number of threads that still run although their jobs were abandoned."""

    trouble: str = ""
    """Why it leases no jobs, as a phrase for people; empty if it does."""

    queues: tuple[str, ...] | None = None
    """Names and patterns that it serves now; None: those that it registered with."""

    missing_after: float = MISSING_AFTER
    """Seconds of silence after which it is shown as missing."""


class Order(StrEnum):
    """What an operator wants of a worker. An order stands until the next one, or until the worker registers again."""

    GO_ON = "go_on"
    """Lease jobs, as every worker does that has no other order."""

    QUIET = "quiet"
    """Lease no more jobs, and go on with those that it holds."""

    STOP = "stop"
    """Finish the jobs that it holds, then stop."""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    """Names and patterns that it serves."""

    tasks: tuple[str, ...]
    """Names of its tasks."""

    concurrency: int
    """Jobs that it runs at a time, at most."""

    lanes: tuple[str, ...] = ()
    """Where it runs jobs: `loop`, `thread`, `process`."""

    held: int = 0
    """As of its last beat, like the next five: see `Pulse`."""

    jobs: tuple[str, ...] = ()
    memory: int = 0
    strays: int = 0
    trouble: str = ""
    missing_after: float = MISSING_AFTER
    release: str = ""
    """The release of the program, as `App(release=…)` or `TENURE_RELEASE` says; empty if neither does."""

    order: Order = Order.GO_ON
    """The order that stands; set by the store."""

    started_at: float = 0.0
    """Seconds since the epoch; set by the store when it registers."""

    silent_for: float = 0.0
    """Seconds since its last beat; set by the store.

    A beat from the future, because the clock was set back since, counts as silence of as many seconds as it lies ahead.
    """

    totals: Totals = Totals()

    @property
    def missing(self) -> bool:
        """Whether it has been silent for longer than `missing_after`, so that it may be gone."""
        return self.silent_for > self.missing_after

    @property
    def pulse(self) -> Pulse:
        """Its values as of the last beat."""
        return Pulse(
            held=self.held, jobs=self.jobs, memory=self.memory, strays=self.strays, trouble=self.trouble,
            missing_after=self.missing_after,
        )  # fmt: skip

    def beating(self, pulse: Pulse) -> WorkerInfo:
        """The same worker, with the values of a beat."""
        queues = self.queues if pulse.queues is None else pulse.queues
        return msgspec.structs.replace(
            self, held=pulse.held, jobs=pulse.jobs, memory=pulse.memory, strays=pulse.strays, trouble=pulse.trouble,
            queues=queues, missing_after=pulse.missing_after,
        )  # fmt: skip


Unchanged = Literal["unchanged"]
UNCHANGED: Final[Unchanged] = "unchanged"
"""Answer to a renewal: the lease is held but was not extended (RENEW-3)."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list: those that match all filters that are given. The order depends on `state` (READ-3).

    Without a state: newest first. With one: waiting jobs by position, then scheduled ones by `run_at`; blocked ones by
    position; running ones by start; final ones by their end, the latest first.
    """

    state: State | None = None
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    scheduled: bool | None = None
    """Of waiting jobs: only those that wait for their time (True), only those in line (False). Needs `state` waiting."""

    error: str | None = None
    """Type of the error of the job."""

    text: str | None = None
    """What the payload, the type or the message of the error contains, byte for byte in UTF-8."""

    worker: str | None = None
    """The worker that holds the job, or held it last."""

    before: float | None = None
    """Begin with the jobs that ended at this time, in seconds since the epoch, or earlier. Needs a final `state`."""

    look: int = LOOK
    """Rows that the call looks at, at most; never more than `LOOK`."""

    brief: int | None = None
    """Characters to which each job is `shortened`; None: whole."""

    limit: int = 50
    cursor: str | None = None
    """Where the page before this one ended; opaque."""


class Page(msgspec.Struct, frozen=True):
    """One page of a listing."""

    jobs: list[JobRecord]
    cursor: str | None
    """For the next page; None on the last one.

    A short page may have one too, because a call looks at no more than `Search.look` rows.
    """

    searched: int
    """Number of jobs that were looked at for this page."""


class EdgeInfo(msgspec.Struct, frozen=True):
    """A job or run that a job was told to wait for."""

    blocker: str | None
    """Its id; None if the edge was closed by an older Tenure on a store that did not remember it."""

    open: bool
    """Whether the job still waits for it, or would wait for it if it were retried."""


class RunRecord(msgspec.Struct, frozen=True):
    """A run as it is stored."""

    id: str
    flow: str
    created_at: float
    step: JobRecord
    """The current step, which is the last one once the run is final. Its state, result and error are the run's."""

    completed_queue: str | None = None
    """Queue of the latest step that has succeeded; None if none has."""


class RunSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list, the newest first."""

    flow: str | None = None
    lookup: tuple[str, str] | None = None
    """Name and value (JSON) of a lookup; needs `flow`."""

    state: State | None = None
    limit: int = 50
    cursor: str | None = None
    """Where the page before this one ended; opaque."""


class RunPage(msgspec.Struct, frozen=True):
    """One page of a listing of runs; as `Page`."""

    runs: list[RunRecord]
    cursor: str | None
    searched: int


ACTIONS = 10_000
"""Actions that the audit keeps, the latest ones."""

ACTIONS_KEPT = 90 * 86400.0
"""Seconds that the audit keeps an action."""

ACTION_TEXT = 500
"""Characters of each text of an action, at most."""


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an operator has done, as the audit keeps it. Its texts have up to `ACTION_TEXT` characters."""

    who: str
    """Name of the operator, such as `ann@db1`."""

    by: str
    """What it was done with: `cli`, `top`, `dashboard` or `api`."""

    what: str
    """The action, as the command line calls it: `retry`."""

    target: str = ""
    """What it was done to: ids, names, or a filter such as `state=failed queue=mail`."""

    count: int | None = None
    """How many jobs, queues or workers it changed; None: not known, because it only begins."""

    at: float = 0.0
    """Seconds since the epoch; set by the store."""


class ActionPage(msgspec.Struct, frozen=True):
    """One page of the audit."""

    actions: list[Action]
    cursor: str | None
    """For the next page; None on the last one."""


class AnnouncementKind(StrEnum):
    CANCELLED = "cancelled"
    TAKEN = "taken"
    COMPLETED = "completed"
    DELETED = "deleted"
    DONE = "done"
    """A job that this store object waits for is final."""

    WORK = "work"
    """A worker that is registered with this store object should ask for leases; the job id is empty."""


class Announcement(msgspec.Struct, frozen=True):
    """A hint that something has happened to a job. It may be lost and may come twice (WAIT-3)."""

    kind: AnnouncementKind
    job_id: str


class Change(StrEnum):
    """What an operation did to a job that its caller did not name."""

    ENQUEUED = "enqueued"
    """Taken in from an inbox."""

    BROKEN = "broken"
    """Taken in from an inbox, but the entry cannot be read."""

    UNBLOCKED = "unblocked"
    """Its last open edge has closed: it is in line, or scheduled. Not for jobs that the same operation creates."""

    FAILED = "failed"
    """A blocker has ended without success, perhaps before this job was created, or its parking timed out."""

    EXPIRED = "expired"
    """Not started in time, and cancelled."""

    OVERDUE = "overdue"
    """Its parking timed out, and it is in line to hand over to its `on_timeout` step."""


class Consequence(msgspec.Struct, frozen=True):
    """One change of a job that the caller of an operation did not name."""

    change: Change
    job_id: str
    task: str
    queue: str


class Layout(msgspec.Struct, frozen=True):
    """The version of the layout: `found` in the store (None: it is empty), and the newest `known` to this Tenure."""

    found: int | None
    known: int


class Health(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It works, but may fail one day."""

    BAD = "bad"
    """Jobs may be lost, or do not run."""


class Fact(msgspec.Struct, frozen=True):
    """A finding of `examine`. `tenure doctor` shows all of them; a worker logs those that are not ok when it starts."""

    name: str
    value: str
    health: Health = Health.OK
    advice: str = ""
    """What to do about it, in sentences; not empty if `health` is not ok."""


def clock_fact(beats: int, leases: int) -> Fact:
    """The finding about the clock of a store with a server, from its number of beats and leases in the future."""
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
    """Whether a lease still holds its job (TRANSACTION-6)."""

    HELD = "held"
    """The job runs under this token."""

    SETTLED = "settled"
    """This token has settled the job, which has not been leased since."""

    LOST = "lost"
    """The job was taken from its holder, ended by another caller, or retried."""

    GONE = "gone"
    """The job does not exist any more."""
