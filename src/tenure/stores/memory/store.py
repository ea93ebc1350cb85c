"""The store object: one event loop's door to a space."""

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
from tenure.core.options import Retention
from tenure.errors import StoreUnavailable
from tenure.stores.base import STEP, Store, tended
from tenure.stores.memory import enqueueing, inbox, leasing, operating, reading, settling
from tenure.stores.memory.data import LOCK, RegisteredWorker, Space
from tenure.stores.memory.wakeup import IdleCaller, Mailbox
from tenure.stores.values import (
    Enqueued,
    Fact,
    Layout,
    Leased,
    LeaseRequest,
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
    Signal,
    SignalKind,
    Tended,
    Verdict,
    WorkerInfo,
)

__all__ = ["MemoryStore"]

_spaces: dict[str, Space] = {}
"""Spaces that have a name, for as long as the process lives."""


class MemoryStore(Store):
    """Jobs in the memory of this process, gone with it. Objects on one space see the same jobs, from any thread and loop.

    After a fork the child goes on with a copy of its own: what parent and child do from then on is unknown to the other.
    """

    def __init__(self, space: Space | None = None, clock: Clock | None = None) -> None:
        """Open a door to this space, or to a new one that goes by this clock."""
        self._space = Space(clock) if space is None else space
        self._mailbox = Mailbox[Signal]()
        self._watching: set[Mailbox[str]] = set()
        self._callers: set[IdleCaller] = set()
        self._looked = 0
        """How many jobs had come in line, in the whole space, when this object last asked for leases."""

        self._closed = False

    @classmethod
    def from_url(cls, url: str) -> MemoryStore:
        """A store object on the space of that name (`memory://name`), which is made on first use."""
        name = url.partition(":")[2].removeprefix("//")
        with LOCK:
            return cls(_spaces.setdefault(name, Space()))

    @contextmanager
    def _step(self) -> Iterator[Space]:
        """One atomic step: nobody else is in the space meanwhile."""
        if self._closed:
            raise StoreUnavailable("this store object is closed: open another one")
        with LOCK:
            happened = self._space.consequences = []
            yield self._space
        if happened and self.on_consequences is not None:
            self.on_consequences(happened)

    async def open(self) -> None:
        with self._step():
            pass

    async def close(self) -> None:
        with LOCK:
            self._closed = True
            for mailboxes in self._space.waiters.values():
                mailboxes.discard(self._mailbox)
            self._space.watchers -= self._watching
        self._mailbox.close()
        for mailbox in self._watching:
            mailbox.close()
        for caller in self._callers:
            caller.ring()

    async def reset(self) -> None:
        with self._step() as space:
            space.reset()

    async def layout(self) -> Layout:
        with self._step():
            return Layout(found=1, known=1)

    async def facts(self) -> list[Fact]:
        with self._step() as space:
            return [
                Fact("jobs", f"{len(space.jobs):,} in the memory of this process"),
                Fact("durability", "none: what is enqueued is gone when the process ends"),
            ]

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        with self._step() as space:
            return enqueueing.enqueue(space, jobs)

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        if self.on_consequences is not None and any(job.after for job in jobs):
            return None  # what comes of these is told on the event loop
        if threading.current_thread() is threading.main_thread():
            return None  # a signal handler would wait for the lock of the very call that it has interrupted
        with self._step() as space:
            return enqueueing.enqueue(space, jobs)

    async def lease(self, request: LeaseRequest) -> Leased:
        with self._step() as space:
            self._looked = space.arrivals
            return leasing.lease(space, request)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        with self._step() as space:
            return settling.settle(space, settlements)

    async def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        with self._step() as space:
            verdicts = settling.settle(space, settlements)
            self._looked = space.arrivals
            return verdicts, leasing.lease(space, request)

    async def held(self, request: LeaseRequest) -> list[Lease]:
        with self._step() as space:
            return leasing.held(space, request)

    async def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
        with self._step() as space:
            return leasing.renew(space, renewals)

    async def reap(self, queues: Sequence[str], limit: int = STEP) -> list[Reaped]:
        with self._step() as space:
            return leasing.reap(space, queues, limit)

    async def tend(self, patterns: Sequence[str]) -> Tended:
        with self._step() as space:
            return tended(patterns, *leasing.busy(space))

    async def wait_for_work(
        self,
        patterns: Sequence[str],
        timeout: float,
        *,
        skip_tasks: tuple[str, ...] = (),  # noqa: ARG002
    ) -> None:
        caller = IdleCaller(patterns)
        with self._step() as space:
            # A job that came after this object last looked has woken somebody else, or nobody.
            looked, self._looked = self._looked, space.arrivals
            if any(queue.arrived > looked and caller.serves(queue.name) for queue in space.queues.values()):
                return
            space.idle.append(caller)
            self._callers.add(caller)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await caller.wait()
        finally:
            self._callers.discard(caller)
            with LOCK, suppress(ValueError):  # whoever woke it has taken it from the list
                self._space.idle.remove(caller)

    async def nudge(self, workers: Sequence[str]) -> None:
        with self._step() as space:
            for worker in [space.workers[worker_id] for worker_id in workers if worker_id in space.workers]:
                worker.mailbox.post(Signal(SignalKind.WORK, ""))

    def put_in(self, queue: str, entry: bytes) -> None:
        """Lay an entry in the inbox of a queue, as another program would."""
        with self._step() as space:
            inbox.put_in(space, queue, entry)

    async def take_in(
        self,
        queues: Sequence[str],
        limit: int = STEP,
        *,
        entry_limit: int = ENTRY_LIMIT,
        raw: Mapping[str, NewJob] = NO_RAW,
    ) -> int:
        with self._step() as space:
            return inbox.take_in(space, queues, limit, entry_limit, raw)

    async def register(self, worker: WorkerInfo) -> None:
        with self._step() as space:
            info = msgspec.structs.replace(worker, started_at=space.clock.wall())
            space.workers[worker.id] = RegisteredWorker(info, self._mailbox, space.clock.boot())

    async def beat(self, worker_id: str, pulse: Pulse) -> bool:
        with self._step() as space:
            if (worker := space.workers.get(worker_id)) is None:
                return False
            worker.beat = space.clock.boot()
            worker.info = worker.info.beating(pulse)
            return True

    async def leave(self, worker_id: str) -> None:
        with self._step() as space:
            space.workers.pop(worker_id, None)

    async def retire(self, worker_id: str, limit: int = STEP, reason: str | None = None) -> list[Reaped]:
        with self._step() as space:
            return leasing.retire(space, worker_id, limit, reason)

    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        with self._step() as space:
            return operating.forget(space, silences)

    async def turn(self, chore: str, interval: float) -> bool:
        with self._step() as space:
            return operating.turn(space, chore, interval)

    async def workers(self) -> list[WorkerInfo]:
        with self._step() as space:
            return reading.workers(space)

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        with self._step() as space:
            return operating.cancel(space, ids)

    async def complete(self, job_id: str, step: Finish) -> Verdict:
        with self._step() as space:
            return operating.complete(space, job_id, step)

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        with self._step() as space:
            return operating.retry(space, ids)

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        with self._step() as space:
            return operating.trigger(space, ids)

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        with self._step() as space:
            return operating.release(space, ids)

    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        with self._step() as space:
            return operating.delete(space, ids, cascade=cascade)

    async def pause(self, queue: str) -> bool:
        with self._step() as space:
            return operating.pause(space, queue)

    async def resume(self, queue: str) -> bool:
        with self._step() as space:
            return operating.resume(space, queue)

    async def purge(self, queue: str, limit: int = STEP) -> int:
        with self._step() as space:
            return operating.purge(space, queue, limit)

    async def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int = STEP) -> int:
        with self._step() as space:
            return operating.prune(space, default, queues, limit)

    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        with self._step() as space:
            return reading.get(space, ids)

    async def search(self, search: Search) -> Page:
        with self._step() as space:
            return reading.search(space, search)

    async def run(self, run_id: str) -> RunRecord | None:
        with self._step() as space:
            return reading.run(space, run_id)

    async def runs(self, search: RunSearch) -> RunPage:
        with self._step() as space:
            return reading.runs(space, search)

    async def steps(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        with self._step() as space:
            return reading.steps(space, run_id, limit, cursor)

    async def attributes(self, run_id: str, names: Sequence[str] | None = None) -> dict[str, str]:
        with self._step() as space:
            return reading.attributes(space, run_id, names)

    async def ids(self, prefix: str, limit: int) -> list[str]:
        with self._step() as space:
            return reading.ids(space, prefix, limit)

    async def blockers(self, job_id: str, limit: int = 50) -> list[str]:
        with self._step() as space:
            return reading.blockers(space, job_id, limit)

    async def queues(self) -> list[QueueInfo]:
        with self._step() as space:
            return reading.queues(space)

    async def wait(self, ids: Sequence[str]) -> dict[str, JobRecord | None]:
        with self._step() as space:
            return reading.wait(space, ids, self._mailbox)

    def signals(self) -> AsyncIterator[Signal]:
        return self._mailbox.listen()

    async def watched(self) -> bool:
        with self._step() as space:
            return bool(space.watchers)

    async def publish(self, notes: Sequence[str]) -> None:
        with self._step() as space:
            for mailbox in space.watchers:
                for note in notes:
                    mailbox.post(note)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[AsyncIterator[str]]:
        mailbox = Mailbox[str]()
        with self._step() as space:
            space.watchers.add(mailbox)
            self._watching.add(mailbox)
        try:
            yield mailbox.listen()
        finally:
            self._watching.discard(mailbox)
            with LOCK:
                self._space.watchers.discard(mailbox)
