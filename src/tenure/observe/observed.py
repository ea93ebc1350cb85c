"""`ObservedStore`: passes calls on to a store, and emits the events that follow from what was asked and answered."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, TypeVar, cast

from tenure import events
from tenure.core.job import JobRecord, NewJob, State
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Finish
from tenure.core.schedule import Firing, Overlap, SchedulePut, TickRecord
from tenure.events import Event
from tenure.observe import derived_events
from tenure.observe.audience import Audience
from tenure.observe.publisher import EventPublisher
from tenure.stores.base import BATCH, Store
from tenure.stores.callers import Work
from tenure.stores.values import (
    Change,
    Consequence,
    Enqueued,
    Leased,
    LeaseRequest,
    Reaped,
    Renewal,
    Settlement,
    Unchanged,
    Verdict,
    VerdictKind,
    WorkerInfo,
)

__all__ = ["observed"]

T = TypeVar("T")
Call = Coroutine[Any, Any, T]

COMMIT_TIMEOUT = 60.0
"""Seconds that a caller's transaction has to commit. After that no events are emitted for its jobs."""

PROBE = 10
"""Number of jobs of such a transaction that are looked up: if one is there, all are."""

log = logging.getLogger("tenure")

# Kinds of events that may happen with each call.
CHANGES = events.bits_of(derived_events.BY_CHANGE.values()) | events.RunEnded.bit
ENQUEUES = derived_events.CREATION | CHANGES
LEASES = events.Leased.bit | CHANGES
SETTLES = derived_events.ENDS | CHANGES
BOTH = SETTLES | LEASES
RENEWS = events.Renewed.bit | events.LeaseLost.bit
FIRES = ENQUEUES | events.bits_of([events.ScheduleEvent]) | events.Cancelled.bit
LOSSES = events.Lost.bit | events.Failed.bit | events.RunEnded.bit


def observed(store: Store, audience: Audience) -> Store:
    """`store`, for the running event loop, with calls that emit events to `audience`."""
    return cast("Store", ObservedStore(store, audience))


class ObservedStore:
    """A store whose calls emit events. Every event of Tenure that a store is involved in comes from here.

    While no events are wanted, a call costs one comparison more. An observed call costs no extra round trip, except a
    deletion: what an event must know beyond the answer is read afterwards, in the background.
    """

    def __init__(self, store: Store, audience: Audience) -> None:
        self._store = store
        self._audience = audience
        self._publisher = EventPublisher(store, audience, self._follow_consequences)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _unwanted(self, kinds: int) -> bool:
        """Whether no events of these kinds are wanted, and it is not time for a check."""
        audience = self._audience
        return not audience.wants & kinds and monotonic() < audience.check_at

    # Producers.

    def enqueue(self, jobs: Sequence[NewJob]) -> Call[list[Enqueued]]:
        if self._unwanted(ENQUEUES):
            return self._store.enqueue(jobs)
        return self._enqueue(jobs)

    async def _enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        self._follow_consequences()
        answers = await self._store.enqueue(jobs)
        if not self._unwanted(derived_events.CREATION):
            self._emit(derived_events.enqueued, jobs, answers)
        return answers

    def enqueue_now(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        answers = self._store.enqueue_now(jobs)
        if answers is not None and not self._unwanted(derived_events.CREATION):
            self._emit(derived_events.enqueued, jobs, answers, publish_soon=self._publisher.publish_soon_threadsafe)
        return answers

    def enqueueing(self, jobs: Sequence[NewJob]) -> Work[list[Enqueued]]:
        """The work of the store. Its events are emitted once the caller's transaction is seen to have committed."""
        work = self._store.enqueueing(jobs)
        if jobs and not self._unwanted(derived_events.CREATION):
            self._publisher.run_in_background_threadsafe(self._committed, list(jobs))
        return work

    async def _committed(self, jobs: Sequence[NewJob]) -> None:
        """Emit the events of these jobs once they exist; never, if they do not within `COMMIT_TIMEOUT`."""
        begun, pause = monotonic(), 0.05
        first = [job.id for job in jobs[:PROBE]]
        await self._publisher.check_watched()
        while self._audience.wants & derived_events.CREATION and not any(await self._store.get(first)):
            if self._publisher.closing or monotonic() - begun > COMMIT_TIMEOUT:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        if not self._audience.wants & derived_events.CREATION:
            return
        ids = [job.id for job in jobs]
        records = [
            found for begin in range(0, len(ids), BATCH) for found in await self._store.get(ids[begin : begin + BATCH])
        ]
        committed = [(job, Enqueued(job.id, found.state)) for job, found in zip(jobs, records, strict=True) if found]
        self._emit(derived_events.enqueued, *zip(*committed, strict=True))

    # Workers.

    def lease(self, request: LeaseRequest) -> Call[Leased]:
        if self._unwanted(LEASES):
            return self._store.lease(request)
        return self._lease(request)

    async def _lease(self, request: LeaseRequest) -> Leased:
        self._follow_consequences()
        leased = await self._store.lease(request)
        self._emit(derived_events.leased, request, leased)
        return leased

    def settle(self, settlements: Sequence[Settlement]) -> Call[list[Verdict]]:
        if self._unwanted(SETTLES):
            return self._store.settle(settlements)
        return self._settle(settlements)

    async def _settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        self._follow_consequences()
        verdicts = await self._store.settle(settlements)
        self._emit(derived_events.settled, settlements, verdicts, self._audience.durations)
        return verdicts

    def settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> Call[tuple[list[Verdict], Leased]]:
        audience = self._audience
        # `not self._unwanted(BOTH)` without the call, because every job of a busy worker comes by here.
        if audience.wants & BOTH or monotonic() >= audience.check_at:
            return self._settle_and_lease(settlements, request)
        return self._store.settle_and_lease(settlements, request)

    async def _settle_and_lease(
        self, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> tuple[list[Verdict], Leased]:
        self._follow_consequences()
        answer = await self._store.settle_and_lease(settlements, request)
        self._emit(derived_events.settled_and_leased, settlements, request, answer, self._audience.durations)
        return answer

    def renew(self, renewals: Sequence[Renewal]) -> Call[Sequence[AbortReason | Unchanged | None]]:
        if self._unwanted(RENEWS):
            return self._store.renew(renewals)
        return self._renew(renewals)

    async def _renew(self, renewals: Sequence[Renewal]) -> Sequence[AbortReason | Unchanged | None]:
        answers = await self._store.renew(renewals)
        self._emit(derived_events.renewed, renewals, answers)
        return answers

    async def reap(self, queues: Sequence[str], limit: int = BATCH) -> list[Reaped]:
        self._follow_consequences()
        reaped = await self._store.reap(queues, limit)
        self._emit_lost(reaped)
        return reaped

    def _emit_lost(self, reaped: Sequence[Reaped]) -> None:
        if not reaped or self._unwanted(LOSSES):
            return
        self._emit(derived_events.lost, reaped)
        self._emit_failed_without_worker({job.id: job for job in reaped if job.failed})

    async def take_in(self, queues: Sequence[str], limit: int = BATCH, **options: Any) -> int:
        self._follow_consequences()
        return await self._store.take_in(queues, limit, **options)

    # The registry.

    async def register(self, worker: WorkerInfo) -> None:
        await self._store.register(worker)
        self._emit_one(derived_events.started(time.time(), worker))

    async def leave(self, worker_id: str) -> None:
        await self._store.leave(worker_id)
        self._emit_one(events.WorkerStopped(time.time(), worker_id))

    async def retire(self, worker_id: str, limit: int = BATCH, reason: str | None = None) -> list[Reaped]:
        self._follow_consequences()
        reaped = await self._store.retire(worker_id, limit, reason)
        if len(reaped) < limit:  # else the caller calls again
            self._emit_one(events.WorkerRetired(time.time(), worker_id, reason or ""))
        self._emit_lost(reaped)
        return reaped

    async def forget(self, silences: Mapping[str, float]) -> list[str]:
        gone = await self._store.forget(silences)
        for worker_id in gone:
            self._emit_one(events.WorkerPruned(time.time(), worker_id))
        return gone

    async def workers(self) -> list[WorkerInfo]:
        found = await self._store.workers()
        known = self._audience.missing_workers
        for worker in found:
            if worker.missing and worker.id not in known:
                known.add(worker.id)
                self._emit_one(events.WorkerMissing(time.time(), worker.id, worker.silent_for))
        if known:
            known.intersection_update(worker.id for worker in found if worker.missing)
        return found

    def _emit_one(self, event: Event) -> None:
        self._audience.emit_if_wanted(event, self._publisher.publish_soon)

    # Operators.

    async def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        return await self._operate(events.Cancelled, self._store.cancel, ids, State.CANCELLED)

    async def retry(self, ids: Sequence[str]) -> list[Verdict]:
        return await self._operate(events.Revived, self._store.retry, ids)

    async def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        return await self._operate(events.Triggered, self._store.trigger, ids)

    async def release(self, ids: Sequence[str]) -> list[Verdict]:
        return await self._operate(events.Released, self._store.release, ids)

    async def _operate(
        self,
        kind: type[events.JobEvent],
        action: Callable[[Sequence[str]], Awaitable[list[Verdict]]],
        ids: Sequence[str],
        end: State | None = None,
    ) -> list[Verdict]:
        self._follow_consequences()
        verdicts = await action(ids)
        done = [job_id for job_id, verdict in zip(ids, verdicts, strict=True) if verdict.kind is VerdictKind.OK]
        if done and not self._unwanted(kind.bit | events.RunEnded.bit):
            self._publisher.run_in_background(self._operated, kind, done, time.time(), end)
        return verdicts

    async def _operated(
        self, kind: type[events.JobEvent] | None, ids: Sequence[str], at: float, end: State | None
    ) -> None:
        records = [await self._current(record) for record in await self._store.get(ids)]
        self._emit(derived_events.operated, kind, ids, records, end, at=at)

    async def _current(self, job: JobRecord | None) -> JobRecord | None:
        """The current step if the job is a run's first step that has handed over; else the job itself."""
        if job is not None and job.successor is not None and job.run_id == job.id:
            run = await self._store.run(job.id)
            return job if run is None else run.step
        return job

    async def complete(self, job_id: str, transition: Finish) -> Verdict:
        self._follow_consequences()
        verdict = await self._store.complete(job_id, transition)
        if verdict.kind is VerdictKind.OK and not self._unwanted(events.Completed.bit | derived_events.CREATION):
            self._publisher.run_in_background(self._completed, job_id, transition, time.time())
        return verdict

    async def _completed(self, job_id: str, transition: Finish, at: float) -> None:
        [record] = await self._store.get([job_id])
        self._emit(derived_events.completed, job_id, transition, record, at=at)

    async def delete(self, ids: Sequence[str], *, cascade: bool = False) -> list[str]:
        self._follow_consequences()
        if self._unwanted(events.Deleted.bit):
            return await self._store.delete(ids, cascade=cascade)
        known = {job.id: job for job in await self._store.get(ids) if job is not None}
        gone = await self._store.delete(ids, cascade=cascade)
        self._emit(derived_events.operated, events.Deleted, gone, [known.get(job_id) for job_id in gone])
        return gone

    async def pause(self, queue: str) -> bool:
        paused = await self._store.pause(queue)
        if paused:
            self._emit_one(events.QueuePaused(time.time(), queue))
        return paused

    async def resume(self, queue: str) -> bool:
        resumed = await self._store.resume(queue)
        if resumed:
            self._emit_one(events.QueueResumed(time.time(), queue))
        return resumed

    async def purge(self, queue: str, limit: int = BATCH) -> int:
        self._follow_consequences()
        purged = await self._store.purge(queue, limit)
        if purged:
            self._emit_one(events.QueuePurged(time.time(), queue, purged))
        return purged

    # Schedules.

    async def put_schedules(self, puts: Sequence[SchedulePut]) -> list[bool]:
        answers = await self._store.put_schedules(puts)
        self._emit(derived_events.put, puts, answers)
        return answers

    async def fire(self, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
        self._follow_consequences()
        answers = await self._store.fire(firings)
        if not self._unwanted(FIRES):
            self._emit(derived_events.fired, firings, answers)
            made = [
                (firing.overlap, job, entry)
                for firing, fired in zip(firings, answers, strict=True)
                for (_, job), entry in zip(firing.jobs, fired or (), strict=fired is not None)
                if entry.enqueued
            ]
            waiting = [job for overlap, job, _ in made if overlap is Overlap.WAIT]
            replaced = [entry.replaced for _, _, entry in made if entry.replaced is not None]
            if waiting:
                self._publisher.run_in_background(self._fired, waiting, time.time())
            if replaced:
                self._publisher.run_in_background(
                    self._operated, events.Cancelled, replaced, time.time(), State.CANCELLED
                )
        return answers

    async def _fired(self, jobs: Sequence[NewJob], at: float) -> None:
        """Emit the events of jobs that were enqueued to wait for the last one of their schedule, if there was one."""
        records = await self._store.get([job.id for job in jobs])
        blocked = {record.id for record in records if record is not None and record.state is State.BLOCKED}
        answers = [Enqueued(job.id, State.BLOCKED if job.id in blocked else State.WAITING) for job in jobs]
        self._emit(derived_events.enqueued, jobs, answers, at=at)

    # Consequences for jobs that the caller did not name.

    def _follow_consequences(self) -> None:
        """Have the store report consequences, if any of their events are wanted."""
        self._store.on_consequences = None if self._unwanted(CHANGES) else self._emit_consequences

    def _emit_consequences(self, consequences: Sequence[Consequence]) -> None:
        self._emit(derived_events.followed, consequences)
        self._emit_failed_without_worker({each.job_id: each for each in consequences if each.change is Change.FAILED})
        expired = [each.job_id for each in consequences if each.change is Change.EXPIRED]
        if expired and not self._unwanted(events.RunEnded.bit):
            self._publisher.run_in_background(self._operated, None, expired, time.time(), State.CANCELLED)

    def _emit_failed_without_worker(self, jobs: Mapping[str, Consequence | Reaped]) -> None:
        if jobs and not self._unwanted(events.Failed.bit | events.RunEnded.bit):
            self._publisher.run_in_background(self._look_up_failed, time.time(), jobs)

    async def _look_up_failed(self, at: float, jobs: Mapping[str, Consequence | Reaped]) -> None:
        records = await self._store.get(list(jobs))
        self._emit(derived_events.failed_without_worker, list(jobs.values()), records, at=at)

    # Emitting.

    def _emit(
        self,
        derive: Callable[..., Iterable[Event]],
        *args: Any,
        at: float | None = None,
        publish_soon: Callable[[], None] | None = None,
    ) -> None:
        """Emit what one of the functions of `derived_events` returns. An error is logged: the call itself has succeeded."""
        audience = self._audience
        try:
            audience.emit(
                list(derive(audience.current_wants(), at or time.time(), *args)),
                publish_soon or self._publisher.publish_soon,
            )
        except Exception:
            log.exception("internal error: the events of a call could not be emitted")

    async def close(self) -> None:
        """Publish what is pending, if that is done soon, and close the store."""
        await self._publisher.close()
        await self._store.close()
