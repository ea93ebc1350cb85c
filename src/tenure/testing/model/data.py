"""`ModelData`: the jobs, runs, schedules, workers and queues of the model, and what callers can see of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tenure.core.clock import Clock
from tenure.core.job import HISTORY, AttemptEnd, AttemptRecord, ErrorInfo, NewJob, Progress, State, Writes
from tenure.core.lease import Token
from tenure.core.measures import HistoryWrite, Mark
from tenure.core.schedule import ScheduleRecord, TickRecord
from tenure.stores.values import ACTIONS, ACTIONS_KEPT, Action, Change, Consequence, EdgeInfo, Order

__all__ = ["Job", "ModelData", "Refusal", "Run", "Schedule", "Worker"]


class Refusal(Exception):
    """The whole call is refused and has changed nothing."""


@dataclass
class Job:
    new: NewJob
    number: int
    seq: int
    created_at: float
    run_at: float | None
    expires_at: float | None
    ready_at: float
    state: State = State.BLOCKED
    results: list[str | None] = field(default_factory=list)
    open: list[bool] = field(default_factory=list)
    owns_key: bool = False
    parked_until: float | None = None
    on_timeout: str | None = None
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
    attempts: tuple[AttemptRecord, ...] = ()
    successor: str | None = None
    awaited: bool = False
    fresh: bool = True
    """Whether it is being enqueued by the current operation, so that its seq is new."""

    @property
    def id(self) -> str:
        return self.new.id

    @property
    def place(self) -> str:
        if self.state is State.WAITING and self.run_at is not None:
            return "scheduled"
        return self.state.value


@dataclass
class Run:
    flow: str
    attributes: dict[str, str] = field(default_factory=dict)
    lookups: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def write(self, writes: Writes | None) -> None:
        if writes is not None:
            self.attributes |= writes.attributes
            self.lookups |= writes.lookups


@dataclass
class Schedule:
    name: str
    seen_at: float
    settings: str = ""
    version: int = 0
    next: float | None = None
    active: bool = True
    tick: float | None = None
    last: str | None = None
    history: list[TickRecord] = field(default_factory=list)

    @property
    def record(self) -> ScheduleRecord:
        return ScheduleRecord(
            name=self.name,
            settings=self.settings,
            version=self.version,
            next=self.next,
            active=self.active,
            tick=self.tick,
            last=self.last,
            seen_at=self.seen_at,
            history=tuple(self.history),
        )


@dataclass
class Worker:
    beat: float
    held: int = 0
    order: Order = Order.GO_ON
    totals: Counter[str] = field(default_factory=Counter)


class ModelData:
    """The data of the model, and snapshots of it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.jobs: list[Job] = []
        """In the order of enqueueing."""

        self.runs: dict[str, Run] = {}
        self.schedules: list[Schedule] = []
        self.written: list[tuple[float, HistoryWrite]] = []
        """Everything that was written to the history, with its time."""

        self.marks: list[Mark] = []
        self.actions: list[Action] = []
        """Everything that operators have done, the latest last."""

        self.inbox: list[NewJob] = []
        self.paused: set[str] = set()
        self.totals: dict[str, Counter[str]] = {}
        """The totals of every queue that exists, by name."""

        self.quiet: dict[str, tuple[float, int]] = {}
        """When `prune` first found a queue empty, and the sum of its totals then."""

        self.workers: dict[str, Worker] = {}
        self.drawn = 0
        self.made = 0
        self.consequences: list[Consequence] = []
        """What operations did to jobs that their callers did not name; the machine reads and clears it."""

    @property
    def now(self) -> float:
        return self.clock.wall()

    def draw(self) -> int:
        self.drawn += 1
        return self.drawn

    def count(self, what: str, queue: str, worker: str | None = None) -> None:
        self.totals[queue][what] += 1
        if worker in self.workers:
            self.workers[worker].totals[what] += 1

    def report(self, change: Change, job: Job) -> None:
        self.consequences.append(Consequence(change, job.id, job.new.task, job.new.queue))

    def enter_attempt(
        self, job: Job, outcome: AttemptEnd, error: ErrorInfo | None = None, output: str | None = None
    ) -> None:
        """Enter the attempt of a job in its history; it ended now, or when the job did."""
        past = AttemptRecord(
            number=job.attempt,
            fence=job.fence,
            started_at=job.started_at or 0.0,
            ended_at=self.now if job.ended_at is None else job.ended_at,
            worker=job.worker,
            outcome=outcome,
            error=error,
            output=output,
        )
        job.attempts = (*job.attempts, past)[-HISTORY:]

    # Finding jobs.

    def find(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs if job.id == job_id), None)

    def where(self, test: Callable[[Job], bool]) -> list[Job]:
        return [job for job in self.jobs if test(job)]

    def steps(self, run_id: str) -> list[Job]:
        """The steps of a run in the order of their creation."""
        return self.where(lambda job: job.new.run_id == run_id)

    def resolve(self, job_id: str) -> Job | None:
        """The job of this id; for the id of a run, its current step, which is its last."""
        steps = self.steps(job_id)
        return steps[-1] if steps else self.find(job_id)

    def with_run(self, job: Job) -> list[Job]:
        """The jobs that are removed together with a job: all steps of its run, or itself alone."""
        return [job] if job.new.run_id is None else self.steps(job.new.run_id)

    def represents(self, job: Job) -> list[Job]:
        """The jobs whose dependents, waiters and keys are affected when this one ends.

        A run's first step stands for the run.
        """
        first = self.with_run(job)[0]
        if job.successor is not None:
            return [] if job is first and job.new.run_id is not None else [job]
        return [job] if job is first else [job, first]

    def owns_key_now(self, job: Job) -> bool:
        """Whether a job owns its unique key at this moment."""
        return job.owns_key and not self.window_is_over(job)

    def window_is_over(self, job: Job) -> bool:
        return job.new.window is not None and job.created_at + job.new.window <= self.now

    def waits_on(self, job: Job, blocker_id: str) -> list[bool]:
        return [is_open and blocker == blocker_id for blocker, is_open in zip(job.new.after, job.open, strict=True)]

    def line(self, queue: str) -> list[Job]:
        """The jobs in line, the next one first, including suspects."""
        in_line = self.where(lambda job: job.new.queue == queue and job.place == "waiting")
        return sorted(in_line, key=lambda job: (job.new.priority, job.seq))

    def scheduled(self, queue: str) -> list[Job]:
        return self.where(lambda job: job.new.queue == queue and job.place == "scheduled")

    def held(self) -> list[Job]:
        held = self.where(lambda job: job.state is State.RUNNING)
        return sorted(held, key=lambda job: (job.lease_until or 0, job.seq))

    # What callers can see.

    def snapshot(self) -> dict[str, Any]:
        boot = self.clock.boot()
        return {
            "jobs": {job.id: self._shown(job) for job in self.jobs},
            "newest first": [job.id for job in sorted(self.jobs, key=lambda job: -job.number)],
            "lines": {
                queue: [job.id for job in self.line(queue)]
                + [job.id for job in sorted(self.scheduled(queue), key=lambda job: (job.run_at or 0, job.seq))]
                for queue in self.totals
            },
            "counts": {queue: self._counts(queue) for queue in self.totals},
            "oldest": {queue: self._oldest(queue) for queue in self.totals},
            "totals": {
                queue: {what: number for what, number in totals.items() if number}
                for queue, totals in self.totals.items()
            },
            "paused": {queue for queue in self.paused if queue in self.totals},
            "workers": {
                worker_id: (worker.held, worker.order, boot - worker.beat, dict(worker.totals))
                for worker_id, worker in self.workers.items()
            },
            "keys": {(job.new.task, job.new.unique): job.id for job in self.jobs if self.owns_key_now(job)},
            "runs": [self._run_shown(run_id) for run_id in self._newest_first(self.runs)],
            "schedules": {each.name: each.record for each in self.schedules},
            "audit": self.audit(),
        }

    def _shown(self, job: Job) -> dict[str, Any]:
        return {
            "state": job.state,
            "attempt": job.attempt,
            "losses": job.losses,
            "fence": job.fence,
            "misses": job.misses,
            "run_at": job.run_at,
            "ready_at": job.ready_at,
            "expires_at": job.expires_at,
            "worker": job.worker,
            "started_at": job.started_at,
            "ended_at": job.ended_at,
            "lease_left": None if job.lease_until is None else job.lease_until - self.clock.boot(),
            "result": job.result,
            "error": job.error,
            "progress": job.progress,
            "attempts": job.attempts,
            "blocked_by": sum(job.open) + (job.parked_until is not None) if job.state is State.BLOCKED else 0,
            "results": tuple(job.results),
            "run_id": job.new.run_id,
            "successor": job.successor,
            "headers": job.new.headers,
            "on_timeout": job.on_timeout if job.parked_until is None else None,
        }

    def _run_shown(self, run_id: str) -> tuple[str, str, float, str, State, str | None]:
        steps = self.steps(run_id)
        done = [step.new.queue for step in steps if step.state is State.SUCCEEDED]
        last = steps[-1]
        return run_id, self.runs[run_id].flow, steps[0].created_at, last.id, last.state, done[-1] if done else None

    def _newest_first(self, run_ids: Sequence[str] | dict[str, Run]) -> list[str]:
        return sorted(run_ids, key=lambda run_id: -self.steps(run_id)[0].number)

    def close_view(self, run_id: str) -> tuple[list[str], dict[str, str]]:
        """The steps and the attributes of a run; both empty if it does not exist."""
        run = self.runs.get(run_id)
        return [step.id for step in self.steps(run_id)], {} if run is None else dict(run.attributes)

    def found(self, flow: str, name: str, value: str) -> list[str]:
        """The runs of a flow with this lookup, newest first."""
        runs = [run_id for run_id, run in self.runs.items() if run.flow == flow and value in run.lookups.get(name, ())]
        return self._newest_first(runs)

    def blockers(self, job_id: str) -> list[str]:
        """The ids that a blocked job still waits for."""
        job = self.find(job_id)
        if job is None or job.state is not State.BLOCKED:
            return []
        return [blocker for blocker, is_open in zip(job.new.after, job.open, strict=True) if is_open]

    def edges(self, job_id: str) -> list[EdgeInfo]:
        """All ids that a job was to wait for, and whether it still waits for them."""
        job = self.find(job_id)
        return [] if job is None else [EdgeInfo(*edge) for edge in zip(job.new.after, job.open, strict=True)]

    def audit(self) -> list[Action]:
        """What operators have done, the latest first."""
        kept = [action for action in self.actions if action.at > self.now - ACTIONS_KEPT]
        return kept[::-1][:ACTIONS]

    def _counts(self, queue: str) -> dict[str, int]:
        places = Counter(job.place for job in self.jobs if job.new.queue == queue)
        return {place: places[place] for place in ("scheduled", *State)}

    def _oldest(self, queue: str) -> float | None:
        """How long the oldest job in line has been due, of the first of each priority, suspects apart from others."""
        first: dict[tuple[int, bool], Job] = {}
        for job in self.line(queue):
            first.setdefault((job.new.priority, job.losses >= 2), job)
        return round(self.now - min(job.ready_at for job in first.values()), 2) if first else None

    # Saving and restoring, for calls that are refused halfway.

    def save(self) -> tuple[Any, ...]:
        copies = [replace(job, results=list(job.results), open=list(job.open)) for job in self.jobs]
        runs = {run_id: Run(run.flow, dict(run.attributes), dict(run.lookups)) for run_id, run in self.runs.items()}
        known = {queue: Counter(totals) for queue, totals in self.totals.items()}
        workers = {
            worker_id: replace(worker, totals=Counter(worker.totals)) for worker_id, worker in self.workers.items()
        }
        return copies, runs, known, workers, self.drawn, self.made, list(self.consequences)

    def restore(self, saved: tuple[Any, ...]) -> None:
        self.jobs, self.runs, self.totals, self.workers, self.drawn, self.made, self.consequences = saved
