"""The store contract: what every store promises, in prose and in types.

A store keeps jobs and hands them out on leases. It is asynchronous and batch-first: a call takes many items, is **one
atomic step** and usually one round trip. What a caller has been told has happened; what was refused has changed nothing.

**Time.** The store's clock alone decides when a job is due, a lease has expired, a record is old. Callers send durations;
the one instant they may send is a user's `run_at`. A time that has been reached is over. A clock may be set back: no lease ends later
than its length from now (`reap` shortens one that says so, for its holder may be alive), and a beat from the future is no sign of life.

**Place.** Jobs of a queue stand in line by (priority, seq), lowest first. The store draws `seq` from one counter whenever a
job joins *at the back*: enqueue, take-in, coming due, retry, reschedule, unblock, operator retry, trigger. Release, by a holder or
by an operator, and reap keep the seq, which is what puts a job back at the *front*, in its original order. A job that is not yet due is not in line:
`lease` first promotes the due jobs of its queues (up to 1,000 each, by run_at and then by old seq), drawing a new seq for
each; until then a job that is scheduled, by its producer or by a requeue, keeps the seq that it had.

**Inbox.** Each queue has one: where programs that do not speak this contract put entries, by the plainest means that the
store offers (a push onto a list, an INSERT into a table). `tenure.core.inbox` says what an entry is and which job it makes; all
stores read it by that. An entry is no job yet: nothing lists or counts it, `lease` only says that something lies there, and
whoever hears so calls `take_in`, which is an enqueue in the name of the other program: its durations count from then, a
paused queue takes in as it takes jobs, and equal entries are distinct jobs unless they give an id or a unique key. What
cannot be read becomes a *broken* job of the queue: the entry's bytes as its raw payload, and what is wrong with it as its
error.

**Expiry.** A job that has not started (attempt 0) `expires` seconds after its enqueue is cancelled: `lease` begins with that,
for those of its queues that are waiting or blocked (up to 1,000 each, the first to expire first), and never hands one out.
Parking and an operator's retry drop the expiry.

**Suspects.** From its second loss a job is handed out only alone: to a request that says `solo` or names its task as `isolated`,
with no other lease in the same answer, and before every job that is no suspect in any of the queues asked for: workers that
hold nothing are rare, and a trickle of jobs in a queue before its own would keep it waiting for ever. Of several suspects
that a request may have, the first queue's first goes first; those of isolated tasks need be looked for among the first
`SUSPECTS` of each queue only. A request passes over the suspects that it may not have, and is told that one waits. The lease
is `solo` either way, though an isolated job has neighbours in its worker: one that takes its worker with it must fail some day.

**Skipped tasks.** A request passes over the jobs of its `skip_tasks`, suspects among them: they keep their places, and are told to no
one but in `passed_over`. Such a request looks at the first `LOOK_AHEAD` jobs of each line and at the first `SUSPECTS` suspects of each
queue, and hands out nothing that stands behind them.

**Tokens.** A holder's write (settle, renew) carries the token of its lease. Any other token than the current one changes
nothing. The guard never compares times: a lease that has expired may still be renewed and settled until it is reaped.
A job remembers the token that settled it until it is leased again, so that the same settle again is answered `OK`. Cancel,
completion from outside, reap, retirement, an operator's release, retry and delete end the token.

**Final.** Whatever makes a job final (settle, cancel, expiry, completion from outside, a loss, a failed blocker) frees its
unique key, closes the edges of jobs that wait for it, tells whoever waits for its result and moves the counters, all in
the same step. `keep=0` removes the record in that step too, unless somebody waits for the result: then it is kept for at
least 60 seconds. Neither `keep` nor retention removes a record that a blocked job waits for or whose unique window runs.

**Edges.** `after` makes a job blocked by others, which are stored or stand before it in the same call. Each edge closes once,
when its blocker succeeds: the result is copied to the edge, the dependent owns it. A blocker that ends otherwise acts by the
dependent's `if_blocker_fails` (`proceed` closes the edge with `lifecycle.failure_value`, `fail` leaves it open, for the blocker
may succeed after a retry); a blocker that is deleted or purged counts as failed, also for `wait`, for it can never succeed.
When the last open edge closes, the dependent joins the line at the back (or stays scheduled until its run_at). Dependents of
one blocker follow in the order of their seq, level by level, each by the first of its `after` that it concerns; children of the same
settle come after them.

**Runs.** A run of a flow is a chain of jobs, its *steps*. The first one's id is the run's; each other comes to exist in the very
settle (or completion from outside) by which the one before succeeds: that one's `successor`. The step without a successor is
the *current* one, and the run is in the state that it is in. The run has attributes (JSON by name) and lookups, which a success
writes in the same step; a lease hands out those attributes that its step `reads`, and no others. A successor that `needs` an
attribute which the run has not, nor is written with it, refuses the settle.

A run's id means the run. Who waits for it (edges, waiters, a unique key) has to do with the first step only as long as
that is the current one: when it hands over they stay, and when the run's last step becomes final without a successor, they
learn how that has ended, as if it had been the one they wait for. `wait` answers for it with the record of that step. `cancel`,
`retry`, `trigger` and `release` act on the current step; a step that has handed over is nobody's to retry, unless by the id of
the run. `complete` alone means the very step that it names, the first one by the run's id: what it brings is made for that step,
and must not end the next one if that has come meanwhile. Retrying the last step reopens the run, and takes the unique key of the first again. A run goes as a whole: to delete one
of its steps, to purge it or to drop it because of its `keep` or of retention is to do so to all of them, attributes and
lookups included. Only its last step is looked at for that: one that has handed over is neither kept nor counted by retention.

**Parking.** A parked job is blocked until completed. Once its time is over `reap` fails it, or, if it was parked with
`on_timeout`, puts it in line at the back; from then until it ends its record says `on_timeout`, and whoever leases it hands over to
that step.

**Unique keys.** Scope is (task, key). Held until the job is final, or for `window` seconds from the enqueue, whatever comes
first of the window's end and cancel or delete.

**Counters.** Counts of jobs by state and totals of what has happened, per queue and per worker, change in the same step
as the jobs do, equal a recount at any time, and totals survive retention. A worker's totals are what its settles and its
losses did. A due job that `lease` has not promoted yet counts as scheduled.

**Forgotten queues.** A queue is empty if no job of it is stored in any state, its inbox is empty and it is not paused. `prune` notes
when it first finds a queue empty, and with which totals. If a `prune` at least `QUIET` seconds later finds the queue empty with the same
totals, the queue goes, and its totals with it. The next job, inbox entry or pause makes the queue anew. A worker can name a queue that does not exist.

**History.** An attempt that ends otherwise than by success leaves an entry in its job's `attempts`, in the step that ends it: by a
settle that retries, fails or breaks the job, by a loss, by a cancel or a completion from outside while it runs. So does one that is
settled as succeeded with `output`. An attempt that is given back leaves none. An operator's retry of a job that was settled as
succeeded enters that attempt, unless it has left an entry. What an attempt wrote, be it by its error or by its success, is the
`output` of its entry. The latest `HISTORY` entries are kept, and come with `get`.

**Consequences.** A step may change jobs that its caller did not name: the end of one unblocks another or fails it, a lease cancels
those that have expired, `reap` ends the parking of others, `take_in` makes jobs. Who has set `on_consequences` is told of each.

**Notes.** Whoever does something may `publish` notes about it, and whoever `watch`es hears them, in whatever process: short texts
of which the store knows nothing more. They are hints, kept nowhere.

**Failure.** Driver exceptions never leave a store: `StoreUnavailable` does (surely not done), `OutcomeUnknown` (perhaps
done) or `StoreFull`. A condition of the store that no item of a call is to blame for, such as a right that was revoked, a changed
password or a missing table, is `StoreUnavailable` too. Any other `StoreError` may be about an item: its caller finds out by asking
for others. Steps over many jobs are bounded by their `limit` and safe to repeat; the caller loops.

A store object belongs to one event loop. `tenure.testing.conformance` is this contract as a test suite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from tenure.core.inbox import ENTRY_LIMIT, NO_RAW
from tenure.core.job import JobRecord, NewJob
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish
from tenure.core.options import Retention
from tenure.core.patterns import expand, serves
from tenure.errors import StoreError
from tenure.stores.callers import CallerConnection, Work
from tenure.stores.values import (
    Announcement,
    BusyQueues,
    Consequence,
    Enqueued,
    Fact,
    Layout,
    Leased,
    LeaseRequest,
    LeaseStatus,
    Page,
    Pulse,
    QueueInfo,
    Reaped,
    Renewal,
    RunPage,
    RunRecord,
    RunSearch,
    Search,
    Settlement,
    Unchanged,
    Verdict,
    WorkerInfo,
)

__all__ = [
    "AHEAD",
    "BATCH",
    "LOOK_AHEAD",
    "MESSAGE_BYTES",
    "NAMED",
    "QUIET",
    "SUSPECTS",
    "OwnTransaction",
    "Store",
    "busy_queues_of",
]

BATCH = 1000
"""Jobs that one step of a bulk operation handles at most."""

SUSPECTS = 100
"""Suspects of a queue that a lease looks at, at most, for one of an isolated task."""

LOOK_AHEAD = 1000
"""Jobs of a line that a lease with `skip_tasks` looks at, at most."""

MESSAGE_BYTES = 2_000
"""Bytes of UTF-8 that a note may have."""

QUIET = 7 * 86400.0
"""Seconds for which a queue must have been empty, with nothing counted in it, before `prune` forgets it."""

AHEAD = 1.0
"""Seconds before its time that `busy_queues` names a queue, so that its workers lease from it when that comes, and not a look later."""

NAMED = 500
"""Queues that `busy_queues` names at most."""


def busy_queues_of(patterns: Sequence[str], busy: Iterable[str], overdue: Iterable[str]) -> BusyQueues:
    """What `busy_queues` answers, from the queues that have something to do, whichever list serves them."""
    return BusyQueues(expand(patterns, busy)[:NAMED], tuple(queue for queue in overdue if serves(patterns, queue)))


class OwnTransaction(ABC):
    """A transaction on the store's own database, open on a connection that nobody else uses: for a job's own writes.

    What it raises is of the contract if it is about the connection (`StoreUnavailable`, and `OutcomeUnknown` only of `commit`);
    what the database says to a statement of the user's comes as its driver raises it. One that is neither committed nor
    rolled back holds a connection for ever, and on SQLite everybody up.
    """

    connection: Any
    """The driver's connection, for what the methods below do not offer."""

    caller: CallerConnection
    """For errands of the store, which become part of it."""

    @abstractmethod
    async def execute(self, statement: str, *values: object) -> int:
        """Run a statement; how many rows it changed."""

    @abstractmethod
    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """Run a statement; its rows."""

    def enter(self) -> None:  # noqa: B027
        """Note that the code of this context, in a thread perhaps, is inside of it; whoever awaits `begin` is."""

    @abstractmethod
    async def commit(self) -> None:
        """Make it so. Afterwards, whatever came of it, the connection is given back."""

    @abstractmethod
    async def rollback(self) -> None:
        """Take everything back, and give the connection back. Raises nothing."""


class Store(ABC):
    """Where jobs live. See the module for what holds for every method."""

    on_consequences: Callable[[Sequence[Consequence]], None] | None = None
    """Called on the store's event loop after a step, with what it did to jobs that its caller did not name.

    None: nobody wants to know. A hint: nobody is told of what a transaction of the caller's brought about, or of a step whose
    answer was lost.
    """

    @abstractmethod
    async def open(self) -> None:
        """Connect, and bring the layout up to date; every other call does so by itself on first use.

        `LayoutTooNew` if a newer Tenure has been here, `StoreUnavailable` if nobody answers.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections and threads. Calls still under way end first; later ones raise `StoreUnavailable`."""

    async def reset(self) -> None:
        """Remove everything: jobs, queues, workers. For tests, so only a store in memory can."""
        raise StoreError("reset() empties a store in memory, and this one is not: use memory:// in tests")

    @abstractmethod
    async def layout(self) -> Layout:
        """Say which version the layout has, changing nothing."""

    async def migrate(self) -> None:
        """As `open`, also where programs that use the store must not change its layout."""
        await self.open()

    async def migration(self) -> str | None:
        """The SQL that `migrate` would run, changing nothing; empty if there is none left, None from a store without SQL to show."""
        return None

    @abstractmethod
    async def examine(self) -> list[Fact]:
        """Examine the store: what is behind it, what a crash may cost, how much room is left, how long a round trip takes."""

    async def mend(self, *, dry_run: bool = False) -> int | None:  # noqa: ARG002
        """Find what operations have left half done, and mend it unless `dry_run`; how many jobs and entries of indexes that were.

        None from a store whose operations are transactions: nothing of them can be left. Others go over all jobs, up to about 1,000
        at a time, each time in one atomic operation, and beside whatever else is done.
        """
        return None

    # What producers do.

    @abstractmethod
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store all of these jobs, durably, or none of them; one answer each, in order.

        Idempotent by id: a job that exists already is left as it is and answered. A job whose unique key is held (by a
        stored job, or by one before it in this very call) is not stored; the answer names the holder, or the whole call
        raises `UniqueConflict` if the job says `unique_raises`. Unknown blockers raise `BlockerNotFound`; a blocker that
        turned out a duplicate earlier in this call stands for its holder. Wakes idle workers, as many as there are new jobs that
        are not blocked: one that is scheduled may be due before they meant to look again.
        """

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:  # noqa: ARG002
        """As `enqueue`, on a thread without an event loop, and done before it returns; may be called on any thread, by a signal
        handler too that has interrupted another call of it.

        None, having done nothing, from a store that has no way of its own to do so: then its `enqueue` is run elsewhere.
        """
        return None

    # Transactions; on stores that are databases of the user's too.

    transactional: ClassVar[bool] = False
    """Whether the methods below can be called."""

    def enqueueing(self, jobs: Sequence[NewJob]) -> Work[list[Enqueued]]:
        """What enqueues these jobs in a caller's transaction: they come to exist, and wake idle workers, when it commits.

        As `enqueue` otherwise; what it refuses leaves the transaction usable. The store must be open.
        """
        raise NotImplementedError

    def settling(self, settlement: Settlement) -> Work[Verdict]:
        """What settles a lease in a caller's transaction: until that has ended, nobody else can take the job, and renewals pass it over.

        As `settle` otherwise, but `LEASE_LOST` for a lease that was settled before: only one transaction may have been the job's.
        """
        raise NotImplementedError

    one_writer: ClassVar[bool] = False
    """Whether a transaction that writes keeps everybody else from writing, renewals too, until it has ended."""

    async def begin(self, *, writes: bool = True, timeout: float | None = None) -> OwnTransaction:
        """Open a transaction of its own, on a connection that no other method waits for; for reading alone unless it `writes`.

        Where there is `one_writer`, one that writes and has not ended after `timeout` seconds is taken back, and whatever is asked
        of it then raises `TimeoutError`.
        """
        raise NotImplementedError

    async def lease_status(self, lease: Lease) -> LeaseStatus:
        """What this lease is worth, once no transaction is under way that may change it."""
        raise NotImplementedError

    # What workers do.

    @abstractmethod
    async def lease(self, request: LeaseRequest) -> Leased:
        """Hand out up to `limit` due jobs, each under a token nobody has held before; attempt and fence are already counted.

        Promotes due jobs first, cancels those that have expired, passes paused queues over.
        """

    @abstractmethod
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Apply each step and give up its lease, both or neither; one verdict each, in order. Items are independent.

        `LEASE_LOST`, changing nothing, if the job is not held under this token any more: whoever holds the newer one
        decides, however late this caller arrives. `NOT_FOUND` if there is no such job. `REFUSED` if its children or its
        successor cannot be enqueued; `other` names the job that stands in the way, and is None if an attribute is missing. The winning settle repeated is `OK` (`NOT_FOUND` if `keep=0` has removed the record).

        A requeue that gives the attempt back is no retry in the totals. `missed` counts one miss more; a requeue to the
        front leaves the misses as they are, any other and parking set them to 0. An error stays until a success.
        """

    @abstractmethod
    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        """Settle, then lease, in one step and one round trip."""

    @abstractmethod
    async def leases_of(self, request: LeaseRequest) -> list[Lease]:
        """What this request was given and nobody has settled or taken since: for a caller who has lost the answer, to give back.

        The jobs are as `get` shows them, less their attempts, and the leases are not said to be `solo`: enough to settle them, not to
        run them. Looks at every job that runs.
        """

    @abstractmethod
    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[AbortReason | Unchanged | None]:
        """Hold each job for longer and note its progress; None each, or why its holder must let it go.

        The reason is what the job is now: cancelled, otherwise final (`COMPLETED`), gone, or in line or in other hands (`TAKEN`).
        `UNCHANGED`: it is held until when it was, for somebody's transaction had it locked; to be asked again.
        Progress belongs to the lease and ends with it.
        """

    @abstractmethod
    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        """Take up to `limit` jobs of these queues from holders whose lease has expired: to the front, or failed as lost.

        Those of the first queue first, the longest expired first. The loss becomes the job's error: `lifecycle.lost`. If that was
        not `limit` jobs, then ends the parking of jobs whose time is over (as many, and not part of the answer). Wakes as many idle
        workers as jobs went back.
        """

    async def busy_queues(self, patterns: Sequence[str]) -> BusyQueues:
        """Name the queues with something to do that these names and patterns serve. Workers with patterns call it once a second.

        Something to do is a job in line, a job that is due or expires within about a second, a lease or a parking that ends as
        soon, an entry in the inbox; a paused queue has only the last three. A queue may be named that has nothing to do any more.
        However many queues exist, it costs no more than those that have something to do.
        """
        queues = await self.queues()
        busy = [each.name for each in queues if each.waiting + each.scheduled + each.blocked + each.running]
        return busy_queues_of(patterns, busy, [each.name for each in queues if each.running + each.blocked])

    @abstractmethod
    async def wait_for_work(
        self, patterns: Sequence[str], timeout: float, *, skip_tasks: tuple[str, ...] = ()
    ) -> str | None:
        """Return when a job may have come in line in a queue that these names and patterns serve, or after `timeout` seconds.

        The answer is the name of that queue, if the store knows it. A hint: it may return early, and may miss work, by no more
        than `timeout`. One new job wakes one waiting caller; so does a newly scheduled one, for it may be due before the caller
        meant to look again. Jobs of `skip_tasks` that were in line before the call do not end it: a caller that leaves them to
        others would ask for a lease in vain, over and over.
        """

    async def nudge(self, workers: Sequence[str]) -> None:  # noqa: B027
        """Signal `WORK` to each of these registered workers. A hint: a store without a way to do so does nothing."""

    @abstractmethod
    async def take_in(
        self,
        queues: Sequence[str],
        limit: int = BATCH,
        *,
        entry_limit: int = ENTRY_LIMIT,
        raw: Mapping[str, NewJob] = NO_RAW,
    ) -> int:
        """Turn up to `limit` entries in the inboxes of these queues into jobs, at the back; how many entries went.

        Those of the first queue first, the longest there first. An entry goes in the step that makes its job: nothing is
        lost if the caller dies, and nothing made twice if two call at once. One that names an id that exists, or a unique
        key that is held, just goes. Entries of more than `entry_limit` bytes are broken. Wakes idle workers as `enqueue` does.
        `raw` has the queues whose inboxes are raw, each with a job like those that its entries become: see `inbox.read`.
        """

    # The registry of workers.

    @abstractmethod
    async def register(self, worker: WorkerInfo) -> None:
        """Enter a worker, which counts as its first beat; one that registers again starts anew."""

    @abstractmethod
    async def beat(self, worker_id: str, pulse: Pulse) -> bool:
        """Note that a worker lives, and what it says of itself; False if the registry does not know it (it has been retired)."""

    @abstractmethod
    async def leave(self, worker_id: str) -> None:
        """Remove a worker that has stopped. What it still holds stays leased until reaped."""

    @abstractmethod
    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        """Remove a worker that is known to be dead and take up to `limit` of its jobs, as `reap` does; [] when none is left.

        The reason, such as "killed by SIGKILL", becomes part of the error of each job: `lifecycle.lost`.
        """

    @abstractmethod
    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        """Remove each of these workers that has been silent for so many seconds and holds no job; which went, in this order.

        It takes nothing: one that comes back is told that it is not known, and enters anew.
        """

    @abstractmethod
    async def claim_chore(self, chore: str, interval: float) -> bool:
        """Whether a chore is the caller's to do, which one of all who ask does every `interval` seconds: the first to ask."""

    @abstractmethod
    async def workers(self) -> list[WorkerInfo]:
        """List the registry, by start."""

    # What operators do. Each takes at most STEP ids.

    @abstractmethod
    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        """End each job as cancelled, in whatever state it is; `REFUSED` if it is final. A holder is told and loses its token."""

    @abstractmethod
    async def complete(self, job_id: str, step: Finish) -> Verdict:
        """End a job as succeeded, in whatever state it is, with all that this success brings; a holder is told and loses its token.

        `REFUSED` if it is final, as a step that has handed over is, or as `settle`.
        """

    @abstractmethod
    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        """Put each final job at the back again, attempt and losses 0, the fence going on; blocked if an edge of it is open.

        `REFUSED` if it is not final, if it has handed over, if its unique key is held by another, or if the blocker of an open
        edge is gone (`other`).
        The key is taken again, unless its window is over. The result is forgotten, the last error is not.
        """

    @abstractmethod
    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        """Put each scheduled job at the back of the line now; `REFUSED` if it is not scheduled."""

    @abstractmethod
    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        """Take each running job from its holder and put it back in its place, at the front; `REFUSED` if it is not running.

        The attempt is given back: it counts neither as a loss nor in the totals, and leaves no entry in the history. The holder
        loses its token and gets the signal `TAKEN`. Wakes as many idle workers as jobs went back.
        """

    @abstractmethod
    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        """Remove these jobs, all or none; the ids of those that went, in this order. A holder is told `not_found`.

        With a step goes its run, the other steps after it in the answer. `HasDependents` if a blocked job outside the list waits
        for one of them, unless `cascade`: then those go too, and theirs, and come after them.
        """

    @abstractmethod
    async def pause(self, queue: str) -> bool:
        """Hand out no more jobs of this queue, which need not exist yet; False if it was paused already."""

    @abstractmethod
    async def resume(self, queue: str) -> bool:
        """Hand out jobs of this queue again, waking workers; False if it was not paused."""

    @abstractmethod
    async def purge(self, queue: str, limit: int = BATCH) -> int:
        """Delete up to `limit` jobs of this queue that are not held (waiting, scheduled, blocked); how many went.

        Blocked ones first, the newest first, so that dependents go before what they wait for.
        """

    @abstractmethod
    async def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int = BATCH) -> int:
        """Delete up to `limit` finished jobs that retention does not keep; how many went.

        `queues` holds what differs from `default`. A job with a `keep` of its own is kept just that long, and neither counts
        for the number kept nor falls to it. Also drops unique keys past their window, and forgets queues that have been empty for
        `QUIET` seconds; neither is part of the answer. A call looks at some thousands of queues, and goes on where the one before it
        on this object has ended.
        """

    # What everybody reads.

    @abstractmethod
    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        """Read jobs whole, in order; None for each that does not exist."""

    @abstractmethod
    async def ids(self, prefix: str, limit: int) -> list[str]:
        """Ids of up to `limit` jobs that begin with `prefix`, in no particular order. `prefix` consists of what names may have in them.

        It never holds up other calls, however many jobs there are: an index answers, or it looks at some thousands at a time.
        """

    @abstractmethod
    async def search(self, search: Search) -> Page:
        """List jobs, a page at a time, looking at no more than 2,000 rows."""

    @abstractmethod
    async def run(self, run_id: str) -> RunRecord | None:
        """Read a run; None if no run has this id."""

    @abstractmethod
    async def runs(self, search: RunSearch) -> RunPage:
        """List runs, a page at a time, looking at no more than 2,000."""

    @abstractmethod
    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        """List the steps of a run as they came, a page at a time."""

    @abstractmethod
    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        """Read attributes of a run, as JSON by name: these, as far as it has them, or all; {} if there is no such run."""

    @abstractmethod
    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        """Ids of what a blocked job still waits for, in the order of `after`, no more than `limit`; [] if that is only its completion."""

    @abstractmethod
    async def queues(self) -> list[QueueInfo]:
        """List every queue that has had a job or was paused, unless it is forgotten, by name; where the store can tell, those with an inbox too."""

    @abstractmethod
    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        """Give the records of those that are final (None if there is no such job); be told of the others by `signals`.

        One atomic step: a job that becomes final after this call is announced.
        """

    @property
    def announcement_epoch(self) -> int:
        """0 while signals do not come through; else a number, which is another after every time in which they did not."""
        return 1

    @abstractmethod
    def announcements(self) -> AsyncIterator[Announcement]:
        """Hear of what happens to jobs that this store object waits for, or that workers registered with it hold.

        Ends when the store is closed. One listener at a time.
        """

    # Telling others.

    @abstractmethod
    async def watched(self) -> bool:
        """Whether anybody may be watching; one that has died without leaving counts for no more than a minute."""

    @abstractmethod
    async def publish(self, notes: Sequence[str]) -> None:
        """Let those who watch now hear these notes, in this order, each no longer than `MESSAGE_BYTES`."""

    @abstractmethod
    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Hear, inside the block, of every note that is published by anybody from its beginning on.

        The notes end when the store is closed. While its connection is away they are missed.
        """
