"""`MemoryStore`: the store object of one event loop on shared `Data`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec

from tenure.core.clock import Clock
from tenure.core.inbox import ENTRY_LIMIT, NO_RAW
from tenure.core.job import JobRecord, NewJob
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish
from tenure.core.measures import HistoryRow, HistorySearch, HistoryWrite, Mark
from tenure.core.options import Retention
from tenure.core.schedule import Firing, SchedulePage, SchedulePut, ScheduleSearch, TickRecord
from tenure.errors import StoreUnavailable
from tenure.stores.base import BATCH, Store, busy_queues_of
from tenure.stores.memory import audit, enqueueing, history, inbox, leasing, operating, reading, schedules, settling
from tenure.stores.memory.data import LOCK, Data, RegisteredWorker
from tenure.stores.memory.wakeup import CrossLoopMailbox, IdleCaller
from tenure.stores.values import (
    Action,
    ActionPage,
    Announcement,
    AnnouncementKind,
    BusyQueues,
    EdgeInfo,
    Enqueued,
    Fact,
    Layout,
    Leased,
    LeaseRequest,
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
    Verdict,
    WorkerInfo,
)

__all__ = ["MemoryStore"]

_named_data: dict[str, Data] = {}
"""Data by name (`memory://name`); kept until the process ends."""


class MemoryStore(Store):
    """A store in the memory of this process.

    Objects on the same `Data` see the same jobs, from any thread and event loop.

    After a fork the child has its own copy: parent and child do not see what the other does from then on.
    """

    def __init__(self, data: Data | None = None, clock: Clock | None = None) -> None:
        """A store object on this data, or on new data that uses this clock."""
        self._data = Data(clock) if data is None else data
        self._mailbox = CrossLoopMailbox[Announcement]()
        self._watching: set[CrossLoopMailbox[str]] = set()
        self._callers: set[IdleCaller] = set()
        self._arrivals_seen = 0
        """The value of `Data.arrivals` when this object last leased or waited for work."""

        self._closed = False

    @classmethod
    def from_url(cls, url: str) -> MemoryStore:
        """A store object on the data of that name (`memory://name`), which is created on first use."""
        name = url.partition(":")[2].removeprefix("//")
        with LOCK:
            return cls(_named_data.setdefault(name, Data()))

    @contextmanager
    def _operation(self) -> Iterator[Data]:
        """One atomic operation: no other one uses any data meanwhile."""
        if self._closed:
            raise StoreUnavailable("this store object is closed: open another one")
        with LOCK:
            consequences = self._data.consequences = []
            yield self._data
        if consequences and self.on_consequences is not None:
            self.on_consequences(consequences)

    async def open(self) -> None:
        with self._operation():
            pass

    async def close(self) -> None:
        with LOCK:
            self._closed = True
            for mailboxes in self._data.waiters.values():
                mailboxes.discard(self._mailbox)
            self._data.watchers -= self._watching
        self._mailbox.close()
        for mailbox in self._watching:
            mailbox.close()
        for caller in self._callers:
            caller.wake()

    async def reset(self) -> None:
        with self._operation() as data:
            data.reset()

    async def layout(self) -> Layout:
        with self._operation():
            return Layout(found=1, known=1)

    async def examine(self) -> list[Fact]:
        with self._operation() as data:
            return [
                Fact("jobs", f"{len(data.jobs):,} in the memory of this process"),
                Fact("durability", "none: what is enqueued is gone when the process ends"),
            ]

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        with self._operation() as data:
            return enqueueing.enqueue(data, jobs)

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        if self.on_consequences is not None and any(job.after for job in jobs):
            return None  # their consequences are reported on the event loop
        if threading.current_thread() is threading.main_thread():
            return None  # a signal handler would wait for the lock that the call it has interrupted holds
        with self._operation() as data:
            return enqueueing.enqueue(data, jobs)

    async def lease(self, request: LeaseRequest) -> Leased:
        with self._operation() as data:
            self._arrivals_seen = data.arrivals
            return leasing.lease(data, request)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        with self._operation() as data:
            return settling.settle(data, settlements)

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        with self._operation() as data:
            verdicts = settling.settle(data, settlements)
            self._arrivals_seen = data.arrivals
            return verdicts, leasing.lease(data, request)

    async def leases_of(self, request: LeaseRequest) -> list[Lease]:
        with self._operation() as data:
            return leasing.leases_of(data, request)

    async def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
        with self._operation() as data:
            return leasing.renew(data, renewals)

    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        with self._operation() as data:
            return leasing.reap(data, queues, limit)

    async def busy_queues(self, patterns: Sequence[str]) -> BusyQueues:
        with self._operation() as data:
            return busy_queues_of(patterns, *leasing.busy_and_overdue(data))

    async def wait_for_work(
        self,
        patterns: Sequence[str],
        timeout: float,
        *,
        skip_tasks: tuple[str, ...] = (),  # noqa: ARG002
    ) -> None:
        caller = IdleCaller(patterns)
        with self._operation() as data:
            # A job that came after this object last looked has woken another caller, or none.
            looked, self._arrivals_seen = self._arrivals_seen, data.arrivals
            if any(queue.arrived > looked and caller.serves(queue.name) for queue in data.queues.values()):
                return
            data.idle.append(caller)
            self._callers.add(caller)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await caller.wait()
        finally:
            self._callers.discard(caller)
            with LOCK, suppress(ValueError):  # the call that woke it has removed it
                self._data.idle.remove(caller)

    async def nudge(self, workers: Sequence[str]) -> None:
        with self._operation() as data:
            for worker in [data.workers[worker_id] for worker_id in workers if worker_id in data.workers]:
                worker.mailbox.post(Announcement(AnnouncementKind.WORK, ""))

    def put_in(self, queue: str, entry: bytes) -> None:
        """Put an entry in the inbox of a queue, as another program would."""
        with self._operation() as data:
            inbox.put_in(data, queue, entry)

    async def take_in(
        self,
        queues: Sequence[str],
        limit: int = BATCH,
        *,
        entry_limit: int = ENTRY_LIMIT,
        raw: Mapping[str, NewJob] = NO_RAW,
    ) -> int:
        with self._operation() as data:
            return inbox.take_in(data, queues, limit, entry_limit, raw)

    async def register(self, worker: WorkerInfo) -> None:
        with self._operation() as data:
            info = msgspec.structs.replace(worker, started_at=data.clock.wall(), order=Order.GO_ON)
            data.workers[worker.id] = RegisteredWorker(info, self._mailbox, data.clock.boot())

    async def beat(self, worker_id: str, pulse: Pulse) -> Order | None:
        with self._operation() as data:
            if (worker := data.workers.get(worker_id)) is None:
                return None
            worker.beat = data.clock.boot()
            worker.info = worker.info.beating(pulse)
            return worker.info.order

    async def order(self, worker_id: str, order: Order) -> bool:
        with self._operation() as data:
            if (worker := data.workers.get(worker_id)) is None:
                return False
            worker.info = msgspec.structs.replace(worker.info, order=order)
            return True

    async def leave(self, worker_id: str) -> None:
        with self._operation() as data:
            data.workers.pop(worker_id, None)

    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        with self._operation() as data:
            return leasing.retire(data, worker_id, limit, reason)

    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        with self._operation() as data:
            return operating.forget(data, silences)

    async def claim_chore(self, chore: str, interval: float) -> bool:
        with self._operation() as data:
            return operating.claim_chore(data, chore, interval)

    async def workers(self) -> list[WorkerInfo]:
        with self._operation() as data:
            return reading.workers(data)

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        with self._operation() as data:
            return operating.cancel(data, ids)

    async def complete(self, job_id: str, transition: Finish) -> Verdict:
        with self._operation() as data:
            return operating.complete(data, job_id, transition)

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        with self._operation() as data:
            return operating.retry(data, ids)

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        with self._operation() as data:
            return operating.trigger(data, ids)

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        with self._operation() as data:
            return operating.release(data, ids)

    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        with self._operation() as data:
            return operating.delete(data, ids, cascade=cascade)

    async def pause(self, queue: str) -> bool:
        with self._operation() as data:
            return operating.pause(data, queue)

    async def resume(self, queue: str) -> bool:
        with self._operation() as data:
            return operating.resume(data, queue)

    async def purge(self, queue: str, limit: int = BATCH) -> int:
        with self._operation() as data:
            return operating.purge(data, queue, limit)

    async def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int = BATCH) -> int:
        with self._operation() as data:
            return operating.prune(data, default, queues, limit)

    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        with self._operation() as data:
            return reading.get(data, ids)

    async def search(self, search: Search) -> Page:
        with self._operation() as data:
            return reading.search(data, search)

    async def run(self, run_id: str) -> RunRecord | None:
        with self._operation() as data:
            return reading.run(data, run_id)

    async def runs(self, search: RunSearch) -> RunPage:
        with self._operation() as data:
            return reading.runs(data, search)

    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        with self._operation() as data:
            return reading.steps(data, run_id, limit, cursor)

    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        with self._operation() as data:
            return reading.attributes(data, run_id, names)

    async def ids(self, prefix: str, limit: int) -> list[str]:
        with self._operation() as data:
            return reading.ids(data, prefix, limit)

    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        with self._operation() as data:
            return reading.blockers(data, job_id, limit)

    async def edges(self, job_id: str, limit: int = 200) -> list[EdgeInfo]:
        with self._operation() as data:
            return reading.edges(data, job_id, limit)

    async def queues(self, after: str = "", limit: int | None = None) -> list[QueueInfo]:
        with self._operation() as data:
            return reading.queues(data, after, limit)

    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        with self._operation() as data:
            return reading.wait(data, ids, self._mailbox)

    def announcements(self) -> AsyncIterator[Announcement]:
        return self._mailbox.listen()

    async def schedules(self, search: ScheduleSearch) -> SchedulePage:
        with self._operation() as data:
            return schedules.search(data, search)

    async def put_schedules(self, puts: Sequence[SchedulePut]) -> list[bool]:
        with self._operation() as data:
            return schedules.put(data, puts)

    async def confirm_schedules(self, names: Sequence[str]) -> list[bool]:
        with self._operation() as data:
            return schedules.confirm(data, names)

    async def fire(self, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
        with self._operation() as data:
            return schedules.fire(data, firings)

    async def record_history(self, writes: Sequence[HistoryWrite]) -> None:
        with self._operation() as data:
            history.record_history(data, writes)

    async def history(self, search: HistorySearch) -> list[HistoryRow]:
        with self._operation() as data:
            return history.search(data, search)

    async def mark(self, label: str) -> None:
        with self._operation() as data:
            history.mark(data, label)

    async def marks(self, since: float = 0.0) -> list[Mark]:
        with self._operation() as data:
            return history.marks(data, since)

    async def note_actions(self, actions: Sequence[Action]) -> None:
        with self._operation() as data:
            audit.note(data, actions)

    async def actions(self, limit: int = 50, cursor: str | None = None) -> ActionPage:
        with self._operation() as data:
            return audit.actions(data, limit, cursor)

    async def watched(self) -> bool:
        with self._operation() as data:
            return bool(data.watchers)

    async def publish(self, messages: Sequence[str]) -> None:
        with self._operation() as data:
            for mailbox in data.watchers:
                for message in messages:
                    mailbox.post(message)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        mailbox = CrossLoopMailbox[str]()
        with self._operation() as data:
            data.watchers.add(mailbox)
            self._watching.add(mailbox)
        try:
            yield mailbox.listen()
        finally:
            self._watching.discard(mailbox)
            with LOCK:
                self._data.watchers.discard(mailbox)
