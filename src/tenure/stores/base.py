"""`Store`, the abstract class of all stores: its methods, the limits of its operations, and a job's own transaction.

The rules that every store follows are numbered in docs/store-contract.md, each with the conformance tests that show it.
Docstrings here say what a method makes atomic, refuses and returns, and refer to those rules by number. In short:

- A call is one atomic operation over many items, and usually one round trip (CALL-1, CALL-2).
- The store's clock alone decides what is due, expired or old; callers send durations in seconds (TIME-1).
- Jobs of a queue are in line by (priority, seq). Released and reaped jobs go to the front (POSITION-1 to 3).
- A holder's write carries the token of its lease; any token but the current one changes nothing (TOKEN-2).
- The operation that ends a job also frees its unique key, closes edges, announces the end and counts it (FINAL-1).
- Driver exceptions never leave a store: `StoreUnavailable`, `OutcomeUnknown` and `StoreFull` do (FAILURE-1).

`tenure.testing.conformance` is the contract as a test suite. A store object belongs to one event loop (CALL-9).
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
from tenure.core.measures import HistoryRow, HistorySearch, HistoryWrite, Mark
from tenure.core.options import Retention
from tenure.core.patterns import expand, serves
from tenure.core.schedule import Firing, SchedulePage, SchedulePut, ScheduleSearch, TickRecord
from tenure.errors import StoreError
from tenure.stores.callers import CallerConnection, Work
from tenure.stores.values import (
    Action,
    ActionPage,
    Announcement,
    BusyQueues,
    Consequence,
    EdgeInfo,
    Enqueued,
    Fact,
    Layout,
    Leased,
    LeaseRequest,
    LeaseStatus,
    Order,
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
"""Jobs that one call of a bulk operation handles at most."""

SUSPECTS = 100
"""Suspects of each queue that a lease looks at, at most, to find one of an isolated task."""

LOOK_AHEAD = 1000
"""Jobs of each line that a lease with `skip_tasks` looks at, at most."""

MESSAGE_BYTES = 2_000
"""Bytes of UTF-8 that an event message may have, at most."""

QUIET = 7 * 86400.0
"""Seconds that a queue must have been empty, with unchanged totals, before `prune` forgets it."""

AHEAD = 1.0
"""Seconds ahead of its time that `busy_queues` names a queue, so that its workers lease on time, not one look later."""

NAMED = 500
"""Queues that `busy_queues` names, at most."""


def busy_queues_of(patterns: Sequence[str], busy: Iterable[str], overdue: Iterable[str]) -> BusyQueues:
    """The answer of `busy_queues`: of the queues that are `busy` and `overdue`, those that `patterns` serve."""
    return BusyQueues(expand(patterns, busy)[:NAMED], tuple(queue for queue in overdue if serves(patterns, queue)))


class OwnTransaction(ABC):
    """An open transaction on the store's own database, for the writes of a job. No other call uses its connection.

    Errors of the connection are `StoreUnavailable`, and `OutcomeUnknown` from `commit` only. Errors that the database
    raises for a user's statement pass through as the driver raises them. A transaction that is neither committed nor
    rolled back holds its connection for ever; on SQLite it also blocks all writers.
    """

    connection: Any
    """The driver's connection, for uses that the methods below do not cover."""

    caller: CallerConnection
    """Runs work of the store, such as `enqueueing` and `settling`, as part of this transaction."""

    @abstractmethod
    async def execute(self, statement: str, *values: object) -> int:
        """Run a statement and return the number of rows that it changed."""

    @abstractmethod
    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """Run a statement and return its rows."""

    def enter(self) -> None:  # noqa: B027
        """Mark the current context as inside this transaction, as that of the task that awaits `begin` is."""

    @abstractmethod
    async def commit(self) -> None:
        """Commit, and give the connection back whether the commit succeeded or not."""

    @abstractmethod
    async def rollback(self) -> None:
        """Roll back, and give the connection back. Raises nothing."""


class Store(ABC):
    """Where jobs are stored. docs/store-contract.md has the rules that hold for all methods."""

    on_consequences: Callable[[Sequence[Consequence]], None] | None = None
    """Called after an operation with what it did to jobs that its caller did not name (CONSEQUENCE-1).

    Called on the event loop of the store; None (the default): not called. It is a hint: operations in a caller's
    transaction, and those whose answer was lost, do not call it.
    """

    @abstractmethod
    async def open(self) -> None:
        """Connect, and bring the layout up to date. The first call of any other method does the same.

        Raises `LayoutTooNew` if a newer Tenure has changed the layout, `StoreUnavailable` if the store does not answer.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close connections and threads once the calls under way have ended; later calls raise `StoreUnavailable`."""

    async def reset(self) -> None:
        """Remove all jobs, queues and workers. For tests: only the memory store can do it."""
        raise StoreError("reset() empties a store in memory, and this one is not: use memory:// in tests")

    @abstractmethod
    async def layout(self) -> Layout:
        """Read the version of the layout, changing nothing."""

    async def migrate(self) -> None:
        """As `open`, but bring the layout up to date even where the URL forbids programs to do so."""
        await self.open()

    async def migration(self) -> str | None:
        """The SQL that `migrate` would run: empty if the layout is up to date, None from a store without SQL."""
        return None

    @abstractmethod
    async def examine(self) -> list[Fact]:
        """Examine the store: server and version, durability, free space, duration of a round trip."""

    async def mend(self, *, dry_run: bool = False) -> int | None:  # noqa: ARG002
        """Find and repair what interrupted operations have left half done; with `dry_run` only find it.

        Returns the number of jobs and index entries found, or None from a store whose operations are transactions,
        because those leave nothing half done. Other stores scan all jobs in batches of about 1,000, each batch one
        atomic operation, while other calls go on.
        """
        return None

    # Producers.

    @abstractmethod
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store all of these jobs, durably, or none of them. Returns one answer each, in order (ENQUEUE-1).

        Idempotent by id: a job that exists is left as it is, and is the answer (ENQUEUE-2). A job whose unique key has
        an owner is not stored: the answer names the owner, or the whole call raises `UniqueConflict` if the job has
        `unique_raises` (UNIQUE-2). An unknown blocker raises `BlockerNotFound` (EDGE-1). Wakes one idle worker for each
        new job that is not blocked (WAIT-5).
        """

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:  # noqa: ARG002
        """As `enqueue`, but blocking, on a thread without an event loop (ENQUEUE-4).

        Any thread may call it, even a signal handler that has interrupted another call of it.
        Returns None, having done nothing, if the store cannot: the caller then runs `enqueue` on another thread.
        """
        return None

    # Transactions, on stores that can be the user's database too.

    transactional: ClassVar[bool] = False
    """Whether the store has `enqueueing`, `settling`, `getting`, `begin` and `lease_status` (TRANSACTION-1 to 8)."""

    def enqueueing(self, jobs: Sequence[NewJob]) -> Work[list[Enqueued]]:
        """The work that enqueues these jobs in a caller's transaction (TRANSACTION-1).

        Otherwise as `enqueue`. A refusal leaves the transaction usable (TRANSACTION-2). The store must be open.
        """
        raise NotImplementedError

    def settling(self, settlement: Settlement) -> Work[Verdict]:
        """The work that settles a lease in a caller's transaction (TRANSACTION-3).

        Until the transaction ends, no other call can take the job (TRANSACTION-4). Otherwise as `settle`, but
        `LEASE_LOST` for a lease that was settled before (TRANSACTION-5).
        """
        raise NotImplementedError

    def getting(self, ids: Sequence[str]) -> Work[list[JobRecord | None]]:
        """The work that reads these jobs in a caller's transaction, with what that has enqueued (TRANSACTION-8).

        Otherwise as `get`. The store must be open.
        """
        raise NotImplementedError

    one_writer: ClassVar[bool] = False
    """Whether an open transaction that writes blocks all other writers, renewals included."""

    async def begin(self, *, writes: bool = True, timeout: float | None = None) -> OwnTransaction:
        """Open a transaction on a separate connection, which no other method waits for. Read-only unless `writes`.

        If the store has `one_writer`, a transaction that writes is rolled back after `timeout` seconds; later calls of
        it raise `TimeoutError`. None (the default) sets no limit.
        """
        raise NotImplementedError

    async def lease_status(self, lease: Lease) -> LeaseStatus:
        """Whether this lease is held, settled, lost or gone. Waits for open transactions first (TRANSACTION-6)."""
        raise NotImplementedError

    # Workers.

    @abstractmethod
    async def lease(self, request: LeaseRequest) -> Leased:
        """Hand out up to `limit` jobs that are in line, each under a new token (LEASE-1 to 7, TOKEN-1).

        Before that, in the same operation: cancels expired jobs (EXPIRY-1) and promotes due ones (POSITION-5). Passes
        over paused queues, suspects that the request may not have (SUSPECT-1 to 4) and skipped tasks (SKIP-1 to 3).
        """

    @abstractmethod
    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Apply each transition and end its lease, both or neither.

        Returns one verdict each, in order (CALL-2, CALL-4).

        `LEASE_LOST`, changing nothing, if the token is not the current one: the holder of the newer token decides,
        however late this call arrives (TOKEN-2). `NOT_FOUND` if the job does not exist. `REFUSED` if its children or
        its successor cannot be enqueued; `refusal` then says why (SETTLE-7). The winning settle
        repeated is `OK` (TOKEN-4).

        SETTLE-2 to 6 say what each transition does.
        """

    @abstractmethod
    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        """Settle, then lease, in one operation and one round trip (LEASE-8)."""

    @abstractmethod
    async def leases_of(self, request: LeaseRequest) -> list[Lease]:
        """The leases of this request that are still held, for a caller that has lost the answer of `lease` (LEASE-9).

        The jobs are as `get` shows them, without history, and no lease is `solo`: enough to settle them, not to run
        them. Looks at every running job.
        """

    @abstractmethod
    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[AbortReason | Unchanged | None]:
        """Extend each lease and store its progress.

        Returns None for each, or the reason why the holder must stop (RENEW-1, RENEW-2). `UNCHANGED`: the lease is held
        but was not extended, because an open transaction has locked the job; ask again (RENEW-3).
        """

    @abstractmethod
    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        """Take up to `limit` jobs of these queues whose lease has expired (LOSS-1 to 3).

        If these were fewer than `limit`, ends up to `limit` parkings whose timeout is over; they are not part of the
        answer (PARK-4). Shortens leases that end too late because the clock was set back (TIME-3). Wakes one idle
        worker for each job that went back.
        """

    async def busy_queues(self, patterns: Sequence[str]) -> BusyQueues:
        """The queues with something to do that these names and patterns serve (BUSY-1 to 4).

        Workers with patterns call it once a second. It may name a queue that has nothing to do any more. Its cost grows
        with the queues that have something to do, not with all queues.
        """
        queues = await self.queues()
        busy = [each.name for each in queues if each.waiting + each.scheduled + each.blocked + each.running]
        return busy_queues_of(patterns, busy, [each.name for each in queues if each.running + each.blocked])

    @abstractmethod
    async def wait_for_work(
        self, patterns: Sequence[str], timeout: float, *, skip_tasks: tuple[str, ...] = ()
    ) -> str | None:
        """Wait up to `timeout` seconds for a job in line in a queue that these names and patterns serve (WAIT-4 to 7).

        Returns the name of that queue if the store knows it, else None. It is a hint: it may return early, and may miss
        work for up to `timeout`. A newly scheduled job ends it too, because the job may be due before the caller's next
        look. Jobs of `skip_tasks` that were in line before the call do not, because the caller would ask for a lease in
        vain, over and over.
        """

    async def nudge(self, workers: Sequence[str]) -> None:  # noqa: B027
        """Announce `WORK` to these registered workers (WAIT-8). A store that has no way to do so does nothing."""

    @abstractmethod
    async def take_in(
        self,
        queues: Sequence[str],
        limit: int = BATCH,
        *,
        entry_limit: int = ENTRY_LIMIT,
        raw: Mapping[str, NewJob] = NO_RAW,
    ) -> int:
        """Turn up to `limit` entries in the inboxes of these queues into jobs at the back.

        Returns the number of entries removed. Removing an entry and storing its job are one operation (INBOX-3). An
        entry whose id exists, or whose unique key has an owner, makes no job (INBOX-5). Entries that cannot be read, or
        have more than `entry_limit` bytes, become broken jobs (INBOX-6). `raw` gives each queue with a raw inbox a job
        as template: see `inbox.read` (INBOX-7). Wakes idle workers as `enqueue` does.
        """

    # The registry of workers.

    @abstractmethod
    async def register(self, worker: WorkerInfo) -> None:
        """Enter a worker, which counts as its first beat. A worker that registers again starts anew (WORKER-1)."""

    @abstractmethod
    async def beat(self, worker_id: str, pulse: Pulse) -> Order | None:
        """Store a worker's pulse. Returns the order that stands for it (WORKER-7).

        None if the registry does not know the worker, because it was retired or forgotten (WORKER-2).
        """

    @abstractmethod
    async def order(self, worker_id: str, order: Order) -> bool:
        """Give a worker an order, which its next beat returns. False if the registry does not know it (WORKER-7)."""

    @abstractmethod
    async def leave(self, worker_id: str) -> None:
        """Remove a worker that has stopped. Jobs that it still holds stay leased until they are reaped (WORKER-4)."""

    @abstractmethod
    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        """Remove a worker that is known to be dead and take up to `limit` of its jobs; [] once none is left (LOSS-4).

        `reason`, such as "killed by SIGKILL", becomes part of the error of each job (`lifecycle.lost`).
        """

    @abstractmethod
    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        """Remove each worker that holds no job and has been silent for its number of seconds in `silences` (WORKER-4).

        Returns the ids of those removed, in the order of `silences`. No job changes: a worker that comes back gets
        None from `beat` and registers again.
        """

    @abstractmethod
    async def claim_chore(self, chore: str, interval: float) -> bool:
        """Claim a periodic chore: True for one caller every `interval` seconds, False for all others (WORKER-5)."""

    @abstractmethod
    async def workers(self) -> list[WorkerInfo]:
        """List the registered workers by their start."""

    # Operators. Each call takes at most BATCH ids.

    @abstractmethod
    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        """End each job as cancelled; `REFUSED` if it is final (OPERATE-1). A holder is notified and loses its token."""

    @abstractmethod
    async def complete(self, job_id: str, transition: Finish) -> Verdict:
        """End a job as succeeded, with the children, successor and writes of `transition` (OPERATE-2, RUN-9).

        A holder is notified and loses its token. `REFUSED` if the job is final, as a step that has handed over is, or
        as `settle` refuses.
        """

    @abstractmethod
    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        """Put each final job at the back again (OPERATE-3), or make it blocked if one of its edges is open (EDGE-9).

        `REFUSED` if the job is not final, if it has handed over, if another job owns its unique key (UNIQUE-5), or if
        the blocker of an open edge is gone; `refusal` says which.
        """

    @abstractmethod
    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        """Put each scheduled job at the back of the line now; `REFUSED` if it is not scheduled (OPERATE-4)."""

    @abstractmethod
    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        """Put each running job back in its place, at the front; `REFUSED` if it is not running (OPERATE-5).

        The holder loses its token, and `TAKEN` is announced to it. Wakes one idle worker for each job that went back.
        """

    @abstractmethod
    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        """Remove these jobs, all or none.

        Returns the ids removed, in this order (OPERATE-6). A holder gets `NOT_FOUND` from `renew`. A step goes with its
        whole run; the other steps follow it in the answer (RUN-11). Raises `HasDependents` if a blocked job outside the
        list waits for one of them. With `cascade` those jobs go too, and their dependents, and follow in the answer
        (OPERATE-7).
        """

    @abstractmethod
    async def pause(self, queue: str) -> bool:
        """Hand out no more jobs of this queue, which need not exist yet. False if it was paused already (OPERATE-8)."""

    @abstractmethod
    async def resume(self, queue: str) -> bool:
        """Hand out jobs of this queue again, and wake workers. False if it was not paused (OPERATE-8)."""

    @abstractmethod
    async def purge(self, queue: str, limit: int = BATCH) -> int:
        """Delete up to `limit` jobs of this queue that are waiting, scheduled or blocked.

        Returns their number (OPERATE-9).
        """

    @abstractmethod
    async def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int = BATCH) -> int:
        """Delete up to `limit` final jobs that retention does not keep. Returns their number (RETAIN-1 to 3).

        `queues` has the retention of queues that differ from `default`. Also drops unique keys past their window and
        forgets queues that have been empty for `QUIET` seconds (RETAIN-4); neither is part of the answer. A call looks
        at some thousands of queues, and the next call of this object goes on from there.
        """

    # Reading.

    @abstractmethod
    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        """Read jobs with their history, in order; None for each that does not exist (READ-1)."""

    @abstractmethod
    async def ids(self, prefix: str, limit: int) -> list[str]:
        """Up to `limit` ids of jobs that begin with `prefix`, in no particular order (READ-2).

        `prefix` has only characters that names may have. The call never delays others, however many jobs exist: it uses
        an index, or looks at some thousands of jobs at a time.
        """

    @abstractmethod
    async def search(self, search: Search) -> Page:
        """List jobs, a page at a time, looking at no more than `search.look` rows (READ-3 to 6, READ-11 to 13)."""

    @abstractmethod
    async def run(self, run_id: str) -> RunRecord | None:
        """Read a run; None if no run has this id (RUN-3)."""

    @abstractmethod
    async def runs(self, search: RunSearch) -> RunPage:
        """List runs, a page at a time, looking at no more than 2,000 (RUN-13)."""

    @abstractmethod
    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        """List the steps of a run in the order of their creation, a page at a time (RUN-13)."""

    @abstractmethod
    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        """Read attributes of a run, as JSON by name: those in `names`, or all if None. {} if there is no such run."""

    @abstractmethod
    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        """Up to `limit` ids of jobs that a blocked job still waits for; [] if it is parked (EDGE-10)."""

    @abstractmethod
    async def edges(self, job_id: str, limit: int = 200) -> list[EdgeInfo]:
        """The first `limit` jobs and runs that a job was told to wait for, in the order of `after` (EDGE-13)."""

    @abstractmethod
    async def queues(self, after: str = "", limit: int | None = None) -> list[QueueInfo]:
        """List by name every queue that has had a job or was paused, unless it is forgotten (READ-7, READ-8, READ-9).

        Only those whose name comes after `after`, and at most `limit` of them (None: all). Some stores also list queues
        with only an inbox.
        """

    @abstractmethod
    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        """The records of the jobs that are final, None for those that do not exist (WAIT-1).

        One atomic operation: a job that becomes final after this call is announced as `DONE`.
        """

    @property
    def announcement_epoch(self) -> int:
        """Epoch of the subscription: 0 while it is down, a new value after each reconnect.

        Callers that see a new value know that they may have missed announcements.
        """
        return 1

    @abstractmethod
    def announcements(self) -> AsyncIterator[Announcement]:
        """Announcements on jobs that this store object waits for or that its registered workers hold (WAIT-1 to 3).

        Ends when the store is closed. One listener at a time.
        """

    # Schedules.

    @abstractmethod
    async def schedules(self, search: ScheduleSearch) -> SchedulePage:
        """Read schedules, and the time of the store (SCHEDULE-1, SCHEDULE-2).

        Workers ask for those that are due once a second; that costs one look at an index, however many there are.
        """

    @abstractmethod
    async def put_schedules(self, puts: Sequence[SchedulePut]) -> list[bool]:
        """Create, replace or delete each schedule whose version is `if_version`, at most `BATCH` (SCHEDULE-3, SCHEDULE-4).

        Returns whether each was written; False, changing nothing, if it has another version.
        """

    @abstractmethod
    async def confirm_schedules(self, names: Sequence[str]) -> list[bool]:
        """Set `seen_at` of each of these schedules to now, at most `BATCH`. Returns whether each exists (SCHEDULE-5)."""

    @abstractmethod
    async def fire(self, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
        """Fire ticks: decide overlap, enqueue jobs and move each schedule on, all in one operation (SCHEDULE-6 to 10).

        Returns what became of each job of each firing. None, changing nothing, if the schedule has another version than
        the firing, or does not exist: another caller has fired these ticks, or an operator has changed the schedule. So
        a tick is fired at most once, however many callers compute it and whatever answers are lost. At most `BATCH`
        jobs a call; none of them has blockers or `unique_raises`.
        """

    # History.

    @abstractmethod
    async def record_history(self, writes: Sequence[HistoryWrite]) -> None:
        """Add these to the rows of the current slot of each resolution, at most `ROWS` of them (MEASURE-1 to 4).

        Need not be durable: a crash may lose the last ones.
        """

    @abstractmethod
    async def history(self, search: HistorySearch) -> list[HistoryRow]:
        """Read rows of the history, by slot, then by queue and task (MEASURE-5)."""

    @abstractmethod
    async def mark(self, label: str) -> None:
        """Remember this moment under a name, beside the history (MEASURE-6)."""

    @abstractmethod
    async def marks(self, since: float = 0.0) -> list[Mark]:
        """The latest marks, at most `MARKS`, from this time on, oldest first (MEASURE-6)."""

    # The audit.

    @abstractmethod
    async def note_actions(self, actions: Sequence[Action]) -> None:
        """Enter what operators have done in the audit, with the time of the store, at most `BATCH` (AUDIT-1, AUDIT-2)."""

    @abstractmethod
    async def actions(self, limit: int = 50, cursor: str | None = None) -> ActionPage:
        """List what operators have done, the latest first, a page at a time (AUDIT-1)."""

    # Event messages.

    @abstractmethod
    async def watched(self) -> bool:
        """Whether a watcher may exist (MESSAGE-3). One that has died without leaving counts for at most a minute."""

    @abstractmethod
    async def publish(self, messages: Sequence[str]) -> None:
        """Send these event messages to all current watchers, in order, each of up to `MESSAGE_BYTES` (MESSAGE-1)."""

    @abstractmethod
    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Receive, inside the block, every event message that any store object publishes from its beginning on.

        The messages end when the store is closed. Those published while the connection is down are missed.
        """
