"""The store contract once more, as simply as it can be said, for comparing real stores with it.

Nothing here is fast or shared with a store: one list of jobs, looked through from end to end for every question. It answers
what a store must answer, and `snapshot` says all that can be seen of it from outside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tenure.clock import Clock
from tenure.job import BlockerPolicy, ErrorInfo, NewJob, Progress, State
from tenure.lease import AbortReason, Lease, Token
from tenure.lifecycle import (
    EXPIRED,
    WAIT_TIMEOUT,
    Finish,
    Park,
    Requeue,
    Transition,
    blocker_failed,
    failure_value,
    lost,
)
from tenure.stores.base import LeaseRequest

__all__ = ["Model", "Refusal"]


class Refusal(Exception):
    """The whole call is refused, and has changed nothing."""


@dataclass
class Job:
    new: NewJob
    number: int
    seq: int
    created_at: float
    run_at: float | None
    expires_at: float | None
    state: State = State.BLOCKED
    results: list[str | None] = field(default_factory=list)
    open: list[bool] = field(default_factory=list)
    holds_key: bool = False
    parked_until: float | None = None
    attempt: int = 0
    losses: int = 0
    fence: int = 0
    misses: int = 0
    token: Token | None = None
    worker: str | None = None
    solo: bool = False
    lease_until: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    result: str | None = None
    error: ErrorInfo | None = None
    progress: Progress | None = None
    awaited: bool = False
    fresh: bool = True
    """Whether it is just being enqueued: the place that it was given is at the back."""

    @property
    def id(self) -> str:
        return self.new.id

    @property
    def place(self) -> str:
        if self.state is State.WAITING and self.run_at is not None:
            return "scheduled"
        return self.state.value


@dataclass
class Worker:
    beat: float
    held: int = 0
    totals: Counter[str] = field(default_factory=Counter)


class Model:
    """A store as the contract describes it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.jobs: list[Job] = []
        self.inbox: list[NewJob] = []
        self.paused: set[str] = set()
        self.known: dict[str, Counter[str]] = {}
        """The totals of every queue that there has ever been."""

        self.workers: dict[str, Worker] = {}
        self.ended_now: list[Job] = []
        """Jobs that became final in the step under way."""

        self.drawn = 0
        self.made = 0

    @property
    def now(self) -> float:
        return self.clock.wall()

    def find(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs if job.id == job_id), None)

    def those(self, test: Callable[[Job], bool]) -> list[Job]:
        return [job for job in self.jobs if test(job)]

    def draw(self) -> int:
        self.drawn += 1
        return self.drawn

    def count(self, what: str, queue: str, worker: str | None = None) -> None:
        self.known[queue][what] += 1
        if worker in self.workers:
            self.workers[worker].totals[what] += 1

    # Enqueue.

    def enqueue(self, jobs: Sequence[NewJob]) -> list[tuple[str, State, bool]]:
        """Try it on a copy, so that a refusal has changed nothing."""
        before = self._save()
        try:
            answers = self._enqueue(jobs)
        except Refusal:
            self._restore(before)
            raise
        return answers

    def _enqueue(self, jobs: Iterable[NewJob]) -> list[tuple[str, State, bool]]:
        stands_for: dict[str, str] = {}
        leads_to: list[tuple[str, bool]] = []
        fresh: list[Job] = []
        for new in jobs:
            if self.find(new.id):
                leads_to.append((new.id, False))
                continue
            holder = self._holder_of(new)
            if holder and new.unique_raises:
                raise Refusal(f"{holder.id} holds the key")
            if holder:
                stands_for[new.id] = holder.id
                leads_to.append((holder.id, True))
                continue
            after = tuple(stands_for.get(blocker, blocker) for blocker in new.after)
            for blocker in after:
                if not self.find(blocker):
                    raise Refusal(f"there is no {blocker}")
            fresh.append(self._insert(new, after))
            leads_to.append((new.id, False))
        # Edges come last: until all are stored, a job that is bound to fail still holds its key.
        for job in fresh:
            self._meet_blockers(job)
        answers = []
        for job_id, duplicate in leads_to:
            job_found = self.find(job_id)
            assert job_found
            answers.append((job_id, job_found.state, duplicate))
        self._sweep()
        return answers

    def _holder_of(self, new: NewJob) -> Job | None:
        if new.unique is None:
            return None
        return next(
            (job for job in self.jobs if job.new.task == new.task and job.new.unique == new.unique and self.holds(job)),
            None,
        )

    def holds(self, job: Job) -> bool:
        """Whether a job holds its unique key at this moment."""
        return job.holds_key and not (job.new.window is not None and job.created_at + job.new.window <= self.now)

    def _insert(self, new: NewJob, after: tuple[str, ...]) -> Job:
        due = self.now + new.delay if new.run_at is None else new.run_at
        self.made += 1
        job = Job(
            new=msgspec.structs.replace(new, after=after),
            number=self.made,
            seq=self.draw(),
            created_at=self.now,
            run_at=due if due > self.now else None,
            expires_at=None if new.expires is None else self.now + new.expires,
            open=[True] * len(after),
            results=[None] * len(after),
            holds_key=new.unique is not None,
        )
        self.jobs.append(job)
        self.known.setdefault(new.queue, Counter())
        return job

    def _meet_blockers(self, job: Job) -> None:
        for blocker_id in dict.fromkeys(job.new.after):
            blocker = self.find(blocker_id)
            assert blocker
            if blocker.state.final:
                self._tell([job], blocker, blocker.state.value)
        if job.state is State.BLOCKED and not any(job.open):
            self._to_the_back(job, job.run_at)
        job.fresh = False

    # The inbox, of jobs rather than of entries: how they are read is not the store's to decide.

    def put_in(self, new: NewJob) -> None:
        self.inbox.append(new)

    def take_in(self, queues: Sequence[str], limit: int) -> int:
        entries = [new for queue in dict.fromkeys(queues) for new in self.inbox if new.queue == queue][:limit]
        for new in entries:
            self.inbox.remove(new)
            self._enqueue([new])
        return len(entries)

    # Lease.

    def lease(self, request: LeaseRequest) -> tuple[list[tuple[str, Token, float, bool]], bool, float | None, bool]:
        queues = [queue for queue in dict.fromkeys(request.queues) if queue in self.known and queue not in self.paused]
        for queue in queues:
            for job in self._expired(queue):
                if not job.state.final:  # by the end of one that it waited for
                    self._finish(job, State.CANCELLED, error=EXPIRED)
                    self._spread(job, "cancelled")
                    self._sweep()
        for queue in queues:
            due_now = [job for job in self._scheduled(queue) if job.run_at is not None and job.run_at <= self.now]
            for job in sorted(due_now, key=lambda job: (job.run_at or 0, job.seq)):
                job.run_at = None
                job.seq = self.draw()
        chosen = self._choose(queues, request)
        handed_out = [self._hand_out(job, request, solo) for job, solo in chosen]
        suspect_waits = any(job.losses >= 2 for queue in queues for job in self.line(queue))
        due = [job.run_at - self.now for queue in queues for job in self._scheduled(queue) if job.run_at is not None]
        inbox = any(new.queue in request.queues for new in self.inbox)
        return handed_out, suspect_waits and not request.solo, min(due) if due and not chosen else None, inbox

    def line(self, queue: str) -> list[Job]:
        """The jobs in line, the next one first, suspects among them."""
        in_line = self.those(lambda job: job.new.queue == queue and job.place == "waiting")
        return sorted(in_line, key=lambda job: (job.new.priority, job.seq))

    def _scheduled(self, queue: str) -> list[Job]:
        return self.those(lambda job: job.new.queue == queue and job.place == "scheduled")

    def _expired(self, queue: str) -> list[Job]:
        expired = self.those(
            lambda job: (
                job.new.queue == queue
                and job.expires_at is not None
                and job.expires_at <= self.now
                and job.attempt == 0
                and not job.state.final
            )
        )
        return sorted(expired, key=lambda job: (job.expires_at or 0, job.seq))

    def _choose(self, queues: Sequence[str], request: LeaseRequest) -> list[tuple[Job, bool]]:
        suspects = [job for queue in queues for job in self.line(queue) if job.losses >= 2]
        if request.solo and suspects and request.limit:
            return [(suspects[0], True)]
        chosen: list[tuple[Job, bool]] = []
        for queue in queues:
            others = [job for job in self.line(queue) if job.losses < 2]
            chosen += [(job, False) for job in others[: request.limit - len(chosen)]]
        return chosen

    def _hand_out(self, job: Job, request: LeaseRequest, solo: bool) -> tuple[str, Token, float, bool]:
        ttl = request.ttl if job.new.lease is None else job.new.lease
        job.state = State.RUNNING
        job.attempt += 1
        job.fence += 1
        job.token = Token(job.fence, request.nonce)
        job.worker = request.worker
        job.solo = solo
        job.started_at = self.now
        job.lease_until = self.clock.boot() + ttl
        return job.id, job.token, ttl, solo

    # Settle and renew.

    def settle(self, lease: Lease, step: Transition) -> str:
        job = self.find(lease.job.id)
        if job is None:
            return "not_found"
        if job.token != lease.token:
            return "lease_lost"
        if job.state is not State.RUNNING:
            return "ok"
        before = self._save()
        try:
            self._apply(job, step)
        except Refusal:
            self._restore(before)
            return "refused"
        return "ok"

    def _apply(self, job: Job, step: Transition) -> None:
        queue, worker = job.new.queue, job.worker
        match step:
            case Finish():
                if step.state is not State.BROKEN:
                    self.count("processed", queue, worker)
                self._finish(job, step.state, step.result, step.error, worker, remember=True)
                self._spread(job, step.state.value)
                self._enqueue(step.children)
            case Requeue():
                if step.counts:
                    self.count("processed", queue, worker)
                    self.count("retried", queue, worker)
                else:
                    job.attempt -= 1
                job.misses = job.misses + 1 if step.missed else job.misses if step.front else 0
                job.error = step.error or job.error
                self._let_go(job)
                if step.front:
                    job.state = State.WAITING
                else:
                    self._to_the_back(job, self.now + step.delay if step.run_at is None else step.run_at)
            case Park():
                job.attempt -= 1
                job.misses = 0
                job.expires_at = None
                job.parked_until = math.inf if step.timeout is None else self.now + step.timeout
                self._let_go(job)
                job.state = State.BLOCKED

    def renew(self, lease: Lease, ttl: float | None, progress: Progress | None) -> AbortReason | None:
        job = self.find(lease.job.id)
        if job is None:
            return AbortReason.NOT_FOUND
        if job.state is State.RUNNING and job.token == lease.token:
            job.lease_until = job.lease_until if ttl is None else self.clock.boot() + ttl
            job.progress = progress or job.progress
            return None
        if job.state is State.CANCELLED:
            return AbortReason.CANCELLED
        return AbortReason.COMPLETED if job.state.final else AbortReason.TAKEN

    # Losses.

    def reap(self, queues: Sequence[str], limit: int) -> list[tuple[str, int, bool]]:
        silent: list[Job] = []
        for queue in dict.fromkeys(queues):
            expired = [
                job for job in self._held() if job.new.queue == queue and (job.lease_until or 0) <= self.clock.boot()
            ]
            silent += expired
        reaped = [self._lose(job) for job in silent[:limit]]
        if len(reaped) < limit:
            parked = self.those(
                lambda job: job.new.queue in queues and job.parked_until is not None and job.parked_until <= self.now
            )
            for job in sorted(parked, key=lambda job: (queues.index(job.new.queue), job.parked_until or 0, job.seq))[
                :limit
            ]:
                self._finish(job, State.FAILED, error=WAIT_TIMEOUT)
                self._spread(job, "failed")
                self._sweep()
        return reaped

    def retire(self, worker_id: str, reason: str | None = None) -> list[tuple[str, int, bool]]:
        reaped = [self._lose(job, reason) for job in self._held() if job.worker == worker_id]
        self.workers.pop(worker_id, None)
        return reaped

    def _held(self) -> list[Job]:
        held = self.those(lambda job: job.state is State.RUNNING)
        return sorted(held, key=lambda job: (job.lease_until or 0, job.seq))

    def _lose(self, job: Job, reason: str | None = None) -> tuple[str, int, bool]:
        self.count("lost", job.new.queue, job.worker)
        job.losses += 1
        most = job.new.max_losses
        failed = 0 < most <= job.losses and (job.solo or most == 1)
        job.token = None
        self._let_go(job)
        job.state = State.WAITING
        job.error = lost(job.losses, reason)
        if failed:
            self._finish(job, State.FAILED, worker=job.worker)
            self._spread(job, "failed")
            self._sweep()
        return job.id, job.losses, failed

    # Ends.

    def _finish(
        self,
        job: Job,
        state: State,
        result: str | None = None,
        error: ErrorInfo | None = None,
        worker: str | None = None,
        *,
        remember: bool = False,
    ) -> None:
        self._let_go(job)
        job.state = state
        job.ended_at = self.now
        job.run_at = job.parked_until = None
        job.result = result
        job.error = None if state is State.SUCCEEDED else error or job.error
        if not remember:
            job.token = None
        if job.new.window is None or state is State.CANCELLED:
            job.holds_key = False
        self.count(state.value, job.new.queue, worker)
        self.ended_now.append(job)

    def _let_go(self, job: Job) -> None:
        job.lease_until = job.progress = None

    def _spread(self, job: Job, how: str) -> None:
        """Let the end of a job work on those who wait for it, level by level."""
        ended = [(job, how)]
        while ended:
            blocker, how = ended.pop(0)
            dependents = [job for job in self.jobs if any(self._waits_on(job, blocker.id))]
            failed = self._tell(sorted(dependents, key=lambda job: job.seq), blocker, how)
            ended += [(job, "failed") for job in failed]

    def _waits_on(self, job: Job, blocker_id: str) -> list[bool]:
        return [is_open and blocker == blocker_id for blocker, is_open in zip(job.new.after, job.open, strict=True)]

    def _tell(self, dependents: Sequence[Job], blocker: Job, how: str) -> list[Job]:
        failed = []
        for job in dependents:
            policy = job.new.if_blocker_fails
            if how == "succeeded" or policy is BlockerPolicy.PROCEED:
                gift = blocker.result if how == "succeeded" else failure_value(blocker.id, how, blocker.error)
                for position, waits in enumerate(self._waits_on(job, blocker.id)):
                    if waits:
                        job.open[position] = False
                        job.results[position] = gift
                if job.state is State.BLOCKED and not any(job.open):
                    self._to_the_back(job, job.run_at)
            elif job.state is State.BLOCKED and (policy is BlockerPolicy.FAIL or how == "deleted"):
                self._finish(job, State.FAILED, error=blocker_failed(blocker.id, how))
                failed.append(job)
        return failed

    def _to_the_back(self, job: Job, run_at: float | None = None) -> None:
        job.state = State.WAITING
        job.run_at = run_at if run_at is not None and run_at > self.now else None
        if job.run_at is None and not job.fresh:
            job.seq = self.draw()

    def _sweep(self) -> None:
        """Remove what is not kept at all."""
        for job in self.ended_now:
            if job.new.keep == 0 and self._removable(job):
                self.jobs.remove(job)
        self.ended_now = []

    def _removable(self, job: Job) -> bool:
        assert job.ended_at is not None
        awaited = job.awaited and job.ended_at + 60 > self.now
        wanted = any(other.state is State.BLOCKED and any(self._waits_on(other, job.id)) for other in self.jobs)
        return not awaited and not wanted and not self.holds(job)

    # Operators.

    def cancel(self, job_id: str) -> str:
        return self._end_from_outside(job_id, State.CANCELLED, None)

    def complete(self, job_id: str, result: str) -> str:
        return self._end_from_outside(job_id, State.SUCCEEDED, result)

    def _end_from_outside(self, job_id: str, state: State, result: str | None) -> str:
        job = self.find(job_id)
        if job is None:
            return "not_found"
        if job.state.final:
            return "refused"
        self._finish(job, state, result)
        self._spread(job, state.value)
        self._sweep()
        return "ok"

    def retry(self, job_id: str) -> str:
        job = self.find(job_id)
        if job is None:
            return "not_found"
        if not job.state.final:
            return "refused"
        if any(is_open and not self.find(blocker) for blocker, is_open in zip(job.new.after, job.open, strict=True)):
            return "refused"
        if job.new.unique is not None and not (
            job.new.window is not None and job.created_at + job.new.window <= self.now
        ):
            holder = self._holder_of(job.new)
            if holder and holder is not job:
                return "refused"
            job.holds_key = True
        job.state = State.BLOCKED
        job.attempt = job.losses = job.misses = 0
        job.token = job.ended_at = job.expires_at = job.result = None
        job.awaited = False
        if not any(job.open):
            self._to_the_back(job)
        return "ok"

    def trigger(self, job_id: str) -> str:
        job = self.find(job_id)
        if job is None:
            return "not_found"
        if job.place != "scheduled":
            return "refused"
        self._to_the_back(job)
        return "ok"

    def delete(self, ids: Sequence[str], *, cascade: bool) -> set[str]:
        going = {job_id for job_id in ids if self.find(job_id)}
        while True:
            left_waiting = {
                job.id
                for job in self.jobs
                if job.state is State.BLOCKED and job.id not in going
                if any(is_open and blocker in going for blocker, is_open in zip(job.new.after, job.open, strict=True))
            }
            if not left_waiting:
                break
            if not cascade:
                raise Refusal(f"{left_waiting} wait")
            going |= left_waiting
        self._remove([job for job in self.jobs if job.id in going])
        return going

    def purge(self, queue: str) -> int:
        here = self.those(lambda job: job.new.queue == queue and job.state in {State.WAITING, State.BLOCKED})
        self._remove(here)
        return len(here)

    def _remove(self, going: list[Job]) -> None:
        self.jobs = [job for job in self.jobs if job not in going]
        for job in going:
            self._spread(job, "deleted")
        self._sweep()

    def pause(self, queue: str) -> bool:
        changed = queue not in self.paused
        self.paused.add(queue)
        self.known.setdefault(queue, Counter())
        return changed

    def resume(self, queue: str) -> bool:
        changed = queue in self.paused
        self.paused.discard(queue)
        return changed

    def prune(self, age: float) -> int:
        """Remove what ended so many seconds ago, or what its own `keep` does not keep."""
        old = self.those(
            lambda job: (
                job.ended_at is not None and job.ended_at + (age if job.new.keep is None else job.new.keep) <= self.now
            )
        )
        going = [job for job in old if self._removable(job)]
        self.jobs = [job for job in self.jobs if job not in going]
        return len(going)

    # Workers and waiters.

    def register(self, worker_id: str) -> None:
        self.workers[worker_id] = Worker(self.clock.boot())

    def beat(self, worker_id: str, held: int) -> bool:
        if worker_id not in self.workers:
            return False
        self.workers[worker_id].beat = self.clock.boot()
        self.workers[worker_id].held = held
        return True

    def forget(self, worker_id: str, silence: float) -> bool:
        worker = self.workers.get(worker_id)
        if (
            worker is None
            or self.clock.boot() - worker.beat < silence
            or worker_id in {job.worker for job in self._held()}
        ):
            return False
        del self.workers[worker_id]
        return True

    def wait(self, ids: Iterable[str]) -> set[str]:
        """The ids that there is nothing to wait for: final, or unknown."""
        answered = set()
        for job_id in ids:
            job = self.find(job_id)
            if job is None or job.state.final:
                answered.add(job_id)
            else:
                job.awaited = True
        return answered

    # What can be seen from outside.

    def snapshot(self) -> dict[str, Any]:
        boot = self.clock.boot()
        return {
            "jobs": {
                job.id: {
                    "state": job.state,
                    "attempt": job.attempt,
                    "losses": job.losses,
                    "fence": job.fence,
                    "misses": job.misses,
                    "run_at": job.run_at,
                    "expires_at": job.expires_at,
                    "worker": job.worker,
                    "started_at": job.started_at,
                    "ended_at": job.ended_at,
                    "lease_left": None if job.lease_until is None else job.lease_until - boot,
                    "result": job.result,
                    "error": job.error,
                    "progress": job.progress,
                    "blocked_by": sum(job.open) + (job.parked_until is not None) if job.state is State.BLOCKED else 0,
                    "results": tuple(job.results),
                }
                for job in self.jobs
            },
            "newest first": [job.id for job in sorted(self.jobs, key=lambda job: -job.number)],
            "lines": {
                queue: [job.id for job in self.line(queue)]
                + [job.id for job in sorted(self._scheduled(queue), key=lambda job: (job.run_at or 0, job.seq))]
                for queue in self.known
            },
            "counts": {queue: self._counts(queue) for queue in self.known},
            "totals": {
                queue: {what: number for what, number in totals.items() if number}
                for queue, totals in self.known.items()
            },
            "paused": {queue for queue in self.paused if queue in self.known},
            "workers": {
                worker_id: (worker.held, boot - worker.beat, dict(worker.totals))
                for worker_id, worker in self.workers.items()
            },
            "keys": {(job.new.task, job.new.unique): job.id for job in self.jobs if self.holds(job)},
        }

    def _counts(self, queue: str) -> dict[str, int]:
        places = Counter(job.place for job in self.jobs if job.new.queue == queue)
        return {place: places[place] for place in ("scheduled", *State)}

    def _save(self) -> tuple[Any, ...]:
        copies = [replace(job, results=list(job.results), open=list(job.open)) for job in self.jobs]
        known = {queue: Counter(totals) for queue, totals in self.known.items()}
        workers = {
            worker_id: replace(worker, totals=Counter(worker.totals)) for worker_id, worker in self.workers.items()
        }
        return copies, known, workers, self.drawn, self.made

    def _restore(self, saved: tuple[Any, ...]) -> None:
        self.jobs, self.known, self.workers, self.drawn, self.made = saved
        self.ended_now = []
