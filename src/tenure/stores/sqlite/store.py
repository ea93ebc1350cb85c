"""Implements the store contract on one SQLite file, which any number of processes on one machine can share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from tenure.core.clock import Clock
from tenure.core.inbox import ENTRY_LIMIT, NO_RAW
from tenure.core.job import JobRecord, NewJob
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import Finish
from tenure.core.measures import HistoryRow, HistorySearch, HistoryWrite, Mark
from tenure.core.options import Retention
from tenure.core.patterns import serves
from tenure.core.schedule import Firing, SchedulePage, SchedulePut, ScheduleSearch, TickRecord
from tenure.errors import StoreUnavailable
from tenure.stores.base import BATCH, LOOK_AHEAD, SUSPECTS, Store, busy_queues_of
from tenure.stores.callers import SqliteWork
from tenure.stores.mailbox import Mailbox
from tenure.stores.sqlite import (
    audit,
    enqueueing,
    health,
    history,
    inbox,
    leasing,
    operating,
    reading,
    runs,
    schedules,
    schema,
    settling,
)
from tenure.stores.sqlite.caller_work import caller_reading, caller_work
from tenure.stores.sqlite.connection import connect
from tenure.stores.sqlite.doorbell import Doorbell
from tenure.stores.sqlite.engine import Engine
from tenure.stores.sqlite.event_channel import Publisher, Watcher
from tenure.stores.sqlite.files import refuse_if_log_gone
from tenure.stores.sqlite.library import Connection, Library
from tenure.stores.sqlite.own_transaction import LiteTransaction, refuse_inside
from tenure.stores.sqlite.queries import sql
from tenure.stores.sqlite.rows import dumps
from tenure.stores.sqlite.single import Single
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.url import parsed, refuse_unless
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
    Verdict,
    WorkerInfo,
)

__all__ = ["SqliteStore"]

T = TypeVar("T")

LOOK_EVERY = 0.1
"""Seconds between looks at the change counter of the file, while a worker waits for work."""


class SqliteStore(Store):
    """Jobs in a SQLite file. All store objects of a process for the same file share connections and a writer thread."""

    def __init__(
        self, path: str | os.PathLike[str], *, clock: Clock | None = None, library: Library | None = None
    ) -> None:
        self._engine = Engine.of(os.path.abspath(path), clock)
        if library is not None:
            self._engine.use_library(library)
        self._closed = False
        self._bell: Doorbell | None = None
        self._waiting: set[Callable[[], None]] = set()
        self._announced: Mailbox[Announcement] = Mailbox()
        self._publisher = Publisher(self._engine.path)
        self._watchers: set[Watcher] = set()

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None) -> SqliteStore:
        """Create a store from `sqlite:///relative.db` or `sqlite:////absolute.db`.

        `?library=sqlite3` is for programs that use the file through `sqlite3` themselves.
        """
        path, library = parsed(url, _parsed, "file")
        return cls(path, clock=clock, library=library)

    async def open(self) -> None:
        self._check_open()
        await asyncio.get_running_loop().run_in_executor(None, self._engine.open)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for wake in tuple(self._waiting):
            wake()
        self._announced.close()
        self._publisher.close()
        for watcher in self._watchers:
            watcher.close()
        if self._bell is not None:
            self._bell.close()
        await asyncio.get_running_loop().run_in_executor(None, self._engine.release)

    async def layout(self) -> Layout:
        self._check_open()
        if not os.path.exists(self._engine.path):  # noqa: ASYNC240  (one stat)
            return Layout(None, schema.KNOWN)
        refuse_if_log_gone(self._engine.path)
        connection = connect(self._engine.path, self._engine.library, cache_kib=200, mode="ro")
        try:
            return Layout(schema.found(connection), schema.KNOWN)
        finally:
            connection.close()

    async def examine(self) -> list[Fact]:
        self._check_open()
        return await health.facts(self._engine)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if any(job.unique_raises or job.after or (job.step is not None and job.step.needs) for job in jobs):
            return await self._write(lambda tx: enqueueing.enqueue(tx, jobs), durable=True)
        self._check_outside()
        return await self._engine.write_batch(enqueueing.enqueue, jobs, self._single(jobs))

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        if self.on_consequences is not None and any(job.after for job in jobs):
            return None  # consequences are reported on the event loop
        self._check_outside()
        if not self._engine.is_open:
            # Not opened here: if this is the main thread, a signal handler that interrupts it would wait for the lock for ever.
            return None
        return self._engine.write_now(lambda tx: enqueueing.enqueue(tx, jobs), durable=True, single=self._single(jobs))

    transactional = True
    one_writer = True

    def enqueueing(self, jobs: Sequence[NewJob]) -> SqliteWork[list[Enqueued]]:
        return caller_work(self._engine, lambda tx: enqueueing.enqueue(tx, jobs))

    def settling(self, settlement: Settlement) -> SqliteWork[Verdict]:
        return caller_work(self._engine, lambda tx: settling.settle_held(tx, settlement))

    def getting(self, ids: Sequence[str]) -> SqliteWork[list[JobRecord | None]]:
        return caller_reading(self._engine, lambda tx: reading.get(tx, ids))

    async def begin(self, *, writes: bool = True, timeout: float | None = None) -> LiteTransaction:
        self._check_open()
        return await self._engine.begin(writes=writes, timeout=timeout)

    async def lease_status(self, lease: Lease) -> LeaseStatus:
        self._check_open()
        # As a write, though it writes nothing, because it must wait for a transaction that is writing.
        return await self._engine.write(lambda tx: settling.lease_status(tx, lease), durable=False)

    async def lease(self, request: LeaseRequest) -> Leased:
        answer = await self._write(lambda tx: leasing.lease(tx, request))
        return answer()

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        return await self._write(lambda tx: settling.settle(tx, settlements))

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        def settle_and_lease(tx: Transaction) -> tuple[list[Verdict], Callable[[], Leased]]:
            verdicts = settling.settle(tx, settlements)
            if tx.ready:
                tx.flush()  # the lease finds jobs in line by the counters
            return verdicts, leasing.lease(tx, request)

        verdicts, answer = await self._write(settle_and_lease)
        return verdicts, answer()

    async def leases_of(self, request: LeaseRequest) -> list[Lease]:
        return await self._read(lambda tx: leasing.leases_of(tx, request))

    async def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
        return await self._write(lambda tx: leasing.renew(tx, renewals))

    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        return await self._write(lambda tx: leasing.reap(tx, queues, limit))

    async def busy_queues(self, patterns: Sequence[str]) -> BusyQueues:
        busy = await self._read(reading.busy)
        return busy_queues_of(patterns, [queue for queue, _ in busy], [queue for queue, overdue in busy if overdue])

    async def nudge(self, workers: Sequence[str]) -> None:
        def nudge(tx: Transaction) -> None:
            for worker in workers:
                tx.notify_holder(worker, AnnouncementKind.WORK, "")

        await self._write(nudge)

    async def take_in(
        self,
        queues: Sequence[str],
        limit: int = BATCH,
        *,
        entry_limit: int = ENTRY_LIMIT,
        raw: Mapping[str, NewJob] = NO_RAW,
    ) -> int:
        return await self._write(lambda tx: inbox.take_in(tx, queues, limit, entry_limit, raw))

    async def register(self, worker: WorkerInfo) -> None:
        bell = self._open_bell().name

        def register(tx: Transaction) -> None:
            tx.run(
                "register_worker",
                worker.id,
                worker.host,
                worker.pid,
                dumps(worker.queues),
                dumps(worker.tasks),
                worker.concurrency,
                dumps(worker.lanes),
                dumps(worker.pulse),
                tx.wall,
                tx.boot,
                bell,
                worker.release,
            )

        await self._write(register)

    async def beat(self, worker_id: str, pulse: Pulse) -> Order | None:
        found = await self._write(lambda tx: tx.all("record_beat", worker_id, dumps(pulse), tx.boot))
        return Order(found[0][0]) if found else None

    async def order(self, worker_id: str, order: Order) -> bool:
        return bool(await self._write(lambda tx: tx.run("set_order", worker_id, order), durable=True))

    async def leave(self, worker_id: str) -> None:
        await self._write(lambda tx: tx.run("delete_worker", worker_id))

    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        return await self._write(lambda tx: leasing.retire(tx, worker_id, limit, reason), durable=True)

    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        return await self._write(lambda tx: operating.forget(tx, silences))

    async def claim_chore(self, chore: str, interval: float) -> bool:
        return await self._write(lambda tx: operating.claim_chore(tx, chore, interval))

    async def workers(self) -> list[WorkerInfo]:
        return await self._read(reading.workers)

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        return await self._write(lambda tx: operating.cancel(tx, ids), durable=True)

    async def complete(self, job_id: str, transition: Finish) -> Verdict:
        return await self._write(lambda tx: operating.complete(tx, job_id, transition), durable=True)

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        return await self._write(lambda tx: operating.retry(tx, ids), durable=True)

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        return await self._write(lambda tx: operating.trigger(tx, ids), durable=True)

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        return await self._write(lambda tx: operating.release(tx, ids), durable=True)

    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        return await self._write(lambda tx: operating.delete(tx, ids, cascade=cascade), durable=True)

    async def pause(self, queue: str) -> bool:
        return await self._write(lambda tx: operating.pause(tx, queue), durable=True)

    async def resume(self, queue: str) -> bool:
        return await self._write(lambda tx: operating.resume(tx, queue), durable=True)

    async def purge(self, queue: str, limit: int = BATCH) -> int:
        return await self._write(lambda tx: operating.purge(tx, queue, limit), durable=True)

    async def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int = BATCH) -> int:
        return await self._write(lambda tx: operating.prune(tx, default, queues, limit))

    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        return await self._read(lambda tx: reading.get(tx, ids))

    async def search(self, search: Search) -> Page:
        return await self._read(lambda tx: reading.search(tx, search))

    async def run(self, run_id: str) -> RunRecord | None:
        return await self._read(lambda tx: runs.run(tx, run_id))

    async def runs(self, search: RunSearch) -> RunPage:
        return await self._read(lambda tx: runs.runs(tx, search))

    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        return await self._read(lambda tx: runs.steps(tx, run_id, limit, cursor))

    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        return await self._read(lambda tx: runs.attributes(tx, run_id, names))

    async def ids(self, prefix: str, limit: int) -> list[str]:
        return await self._read(lambda tx: reading.ids(tx, prefix, limit))

    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        return await self._read(lambda tx: reading.blockers(tx, job_id, limit))

    async def edges(self, job_id: str, limit: int = 200) -> list[EdgeInfo]:
        return await self._read(lambda tx: reading.edges(tx, job_id, limit))

    async def queues(self, after: str = "", limit: int | None = None) -> list[QueueInfo]:
        return await self._read(lambda tx: reading.queues(tx, after, limit))

    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        bell = self._open_bell().name
        return await self._write(lambda tx: reading.wait(tx, ids, bell))

    async def schedules(self, search: ScheduleSearch) -> SchedulePage:
        return await self._read(lambda tx: schedules.search(tx, search))

    async def put_schedules(self, puts: Sequence[SchedulePut]) -> list[bool]:
        return await self._write(lambda tx: schedules.put(tx, puts), durable=True)

    async def confirm_schedules(self, names: Sequence[str]) -> list[bool]:
        return await self._write(lambda tx: schedules.confirm(tx, names))

    async def fire(self, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
        return await self._write(lambda tx: schedules.fire(tx, firings), durable=True)

    async def record_history(self, writes: Sequence[HistoryWrite]) -> None:
        await self._write(lambda tx: history.record_history(tx, writes))

    async def history(self, search: HistorySearch) -> list[HistoryRow]:
        return await self._read(lambda tx: history.search(tx, search))

    async def mark(self, label: str) -> None:
        await self._write(lambda tx: history.mark(tx, label), durable=True)

    async def marks(self, since: float = 0.0) -> list[Mark]:
        return await self._read(lambda tx: history.marks(tx, since))

    async def note_actions(self, actions: Sequence[Action]) -> None:
        await self._write(lambda tx: audit.note(tx, actions), durable=True)

    async def actions(self, limit: int = 50, cursor: str | None = None) -> ActionPage:
        return await self._read(lambda tx: audit.actions(tx, limit, cursor))

    @property
    def announcement_epoch(self) -> int:
        return int(self._bell is not None and self._bell.is_bound)

    async def announcements(self) -> AsyncIterator[Announcement]:
        self._open_bell()
        async for announcement in self._announced.read():
            yield announcement

    async def watched(self) -> bool:
        self._check_open()
        return self._publisher.watched()

    async def publish(self, messages: Sequence[str]) -> None:
        self._check_open()
        self._publisher.publish(messages)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        self._check_open()
        watcher = Watcher(self._engine.bells)
        self._watchers.add(watcher)
        try:
            yield watcher.messages()
        finally:
            self._watchers.discard(watcher)
            watcher.close()

    async def wait_for_work(self, patterns: Sequence[str], timeout: float, *, skip_tasks: tuple[str, ...] = ()) -> None:
        bell = self._open_bell()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        woken: asyncio.Future[None] = loop.create_future()
        timer: asyncio.TimerHandle | None = None

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        def look(seen: object, work: bool = False) -> None:
            """Look for work, and wake up if the previous look has found work too.

            Work that is new since the previous look is left for one more look, because another worker was probably woken for it.
            """
            nonlocal timer
            version = self._version()
            had_work, work = work, (work or version != seen) and self._has_work(patterns, skip_tasks)
            left = deadline - loop.time()
            if left <= 0 or (work and had_work):
                wake()
            else:
                timer = loop.call_later(min(LOOK_EVERY, left), look, version, work)

        self._waiting.add(wake)
        # The idle mark is created before the first look, so a job that is enqueued after the look finds the mark.
        with bell.waiting(patterns, wake):
            try:
                look(None, work=True)
                await woken
            finally:
                self._waiting.discard(wake)
                if timer is not None:
                    timer.cancel()

    def _single(self, jobs: Sequence[NewJob]) -> Single | None:
        plain = len(jobs) == 1 and jobs[0].plain and self._engine.library is Library.APSW
        return Single(jobs[0]) if plain else None

    async def _write(self, action: Callable[[Transaction], T], *, durable: bool = False) -> T:
        self._check_outside()
        if self.on_consequences is None:
            return await self._engine.write(action, durable=durable)
        answer, consequences = await self._engine.write(lambda tx: (action(tx), tx.consequences), durable=durable)
        if consequences and self.on_consequences is not None:  # it may have been reset meanwhile
            self.on_consequences(consequences)
        return answer

    async def _read(self, action: Callable[[Transaction], T]) -> T:
        self._check_open()
        return await self._engine.read(action)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store {self._engine.path!r} has been closed")

    def _check_outside(self) -> None:
        self._check_open()
        refuse_inside(self._engine.path)

    def _open_bell(self) -> Doorbell:
        self._check_open()
        if self._bell is None:
            self._bell = Doorbell(self._engine.bells, self._announced.put)
        return self._bell

    def _version(self) -> object:
        return self._engine.read_inline(_version)

    def _has_work(self, patterns: Sequence[str], skip_tasks: tuple[str, ...]) -> bool:
        found = [
            (queue, inbox) for queue, inbox in self._engine.read_inline(_queues_with_work) if serves(patterns, queue)
        ]
        if not found or not skip_tasks or any(inbox for _, inbox in found):
            return bool(found)
        return any(not tasks.issubset(skip_tasks) for queue, _ in found if (tasks := self._tasks_in_line(queue)))

    def _tasks_in_line(self, queue: str) -> set[str]:
        return self._engine.read_inline(
            lambda connection: {
                task for (task,) in connection.execute(sql["tasks_in_line"], (queue, LOOK_AHEAD, SUSPECTS))
            }
        )


def _version(connection: Connection) -> object:
    """A value that changes when another connection has changed the file. It contains the connection, because each counts by itself."""
    return id(connection), connection.execute("PRAGMA data_version").fetchone()


def _queues_with_work(connection: Connection) -> list[tuple[str, bool]]:
    return [(str(name), bool(inbox)) for name, inbox in connection.execute(sql["queues_with_work"])]


def _parsed(url: str) -> tuple[str, Library | None]:
    parts = urlsplit(url)
    path = unquote(parts.path)[1:]
    refuse_unless(
        not parts.netloc and not parts.fragment and path != "",
        "write sqlite:///jobs.db, or sqlite:////var/lib/jobs.db with four slashes",
    )
    option, _, library = parts.query.partition("=")
    refuse_unless(
        not parts.query or (option == "library" and library in list(Library)),
        "it has an unknown option: the known ones are ?library=sqlite3 and ?library=apsw",
    )
    return path, Library(library) if library else None
