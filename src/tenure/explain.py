"""explain: reads the state of a job, its queue and the workers, and says why the job does not run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from tenure.core.inbox import UNREAD
from tenure.core.job import JobRecord, State
from tenure.core.lifecycle import EXPIRED, Policy, exhausted, lost
from tenure.core.patterns import serves
from tenure.core.reasons import (
    AttemptsUsedUp,
    AwaitsCompletion,
    BlockedBy,
    Blocker,
    Broken,
    Expired,
    Failed,
    Finished,
    HandedOver,
    Held,
    HolderMissing,
    InLine,
    LossesUsedUp,
    NotFound,
    NoWorker,
    Orphaned,
    Paused,
    Reason,
    Scheduled,
    Suspect,
    TaskUnknown,
    WorkersInTrouble,
)
from tenure.stores.base import Store
from tenure.stores.values import QueueInfo, Search, WorkerInfo

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Case", "Explanation", "explain", "explain_by", "reasons"]

BLOCKERS = 10
"""Most blockers of a job that are read."""

AHEAD = 100
"""Most jobs before a job in its queue that are counted."""

ENDED = {State.SUCCEEDED: "has succeeded", State.FAILED: "has failed", State.CANCELLED: "was cancelled"}


class Explanation(msgspec.Struct, frozen=True):
    """Why a job does not run, as read from the store at one moment."""

    id: str
    """Id of the job; for a run, id of its current step."""

    task: str | None
    queue: str | None
    state: State | None
    """State of the job; None if there is no such job."""

    summary: str
    """One sentence about the state."""

    reasons: tuple[Reason, ...]
    """The reasons, the most decisive one first."""

    schedule: str | None = None
    """Name of the schedule that has enqueued the job; None if none has."""

    tick: datetime | None = None
    """The tick of the schedule that it was enqueued for, in UTC."""

    def __str__(self) -> str:
        lines = (f"{each.sentence}. {each.advice}".rstrip() for each in self.reasons)
        return "\n".join([self.summary, *(f"- {line}" for line in lines)])


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What was read about a job, its queue, its blockers and the workers."""

    job: JobRecord
    now: float
    """Seconds since the epoch, by the clock of this machine."""

    queue: QueueInfo | None = None
    workers: tuple[WorkerInfo, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    """The first `BLOCKERS` of the jobs that it waits for."""

    ahead: int | None = None
    """Number of jobs before it in its queue; None: more than `AHEAD`."""

    policy: Policy | None = None
    """Retry policy of its task; None if the task is not registered here."""

    @property
    def serving(self) -> list[WorkerInfo]:
        """Live workers that serve its queue. An app that leases jobs by hand is registered too, but runs none."""
        return [worker for worker in self._serving if not worker.missing]

    @property
    def reaping(self) -> list[str]:
        """Ids of those that recover jobs of its queue: live workers, and apps that lease its jobs by hand."""
        return [each.id for each in self.workers if not each.missing and serves(each.queues, self.job.queue)]

    @property
    def missing(self) -> list[WorkerInfo]:
        """Workers that serve its queue and are missing."""
        return [worker for worker in self._serving if worker.missing]

    @property
    def _serving(self) -> Iterator[WorkerInfo]:
        return (
            worker
            for worker in self.workers
            if (worker.lanes or worker.tasks) and serves(worker.queues, self.job.queue)
        )


def reasons(case: Case) -> tuple[Reason, ...]:
    """Reasons why the job does not run, the most decisive one first. For a job that runs or has ended, one reason that says so."""
    match case.job.state:
        case State.WAITING:
            return tuple(_waiting(case))
        case State.BLOCKED:
            return (_blocked(case),)
        case State.RUNNING:
            return (_running(case),)
        case _:
            return (_ended(case),)


def _waiting(case: Case) -> Iterator[Reason]:
    job = case.job
    if job.expires_at is not None and job.attempt == 0 and job.expires_at <= case.now:
        yield Expired(job.id, job.expires_at, cancelled=False)
    if case.queue is not None and case.queue.paused:
        yield Paused(job.queue)
    if not (due := job.run_at is None or job.run_at <= case.now):
        assert job.run_at is not None
        yield Scheduled(job.id, job.run_at, job.run_at - case.now, job.attempt, job.error)
    serving = case.serving
    knowing = [worker for worker in serving if job.task in worker.tasks or job.task == UNREAD]
    if not serving:
        yield NoWorker(job.queue, tuple(worker.id for worker in case.missing))
    elif not knowing:
        yield TaskUnknown(job.task, job.queue, tuple(worker.id for worker in serving))
    elif all(worker.trouble for worker in knowing):
        yield WorkersInTrouble({worker.id: worker.trouble for worker in knowing})
    if job.suspect:
        yield Suspect(job.losses, job.max_losses)
    if due:
        more = case.ahead is None
        ahead = AHEAD if case.ahead is None else case.ahead
        passing = tuple(worker.id for worker in serving if worker not in knowing) if knowing else ()
        yield InLine(ahead, job.priority, more, tuple(worker.id for worker in knowing), passing)


def _blocked(case: Case) -> Reason:
    job = case.job
    if not case.blockers:
        return AwaitsCompletion(job.id)
    return BlockedBy(case.blockers, max(job.blocked_by - len(case.blockers), 0))


def _running(case: Case) -> Reason:
    job = case.job
    holder, left = job.worker or "", job.lease_left or 0.0
    if left <= 0:
        return Orphaned(job.queue, holder, -left, tuple(each for each in case.reaping if each != holder))
    registered = next((worker for worker in case.workers if worker.id == holder), None)
    if registered is None or registered.missing:
        return HolderMissing(holder, left, None if registered is None else registered.silent_for)
    return Held(holder, job.started_at or 0.0, left)


def _ended(case: Case) -> Reason:
    job, error = case.job, case.job.error
    kind = None if error is None else error.type
    match job.state:
        case State.SUCCEEDED if job.successor is not None and job.run_id is not None:
            return HandedOver(job.run_id, job.successor)
        case State.CANCELLED if kind == EXPIRED.type and job.attempt == 0:
            return Expired(job.id, job.expires_at or job.ended_at or 0.0, cancelled=True)
        case State.BROKEN:
            return Broken(job.id, error)
        case State.FAILED if kind == lost(0).type and 0 < job.max_losses <= job.losses:
            return LossesUsedUp(job.id, job.losses, job.max_losses, error)
        case State.FAILED if (limit := _limit(case)) is not None:
            return AttemptsUsedUp(job.id, job.attempt - job.losses, limit, error)
        case State.FAILED:
            return Failed(job.id, job.attempt, error)
        case _:
            return Finished(job.id, job.state, job.ended_at or 0.0)


def _limit(case: Case) -> int | None:
    """Attempts that the job had; None if they are not used up."""
    job, policy = case.job, case.policy or Policy(max_attempts=None)
    if job.attempt == 0 or not exhausted(job, policy):
        return None
    return policy.max_attempts if job.max_attempts is None else job.max_attempts


async def explain(app: App, job_id: str) -> Explanation:
    """Read everything about a job, or the current step of a run, and explain why it does not run."""
    store = app.internals.session.store
    return await explain_by(app, store, job_id, await store.queues(), await store.workers())


async def explain_by(
    app: App, store: Store, job_id: str, queues: Sequence[QueueInfo], workers: Sequence[WorkerInfo]
) -> Explanation:
    """As `explain`, with queues and workers that were read already."""
    job = await _current_job(store, job_id)
    if job is None:
        live = [worker for worker in workers if not worker.missing]
        unserved = tuple(q.name for q in queues if not any(serves(worker.queues, q.name) for worker in live))
        missing = NotFound(job_id, unserved)
        return Explanation(job_id, None, None, None, f"No job has the id {job_id}.", (missing,))
    case = Case(
        job=job,
        now=time.time(),
        queue=next((queue for queue in queues if queue.name == job.queue), None),
        workers=tuple(workers),
        blockers=await _blockers(store, job) if job.state is State.BLOCKED else (),
        ahead=await _ahead(store, job) if job.state is State.WAITING else 0,
        policy=app.internals.settings(job.task).policy if job.task in app.tasks else None,
    )
    state = ENDED.get(job.state, f"is {job.label}")
    summary = f"Job {job.id} of task {job.task} {state} in queue {job.queue}{_origin(job)}."
    return Explanation(
        job.id, job.task, job.queue, job.state, summary, reasons(case), schedule=job.schedule, tick=job.tick
    )


def _origin(job: JobRecord) -> str:
    if job.schedule is None or job.tick is None:
        return ""
    return f"; schedule {job.schedule} enqueued it for the tick {job.tick:%Y-%m-%d %H:%M:%S} UTC"


async def _current_job(store: Store, job_id: str) -> JobRecord | None:
    """The job with this id. If it is the first job of a run that has gone on, the job of the current step."""
    [job] = await store.get([job_id])
    if job is not None and job.run_id == job.id and job.successor is not None:
        run = await store.run(job.id)
        return None if run is None else run.step
    return job


async def _blockers(store: Store, job: JobRecord) -> tuple[Blocker, ...]:
    """The jobs that it waits for. A run is listed with its id and the state of its current step."""
    found = [(id_, await _current_job(store, id_)) for id_ in await store.blockers(job.id, BLOCKERS)]
    return tuple(Blocker(id_, each.task, each.queue, each.state) for id_, each in found if each is not None)


async def _ahead(store: Store, job: JobRecord) -> int | None:
    """Number of jobs before this one in its queue; None if there are more than `AHEAD`."""
    page = await store.search(Search(state=State.WAITING, queue=job.queue, limit=AHEAD + 1))
    return next((place for place, each in enumerate(page.jobs) if each.id == job.id), None)
