"""`Model`: the operations of a store, on the model's data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tenure.core.job import AttemptEnd, NewJob, Progress, State
from tenure.core.lease import AbortReason, Lease, Token
from tenure.core.lifecycle import EXPIRED, RELEASE, WAIT_TIMEOUT, Finish, Park, Requeue, Transition, lost
from tenure.stores.base import QUIET
from tenure.stores.values import Action, Change, LeaseRequest, Order
from tenure.testing.model.data import Job, Refusal, Worker
from tenure.testing.model.listing import Listing
from tenure.testing.model.measures import Measures
from tenure.testing.model.schedules import Schedules

__all__ = ["HandedOut", "Model"]


class HandedOut(NamedTuple):
    """A lease as the model hands it out."""

    id: str
    token: Token
    ttl: float
    solo: bool
    attributes: dict[str, str] | None


class Model(Schedules, Measures, Listing):
    """A store as the contract describes it."""

    # Producers.

    def enqueue(self, jobs: Sequence[NewJob]) -> list[tuple[str, State, bool]]:
        before = self.save()
        try:
            return self.add(jobs)
        except Refusal:
            self.roll_back(before)
            raise

    def put_in(self, new: NewJob) -> None:
        """Put a job in the inbox.

        The model has jobs there instead of entries, because `core.inbox` reads those, not the store.
        """
        self.inbox.append(new)

    def take_in(self, queues: Sequence[str], limit: int) -> int:
        entries = [new for queue in dict.fromkeys(queues) for new in self.inbox if new.queue == queue][:limit]
        for new in entries:
            self.inbox.remove(new)
            known = self.find(new.id)
            [(_, _, duplicate)] = self.add([new])
            if (job := self.find(new.id)) and not known and not duplicate:
                self.report(Change.ENQUEUED, job)
        return len(entries)

    # Lease.

    def lease(self, request: LeaseRequest) -> tuple[list[HandedOut], bool, float | None, bool, tuple[str, ...]]:
        queues = [queue for queue in dict.fromkeys(request.queues) if queue in self.totals and queue not in self.paused]
        for queue in queues:
            for job in self._expired(queue):
                if not job.state.final:  # because a job that it waited for has expired
                    self.report(Change.EXPIRED, job)
                    self.end(job, State.CANCELLED, EXPIRED)
        for queue in queues:
            due_now = [job for job in self.scheduled(queue) if job.run_at is not None and job.run_at <= self.now]
            for job in sorted(due_now, key=lambda job: (job.run_at or 0, job.seq)):
                job.ready_at = job.run_at or 0.0
                job.run_at = None
                job.seq = self.draw()
        chosen = self._choose(queues, request)
        handed_out = [self._hand_out(job, request, solo) for job, solo in chosen]
        suspect_waits = any(not _may_have(request, job) for job in self._suspects(queues, request))
        left = {job.new.task for queue in queues for job in self.line(queue)}
        passed_over = () if chosen else tuple(task for task in request.skip_tasks if task in left)
        due = [job.run_at - self.now for queue in queues for job in self.scheduled(queue) if job.run_at is not None]
        inbox = any(new.queue in request.queues for new in self.inbox)
        return handed_out, suspect_waits, min(due) if due and not chosen else None, inbox, passed_over

    def _expired(self, queue: str) -> list[Job]:
        expired = self.where(
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
        suspects = [job for job in self._suspects(queues, request) if _may_have(request, job)]
        if suspects and request.limit:
            return [(suspects[0], True)]
        chosen: list[tuple[Job, bool]] = []
        for queue in queues:
            others = [job for job in self.line(queue) if job.losses < 2 and job.new.task not in request.skip_tasks]
            chosen += [(job, False) for job in others[: request.limit - len(chosen)]]
        return chosen

    def _suspects(self, queues: Sequence[str], request: LeaseRequest) -> list[Job]:
        skipped = request.skip_tasks
        return [job for queue in queues for job in self.line(queue) if job.losses >= 2 and job.new.task not in skipped]

    def _hand_out(self, job: Job, request: LeaseRequest, solo: bool) -> HandedOut:
        ttl = min(request.ttl if job.new.lease is None else job.new.lease, request.at_most or math.inf)
        job.state = State.RUNNING
        job.attempt += 1
        job.fence += 1
        job.token = Token(job.fence, request.nonce)
        job.worker = request.worker
        job.solo = solo
        job.started_at = self.now
        job.lease_until = self.clock.boot() + ttl
        step, given = job.new.step, None
        if step is not None:
            has = self.runs[step.run_id].attributes
            given = {name: has[name] for name in step.reads if name in has}
        return HandedOut(job.id, job.token, ttl, solo, given)

    # Settle and renew.

    def settle(self, lease: Lease, transition: Transition) -> str:
        job = self.find(lease.job.id)
        if job is None:
            return "not_found"
        if job.token != lease.token:
            return "lease_lost"
        if job.state is not State.RUNNING:
            return "ok"
        before = self.save()
        try:
            self._apply(job, transition)
        except Refusal:
            self.roll_back(before)
            return "refused"
        return "ok"

    def _apply(self, job: Job, transition: Transition) -> None:
        queue, worker = job.new.queue, job.worker
        match transition:
            case Finish():
                if transition.state is not State.BROKEN:
                    self.count("processed", queue, worker)
                if transition.state is not State.SUCCEEDED:
                    self.enter_attempt(job, AttemptEnd(transition.state.value), transition.error)
                elif transition.output:
                    self.enter_attempt(job, AttemptEnd.SUCCEEDED, None, transition.output)
                self.carry_out(job, transition, worker, settled=True)
            case Requeue():
                if transition.counts:
                    self.count("processed", queue, worker)
                    self.count("retried", queue, worker)
                    self.enter_attempt(job, AttemptEnd.RETRIED, transition.error)
                else:
                    job.attempt -= 1
                job.misses = job.misses + 1 if transition.missed else job.misses if transition.front else 0
                job.error = transition.error or job.error
                self.clear_lease(job)
                if transition.front:
                    job.state = State.WAITING
                else:
                    self.to_the_back(
                        job, self.now + transition.delay if transition.run_at is None else transition.run_at
                    )
            case Park():
                job.attempt -= 1
                job.misses = 0
                job.expires_at = None
                job.parked_until = math.inf if transition.timeout is None else self.now + transition.timeout
                job.on_timeout = transition.on_timeout
                self.clear_lease(job)
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
            silent += [
                job for job in self.held() if job.new.queue == queue and (job.lease_until or 0) <= self.clock.boot()
            ]
        reaped = [self._lose(job) for job in silent[:limit]]
        if len(reaped) < limit:
            parked = self.where(
                lambda job: job.new.queue in queues and job.parked_until is not None and job.parked_until <= self.now
            )
            in_order = sorted(parked, key=lambda job: (queues.index(job.new.queue), job.parked_until or 0, job.seq))
            for job in in_order[:limit]:
                if job.on_timeout is None:
                    self.report(Change.FAILED, job)
                    self.end(job, State.FAILED, WAIT_TIMEOUT)
                else:
                    job.parked_until = None
                    self.to_the_back(job)
                    self.report(Change.OVERDUE, job)
        return reaped

    def retire(self, worker_id: str, reason: str | None = None) -> list[tuple[str, int, bool]]:
        reaped = [self._lose(job, reason) for job in self.held() if job.worker == worker_id]
        self.workers.pop(worker_id, None)
        return reaped

    def _lose(self, job: Job, reason: str | None = None) -> tuple[str, int, bool]:
        self.count("lost", job.new.queue, job.worker)
        job.losses += 1
        most = job.new.max_losses
        failed = 0 < most <= job.losses and (job.solo or most == 1)
        job.token = None
        self.clear_lease(job)
        job.state = State.WAITING
        job.error = lost(job.losses, reason)
        self.enter_attempt(job, AttemptEnd.LOST, job.error)
        if failed:
            self.end(job, State.FAILED, worker=job.worker)
        return job.id, job.losses, failed

    # Operators.

    def complete(self, job_id: str, transition: Finish) -> str:
        return self.end_from_outside(self.find(job_id), transition, AttemptEnd.COMPLETED)

    def retry(self, job_id: str) -> str:
        job = self.resolve(job_id)
        if job is None:
            return "not_found"
        if not job.state.final or job.successor is not None:
            return "refused"
        if any(is_open and not self.find(blocker) for blocker, is_open in zip(job.new.after, job.open, strict=True)):
            return "refused"
        reopened = self.represents(job)
        keyed = [each for each in reopened if each.new.unique is not None and not self.window_is_over(each)]
        for each in keyed:
            if self.owner_of(each.new) not in (None, each):
                return "refused"
        for each in keyed:
            each.owns_key = True
        for each in reopened:
            each.awaited = False
        entered = any(past.fence == job.fence for past in job.attempts)
        if job.state is State.SUCCEEDED and job.token is not None and not entered:
            self.enter_attempt(job, AttemptEnd.SUCCEEDED)
        job.state = State.BLOCKED
        job.attempt = job.losses = job.misses = 0
        job.token = job.ended_at = job.expires_at = job.result = None
        if not any(job.open):
            self.to_the_back(job)
        return "ok"

    def trigger(self, job_id: str) -> str:
        job = self.resolve(job_id)
        if job is None:
            return "not_found"
        if job.place != "scheduled":
            return "refused"
        self.to_the_back(job)
        return "ok"

    def release(self, job_id: str) -> str:
        job = self.resolve(job_id)
        if job is None:
            return "not_found"
        if job.state is not State.RUNNING:
            return "refused"
        self._apply(job, RELEASE)
        job.token = None
        return "ok"

    def delete(self, ids: Sequence[str], *, cascade: bool) -> set[str]:
        going = {each.id for job_id in ids if (job := self.find(job_id)) for each in self.with_run(job)}
        while True:
            left_waiting = {
                each.id
                for job in self.jobs
                if job.state is State.BLOCKED and job.id not in going
                if any(is_open and blocker in going for blocker, is_open in zip(job.new.after, job.open, strict=True))
                for each in self.with_run(job)
            }
            if not left_waiting:
                break
            if not cascade:
                raise Refusal(f"{left_waiting} wait")
            going |= left_waiting
        self.remove([job for job in self.jobs if job.id in going])
        return going

    def purge(self, queue: str) -> int:
        here = self.where(lambda job: job.new.queue == queue and job.state in {State.WAITING, State.BLOCKED})
        self.remove(here)
        return len(here)

    def pause(self, queue: str) -> bool:
        changed = queue not in self.paused
        self.paused.add(queue)
        self.totals.setdefault(queue, Counter())
        return changed

    def resume(self, queue: str) -> bool:
        changed = queue in self.paused
        self.paused.discard(queue)
        return changed

    def note_actions(self, actions: Sequence[Action]) -> None:
        self.actions += [replace(action, at=self.now) for action in actions]

    def prune(self, age: float) -> int:
        """Remove jobs that ended `age` or their own `keep` seconds ago, and forget queues that stayed empty."""
        old = self.where(
            lambda job: (
                job.ended_at is not None and job.ended_at + (age if job.new.keep is None else job.new.keep) <= self.now
            )
        )
        going = [job for job in old if self.removable(job)]
        self.drop([each for job in going for each in self.with_run(job)])
        used = {job.new.queue for job in self.jobs} | {new.queue for new in self.inbox} | self.paused
        for queue in set(self.totals) - used:
            totals = self.totals[queue].total()
            since, before = self.quiet.get(queue, (math.inf, 0))
            if since > self.now or before != totals:
                self.quiet[queue] = self.now, totals
            elif since <= self.now - QUIET:
                del self.totals[queue], self.quiet[queue]
        return len(going)

    # Workers and waiters.

    def register(self, worker_id: str) -> None:
        self.workers[worker_id] = Worker(self.clock.boot())

    def beat(self, worker_id: str, held: int) -> Order | None:
        if worker_id not in self.workers:
            return None
        self.workers[worker_id].beat = self.clock.boot()
        self.workers[worker_id].held = held
        return self.workers[worker_id].order

    def order(self, worker_id: str, order: Order) -> bool:
        if worker_id in self.workers:
            self.workers[worker_id].order = order
        return worker_id in self.workers

    def forget(self, worker_id: str, silence: float) -> bool:
        worker = self.workers.get(worker_id)
        if (
            worker is None
            or self.clock.boot() - worker.beat < silence
            or worker_id in {job.worker for job in self.held()}
        ):
            return False
        del self.workers[worker_id]
        return True

    def wait(self, ids: Iterable[str]) -> dict[str, str | None]:
        """The id of the final job for each id that is final, None for each that does not exist."""
        answered: dict[str, str | None] = {}
        for job_id in ids:
            named, job = self.find(job_id), self.resolve(job_id)
            if named is None or job is None:
                answered[job_id] = None
            elif job.state.final:
                answered[job_id] = job.id
            else:
                named.awaited = True
        return answered


def _may_have(request: LeaseRequest, suspect: Job) -> bool:
    return request.solo or suspect.new.task in request.isolated
