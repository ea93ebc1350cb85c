"""The contract of stores in plain Python: jobs, queues, keys and edges, and every step that changes them.

A method that is named in the contract is one step of it. The caller holds `LOCK` around it, which is what makes it atomic.
"""

from __future__ import annotations

import math
import os
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice

import msgspec

from tenure.checks import seconds
from tenure.clock import Clock, SystemClock
from tenure.errors import BlockerNotFound, HasDependents, UniqueConflict
from tenure.job import BlockerPolicy, ErrorInfo, JobRecord, NewJob, State
from tenure.lease import AbortReason, Lease, Token
from tenure.lifecycle import (
    EXPIRED,
    WAIT_TIMEOUT,
    Finish,
    Park,
    Requeue,
    after_loss,
    blocker_failed,
    failure_value,
    lost,
)
from tenure.options import Retention
from tenure.stores.base import (
    LEASE_LOST,
    NOT_FOUND,
    OK,
    STEP,
    Enqueued,
    Leased,
    LeaseRequest,
    Page,
    QueueInfo,
    Reaped,
    Renewal,
    Search,
    Settlement,
    Signal,
    SignalKind,
    Totals,
    Verdict,
    WorkerInfo,
    refused,
)
from tenure.stores.memory.listing import find
from tenure.stores.memory.shelves import Edge, Queue, Shelf, StoredJob
from tenure.stores.memory.wakeup import IdleCaller, Mailbox

__all__ = ["LOCK", "Space"]

LOCK = threading.Lock()
"""Held around every step, of whatever space: a fork waits for it, so that no child inherits half a step."""

os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)

DELETED = "deleted"
"""How a blocker has ended that is simply gone."""

AWAITED = 60.0
"""Seconds that the record of a job is kept at least once somebody was told to come for it."""

SILENT = 600.0
"""Seconds of silence after which a worker that holds nothing is forgotten."""


@dataclass(slots=True, eq=False)
class RegisteredWorker:
    info: WorkerInfo
    mailbox: Mailbox
    beat: float
    totals: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Plan:
    """What an enqueue will do, once nothing stands in its way any more."""

    answers: list[tuple[str, bool]] = field(default_factory=list)
    """For each job the id that it led to, and whether that is another's."""

    coming: dict[str, NewJob] = field(default_factory=dict)


class Space:
    """What several store objects of one process share. Its clock is the store's."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._seqs = count(1)
        self._numbers = count(1)
        self._workers: dict[str, RegisteredWorker] = {}
        self._queues: dict[str, Queue] = {}
        self._keys: dict[tuple[str, str], StoredJob] = {}
        """Who holds each unique key, by task and key."""

        self._dependents: defaultdict[str, list[Edge]] = defaultdict(list)
        """The open edges that wait for each job."""

        self._waiters: defaultdict[str, set[Mailbox]] = defaultdict(set)
        self._idle: list[IdleCaller] = []
        self.jobs: dict[str, StoredJob] = {}
        self.arrivals = 0
        """How often a job has come in line."""

    # What producers do.

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        plan = self._plan(jobs)
        for new in plan.coming.values():
            self._add(new)
        answers = [Enqueued(id_, self.jobs[id_].state, duplicate) for id_, duplicate in plan.answers]
        self._drop_unkept([self.jobs[id_] for id_ in plan.coming])
        return answers

    def _plan(self, jobs: Iterable[NewJob], leaving: StoredJob | None = None) -> Plan:
        """Decide about each job, changing nothing; raise if one of them refuses the whole call.

        `leaving` becomes final before these jobs come, so that its key is theirs to take.
        """
        plan = Plan()
        keys: dict[tuple[str, str], str] = {}
        stands_for: dict[str, str] = {}
        doomed: set[str] = set()
        for new in jobs:
            if new.id in self.jobs or new.id in plan.coming:
                plan.answers.append((new.id, False))
                continue
            if new.unique is not None:
                holder = keys.get((new.task, new.unique)) or self._holder(new.task, new.unique, leaving)
                if holder is not None and new.unique_raises:
                    raise UniqueConflict(new.task, new.unique, holder)
                if holder is not None:
                    stands_for[new.id] = holder
                    plan.answers.append((holder, True))
                    continue
            after = tuple(stands_for.get(blocker, blocker) for blocker in new.after)
            for blocker in after:
                if blocker not in self.jobs and blocker not in plan.coming:
                    raise BlockerNotFound(blocker)
            if new.if_blocker_fails is BlockerPolicy.FAIL and any(self._failed(b) or b in doomed for b in after):
                doomed.add(new.id)
            elif new.unique is not None:
                keys[new.task, new.unique] = new.id
            plan.coming[new.id] = msgspec.structs.replace(new, after=after)
            plan.answers.append((new.id, False))
        return plan

    def _add(self, new: NewJob) -> StoredJob:
        now = self._clock.wall()
        run_at = now + new.delay if new.run_at is None else new.run_at
        job = StoredJob(
            new=new,
            number=next(self._numbers),
            created_at=now,
            seq=next(self._seqs),
            run_at=run_at if run_at > now else None,
            expires_at=None if new.expires is None else now + new.expires,
            unique_until=None if new.window is None else now + new.window,
        )
        job.edges = [Edge(job, blocker) for blocker in new.after]
        self.jobs[new.id] = job
        self._queue(new.queue).put(job)
        if new.unique is not None:
            self._keys[new.task, new.unique] = job
        for edge in job.edges:
            self._dependents[edge.blocker].append(edge)
        for blocker in dict.fromkeys(new.after):
            if self.jobs[blocker].state.final:
                self._follow(self.jobs[blocker], self.jobs[blocker].state, only=job)
        if job.state is State.BLOCKED and not job.blocked_by:
            self._join(job, job.run_at)
        return job

    # What workers do.

    def lease(self, request: LeaseRequest) -> Leased:
        names = dict.fromkeys(request.queues)
        queues = [self._queues[name] for name in names if name in self._queues and not self._queues[name].paused]
        for queue in queues:
            self._expire(queue)
            self._promote(queue)
        leases = self._hand_out(queues, request)
        return Leased(
            leases,
            suspect_waiting=not request.solo and any(queue.shelves[Shelf.SUSPECTS] for queue in queues),
            due_in=None if leases else self._due_in(queues),
        )

    def _expire(self, queue: Queue) -> None:
        for id_ in queue.over(Shelf.EXPIRING, self._clock.wall(), STEP):
            # The end of one may have been the end of the next, which waited for it.
            if id_ in self.jobs and not self.jobs[id_].state.final:
                self._end(self.jobs[id_], State.CANCELLED, error=EXPIRED)

    def _promote(self, queue: Queue) -> None:
        for id_ in queue.over(Shelf.SCHEDULED, self._clock.wall(), STEP):
            with self._changing(self.jobs[id_]) as job:
                job.run_at = None
                job.seq = next(self._seqs)

    def _hand_out(self, queues: Sequence[Queue], request: LeaseRequest) -> list[Lease]:
        leases: list[Lease] = []
        for queue in queues:
            room = request.limit - len(leases)
            if room and request.solo and not leases and queue.shelves[Shelf.SUSPECTS]:
                return [self._lease(self.jobs[next(queue.ids(Shelf.SUSPECTS))], request, solo=True)]
            in_line = (self.jobs[id_] for id_ in queue.ids(Shelf.LINE))
            chosen = list(islice((job for job in in_line if not self._expired(job)), room))
            leases += [self._lease(job, request) for job in chosen]
        return leases

    def _lease(self, job: StoredJob, request: LeaseRequest, *, solo: bool = False) -> Lease:
        ttl = request.ttl if job.new.lease is None else job.new.lease
        with self._changing(job):
            job.state = State.RUNNING
            job.attempt += 1
            job.fence += 1
            job.token = Token(job.fence, request.nonce)
            job.worker = request.worker
            job.lease_until = self._clock.boot() + ttl
            job.solo = solo
            job.started_at = self._clock.wall()
            job.progress = None
        return Lease(self._record(job), job.token, ttl, solo)

    def _expired(self, job: StoredJob) -> bool:
        return job.expires_at is not None and job.attempt == 0 and job.expires_at <= self._clock.wall()

    def _due_in(self, queues: Iterable[Queue]) -> float | None:
        due = [queue.shelves[Shelf.SCHEDULED][0][0] for queue in queues if queue.shelves[Shelf.SCHEDULED]]
        return max(0.0, min(due) - self._clock.wall()) if due else None

    def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        return [self._settle(*settlement) for settlement in settlements]

    def _settle(self, lease: Lease, step: Finish | Requeue | Park) -> Verdict:
        job = self.jobs.get(lease.job.id)
        if job is None:
            return NOT_FOUND
        if job.token != lease.token:
            return LEASE_LOST
        if job.state is not State.RUNNING:
            return OK  # The answer to the first time was lost: this very token has settled it.
        match step:
            case Finish():
                return self._settle_finish(job, step)
            case Requeue():
                self._settle_requeue(job, step)
            case Park():
                self._settle_park(job, step)
        return OK

    def _settle_finish(self, job: StoredJob, step: Finish) -> Verdict:
        try:
            plan = self._plan(step.children, leaving=job)
        except UniqueConflict as conflict:
            return refused(str(conflict), other=conflict.holder)
        except BlockerNotFound as missing:
            return refused(str(missing), other=missing.blocker)
        if step.state in {State.SUCCEEDED, State.FAILED}:
            self._count("processed", job.new.queue, job.worker)
        self._end(job, step.state, step.result, step.error, by=job.worker, children=plan.coming.values())
        return OK

    def _settle_requeue(self, job: StoredJob, step: Requeue) -> None:
        if step.counts:
            self._count("processed", job.new.queue, job.worker)
            self._count("retried", job.new.queue, job.worker)
        with self._changing(job):
            job.state = State.WAITING
            job.attempt -= not step.counts
            job.error = step.error or job.error
            if step.missed:
                job.misses += 1
            elif not step.front:
                job.misses = 0
        if step.front:
            self._arrived(job.new.queue)
        else:
            self._join(job, step.run_at if step.run_at is not None else self._clock.wall() + step.delay)

    def _settle_park(self, job: StoredJob, step: Park) -> None:
        with self._changing(job):
            job.state = State.BLOCKED
            job.parked_until = math.inf if step.timeout is None else self._clock.wall() + step.timeout
            job.attempt -= 1
            job.misses = 0
            job.expires_at = None

    def renew(self, renewals: Sequence[Renewal]) -> list[AbortReason | None]:
        return [self._renew(renewal) for renewal in renewals]

    def _renew(self, renewal: Renewal) -> AbortReason | None:
        job = self.jobs.get(renewal.lease.job.id)
        if job is None:
            return AbortReason.NOT_FOUND
        if job.state is State.RUNNING and job.token == renewal.lease.token:
            with self._changing(job):
                if renewal.ttl is not None:
                    job.lease_until = self._clock.boot() + renewal.ttl
                job.progress = renewal.progress or job.progress
            return None
        if job.state is State.CANCELLED:
            return AbortReason.CANCELLED
        return AbortReason.COMPLETED if job.state.final else AbortReason.TAKEN

    def reap(self, queues: Sequence[str], limit: int) -> list[Reaped]:
        known = [self._queues[name] for name in dict.fromkeys(queues) if name in self._queues]
        silent = [id_ for queue in known for id_ in queue.over(Shelf.RUNNING, self._clock.boot(), limit)]
        reaped = [self._lose(self.jobs[id_]) for id_ in silent[:limit]]
        parked = [id_ for queue in known for id_ in queue.over(Shelf.PARKED, self._clock.wall(), limit)]
        for id_ in parked[:limit]:
            self._end(self.jobs[id_], State.FAILED, error=WAIT_TIMEOUT)
        return reaped

    def _lose(self, job: StoredJob) -> Reaped:
        """Take a job from a holder that is silent or gone."""
        worker = job.worker
        loss = after_loss(job.losses, job.new.max_losses, job.solo)
        self._revoke(job, SignalKind.TAKEN)
        self._count("lost", job.new.queue, worker)
        with self._changing(job):
            job.state = State.WAITING
            job.losses = loss.losses
        if loss.failed:
            self._end(job, State.FAILED, error=lost(loss.losses), by=worker)
        else:
            self._arrived(job.new.queue)
        return Reaped(job.new.id, job.new.queue, job.new.task, worker, loss.losses, loss.failed)

    # The end of a job, and what follows from it.

    def _end(
        self,
        job: StoredJob,
        state: State,
        result: str | None = None,
        error: ErrorInfo | None = None,
        *,
        by: str | None = None,
        children: Iterable[NewJob] = (),
    ) -> None:
        """Make a job final, with everything that belongs to the same step. `by`: the worker whose doing it was."""
        self._finish(job, state, result, error, by)
        ended = [job, *self._follow(job, state)]
        self._drop_unkept(ended + [self._add(child) for child in children])

    def _finish(
        self, job: StoredJob, state: State, result: str | None, error: ErrorInfo | None, by: str | None = None
    ) -> None:
        """End one job: its record, key, counters and waiters."""
        with self._changing(job):
            job.state = state
            job.run_at = None
            job.parked_until = None
            job.ended_at = self._clock.wall()
            job.result = result
            job.error = None if state is State.SUCCEEDED else error or job.error
        if job.unique_until is None or state is State.CANCELLED:
            self._free_key(job)
        self._count(state.value, job.new.queue, by)
        if job.new.id in self._waiters:
            job.awaited_until = job.ended_at + AWAITED
            self._tell_waiters(job, SignalKind.DONE)

    def _follow(self, blocker: StoredJob, ended: str, only: StoredJob | None = None) -> list[StoredJob]:
        """Tell the dependents of a job how it ended (`only` one of them), and theirs if that ends them; who ended."""
        failed: list[StoredJob] = []
        following = deque([(blocker, ended)])
        while following:
            blocker, ended = following.popleft()
            edges = [edge for edge in self._dependents.get(blocker.new.id, ()) if only in {None, edge.dependent}]
            for edge in sorted(edges, key=lambda edge: edge.dependent.seq):
                policy = edge.dependent.new.if_blocker_fails
                if ended == State.SUCCEEDED:
                    self._close(edge, blocker.result)
                elif policy is BlockerPolicy.PROCEED:
                    self._close(edge, failure_value(blocker.new.id, ended, blocker.error))
                elif edge.dependent.state is State.BLOCKED and (policy is BlockerPolicy.FAIL or ended == DELETED):
                    self._finish(edge.dependent, State.FAILED, None, blocker_failed(blocker.new.id, ended))
                    following.append((edge.dependent, State.FAILED))
                    failed.append(edge.dependent)
            only = None
        return failed

    def _close(self, edge: Edge, result: str | None) -> None:
        edge.open = False
        edge.result = result
        self._unlink(edge)
        if edge.dependent.state is State.BLOCKED and not edge.dependent.blocked_by:
            self._join(edge.dependent, edge.dependent.run_at)

    def _unlink(self, edge: Edge) -> None:
        edges = self._dependents[edge.blocker]
        edges.remove(edge)
        if not edges:
            del self._dependents[edge.blocker]

    def _drop_unkept(self, jobs: Iterable[StoredJob]) -> None:
        for job in jobs:
            if job.new.keep == 0 and job.state.final and self._removable(job):
                self._remove(job)

    def _removable(self, job: StoredJob) -> bool:
        """Whether nobody has a claim on the record of a final job."""
        now = self._clock.wall()
        window_runs = job.unique_until is not None and job.unique_until > now and self._holds_key(job)
        return job.awaited_until <= now and not window_runs and not self._blocks(job)

    def _remove(self, job: StoredJob) -> None:
        """Take a job out of everything that knows it; its open edges to others vanish, those of others to it stay."""
        self._queue(job.new.queue).take(job)
        del self.jobs[job.new.id]
        self._free_key(job)
        for edge in job.edges:
            if edge.open:
                self._unlink(edge)
        self._tell_waiters(job, SignalKind.DELETED)

    # What operators do.

    def cancel(self, ids: Sequence[str]) -> list[Verdict]:
        return [self._end_from_outside(id_, State.CANCELLED, SignalKind.CANCELLED) for id_ in ids]

    def complete(self, job_id: str, result: str) -> Verdict:
        return self._end_from_outside(job_id, State.SUCCEEDED, SignalKind.COMPLETED, result)

    def _end_from_outside(self, job_id: str, state: State, kind: SignalKind, result: str | None = None) -> Verdict:
        job = self.jobs.get(job_id)
        if job is None:
            return NOT_FOUND
        if job.state.final:
            return refused(f"the job is {job.state} already", state=job.state)
        self._revoke(job, kind)
        self._end(job, state, result)
        return OK

    def retry(self, ids: Sequence[str]) -> list[Verdict]:
        return [self._retry(id_) for id_ in ids]

    def _retry(self, job_id: str) -> Verdict:
        job = self.jobs.get(job_id)
        if job is None:
            return NOT_FOUND
        if not job.state.final:
            return refused(f"the job is {job.state}, not final", state=job.state)
        gone = next((edge.blocker for edge in job.edges if edge.open and edge.blocker not in self.jobs), None)
        if gone is not None:
            return refused(f"job {gone}, which it waits for, is gone", state=job.state, other=gone)
        if job.new.unique is not None and (job.unique_until is None or job.unique_until > self._clock.wall()):
            holder = self._holder(job.new.task, job.new.unique)
            if holder not in {None, job_id}:
                return refused(f"job {holder} holds its unique key", state=job.state, other=holder)
            self._keys[job.new.task, job.new.unique] = job
        with self._changing(job):
            job.state = State.BLOCKED
            job.attempt = job.losses = job.misses = 0
            job.ended_at = job.expires_at = job.result = job.progress = None
            job.awaited_until = 0.0
        if not job.blocked_by:
            self._join(job)
        return OK

    def trigger(self, ids: Sequence[str]) -> list[Verdict]:
        return [self._trigger(id_) for id_ in ids]

    def _trigger(self, job_id: str) -> Verdict:
        job = self.jobs.get(job_id)
        if job is None:
            return NOT_FOUND
        if job.state is not State.WAITING or job.run_at is None:
            return refused(f"the job is {job.state}, not scheduled", state=job.state)
        self._join(job)
        return OK

    def delete(self, ids: Sequence[str], *, cascade: bool) -> list[str]:
        going = {id_: self.jobs[id_] for id_ in ids if id_ in self.jobs}
        looked_at = deque(going.values())
        while looked_at:
            job = looked_at.popleft()
            others = {d.new.id: d for d in self._blocked_on(job) if d.new.id not in going}
            if others and not cascade:
                raise HasDependents(job.new.id, others)
            going |= others
            looked_at.extend(others.values())
        self._delete(going.values())
        return list(going)

    def purge(self, queue: str, limit: int) -> int:
        if queue not in self._queues:
            return 0
        shelves = self._queues[queue]
        newest_first = sorted(shelves.shelves[Shelf.BLOCKED], key=lambda place: -place[1])
        ids = [id_ for _, _, id_ in newest_first]
        for shelf in (Shelf.SCHEDULED, Shelf.LINE, Shelf.SUSPECTS):
            ids += shelves.ids(shelf)
        self._delete([self.jobs[id_] for id_ in ids[:limit]])
        return len(ids[:limit])

    def _delete(self, jobs: Collection[StoredJob]) -> None:
        """Remove jobs that are not to be kept for anybody; only then look who is left waiting for them."""
        for job in jobs:
            self._revoke(job, SignalKind.DELETED)
            self._remove(job)
        for job in jobs:
            self._drop_unkept(self._follow(job, DELETED))

    def pause(self, queue: str) -> bool:
        shelves = self._queue(queue)
        changed, shelves.paused = not shelves.paused, True
        return changed

    def resume(self, queue: str) -> bool:
        if queue not in self._queues or not self._queues[queue].paused:
            return False
        shelves = self._queues[queue]
        shelves.paused = False
        self._arrived(queue, len(shelves.shelves[Shelf.LINE]) + len(shelves.shelves[Shelf.SUSPECTS]))
        return True

    def prune(self, default: Retention, queues: Mapping[str, Retention], limit: int) -> int:
        self._forget_workers()
        going = [
            job for queue in self._queues.values() for job in self._outdated(queue, queues.get(queue.name, default))
        ]
        for job in going[:limit]:
            self._remove(job)
        return len(going[:limit])

    def _outdated(self, queue: Queue, retention: Retention) -> Iterator[StoredJob]:
        """The finished jobs of a queue that retention does not keep."""
        now = self._clock.wall()
        for shelves, age in (
            ((Shelf.SUCCEEDED, Shelf.CANCELLED), seconds(retention.succeeded, "succeeded")),
            ((Shelf.FAILED, Shelf.BROKEN), seconds(retention.failed, "failed")),
        ):
            newest_first = sorted((place for shelf in shelves for place in queue.shelves[shelf]), reverse=True)
            kept = 0
            for ended_at, _, id_ in newest_first:
                job = self.jobs[id_]
                kept += job.new.keep is None
                over = ended_at + (age if job.new.keep is None else job.new.keep) <= now
                if (over or (job.new.keep is None and kept > retention.count)) and self._removable(job):
                    yield job

    # The registry of workers.

    def register(self, worker: WorkerInfo, mailbox: Mailbox) -> None:
        info = msgspec.structs.replace(worker, started_at=self._clock.wall())
        self._workers.pop(worker.id, None)
        self._workers[worker.id] = RegisteredWorker(info, mailbox, self._clock.boot())

    def beat(self, worker_id: str, held: int) -> bool:
        if (worker := self._workers.get(worker_id)) is None:
            return False
        worker.beat = self._clock.boot()
        worker.info = msgspec.structs.replace(worker.info, held=held)
        return True

    def leave(self, worker_id: str) -> None:
        self._workers.pop(worker_id, None)

    def retire(self, worker_id: str, limit: int) -> list[Reaped]:
        held = sorted(place for queue in self._queues.values() for place in queue.shelves[Shelf.RUNNING])
        mine = [self.jobs[id_] for _, _, id_ in held if self.jobs[id_].worker == worker_id]
        reaped = [self._lose(job) for job in mine[:limit]]
        self.leave(worker_id)
        return reaped

    def workers(self) -> list[WorkerInfo]:
        boot = self._clock.boot()
        return [
            msgspec.structs.replace(worker.info, silent_for=boot - worker.beat, totals=Totals(**worker.totals))
            for worker in sorted(self._workers.values(), key=lambda worker: worker.info.started_at)
        ]

    def _forget_workers(self) -> None:
        holders = {self.jobs[id_].worker for queue in self._queues.values() for id_ in queue.ids(Shelf.RUNNING)}
        for id_, worker in list(self._workers.items()):
            if id_ not in holders and self._clock.boot() - worker.beat >= SILENT:
                del self._workers[id_]

    # What everybody reads.

    def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        return [self._record(self.jobs[id_]) if id_ in self.jobs else None for id_ in ids]

    def search(self, search: Search) -> Page:
        found = find(self.jobs.values(), search)
        return Page([self._record(job) for job in found.jobs], found.cursor, found.searched)

    def queues(self) -> list[QueueInfo]:
        return [queue.info() for _, queue in sorted(self._queues.items())]

    def wait(self, ids: Sequence[str], mailbox: Mailbox) -> dict[str, JobRecord | None]:
        found: dict[str, JobRecord | None] = {}
        for id_ in ids:
            job = self.jobs.get(id_)
            if job is None:
                found[id_] = None
            elif job.state.final:
                found[id_] = self._record(job)
            else:
                self._waiters[id_].add(mailbox)
        return found

    # Who is to be woken or told.

    def idle(self, caller: IdleCaller, looked: int) -> bool:
        """Let somebody be woken by the next job in line; False if one has come since they looked."""
        if any(queue.arrived > looked and caller.serves(queue.name) for queue in self._queues.values()):
            return False
        self._idle.append(caller)
        return True

    def busy(self, caller: IdleCaller) -> None:
        if caller in self._idle:
            self._idle.remove(caller)

    def forget(self, mailbox: Mailbox) -> None:
        """Tell this store object nothing more; the workers that it has registered stay in the registry."""
        for id_ in [id_ for id_, boxes in self._waiters.items() if mailbox in boxes]:
            self._waiters[id_].discard(mailbox)
            if not self._waiters[id_]:
                del self._waiters[id_]

    def _arrived(self, queue: str, number: int = 1) -> None:
        """So many jobs have come in line: wake as many of those who wait for that."""
        shelves = self._queues[queue]
        if shelves.paused:
            return
        self.arrivals += 1
        shelves.arrived = self.arrivals
        for caller in [caller for caller in self._idle if caller.serves(queue)][:number]:
            self._idle.remove(caller)
            caller.ring()

    def _revoke(self, job: StoredJob, kind: SignalKind) -> None:
        """End the token of a job and tell its holder, if it has one."""
        if job.state is State.RUNNING and job.worker in self._workers:
            self._workers[job.worker].mailbox.post(Signal(kind, job.new.id))
        job.token = None

    def _tell_waiters(self, job: StoredJob, kind: SignalKind) -> None:
        for mailbox in self._waiters.pop(job.new.id, ()):
            mailbox.post(Signal(kind, job.new.id))

    # Small parts.

    def _queue(self, name: str) -> Queue:
        return self._queues.setdefault(name, Queue(name))

    @contextmanager
    def _changing(self, job: StoredJob) -> Iterator[StoredJob]:
        """Move a job from the shelves that it was on to those that it belongs on after the block."""
        queue = self._queue(job.new.queue)
        queue.take(job)
        yield job
        queue.put(job)

    def _join(self, job: StoredJob, run_at: float | None = None) -> None:
        """Put a job in line, at the back; or let it wait for its time, keeping its seq, if that is yet to come."""
        with self._changing(job):
            job.state = State.WAITING
            if run_at is not None and run_at > self._clock.wall():
                job.run_at = run_at
            else:
                job.run_at = None
                job.seq = next(self._seqs)
        self._arrived(job.new.queue)

    def _count(self, what: str, queue: str, worker: str | None = None) -> None:
        self._queue(queue).totals[what] += 1
        if worker in self._workers:
            self._workers[worker].totals[what] += 1

    def _holder(self, task: str, key: str, leaving: StoredJob | None = None) -> str | None:
        """The id of the job that holds a unique key now."""
        job = self._keys.get((task, key))
        if job is None or (job is leaving and job.unique_until is None):
            return None
        over = job.unique_until is not None and job.unique_until <= self._clock.wall()
        return None if over else job.new.id

    def _holds_key(self, job: StoredJob) -> bool:
        return job.new.unique is not None and self._keys.get((job.new.task, job.new.unique)) is job

    def _free_key(self, job: StoredJob) -> None:
        # Past its window the key may be another's by now.
        if job.new.unique is not None and self._holds_key(job):
            del self._keys[job.new.task, job.new.unique]

    def _blocked_on(self, job: StoredJob) -> list[StoredJob]:
        return [e.dependent for e in self._dependents.get(job.new.id, ()) if e.dependent.state is State.BLOCKED]

    def _blocks(self, job: StoredJob) -> bool:
        return bool(self._blocked_on(job))

    def _failed(self, job_id: str) -> bool:
        return job_id in self.jobs and self.jobs[job_id].state in {State.FAILED, State.CANCELLED, State.BROKEN}

    def _record(self, job: StoredJob) -> JobRecord:
        return job.record(self._clock.boot())
