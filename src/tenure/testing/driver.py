"""`Driver`: runs jobs one at a time with the parts of a worker, on a clock that only the test moves."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.checks import seconds
from tenure.core.failure import attempt_failure
from tenure.core.job import ErrorInfo, JobRecord, NewJob, Progress, State
from tenure.core.lease import Lease, new_nonce
from tenure.core.lifecycle import RELEASE, Finish, Park, Requeue, Transition, next_transition
from tenure.core.options import WorkerOptions
from tenure.core.outcome import Raised
from tenure.core.schedule import ScheduleSearch
from tenure.errors import InvalidOption, JobError
from tenure.hooks.around import Blocking, call_failure_hooks, has_failed
from tenure.hooks.calling import acall_hooks
from tenure.jobs.enqueue_hooks import after_enqueue_of_children
from tenure.jobs.handle import Job
from tenure.observe.derived_events import ENDS
from tenure.stores.base import Store
from tenure.stores.values import AttributeMissing, Leased, LeaseRequest, Renewal, VerdictKind
from tenure.tasks.completion.completion import Transactions
from tenure.testing.clock import ManualClock
from tenure.testing.crashing import Crashes
from tenure.worker.attempt import Attempt
from tenure.worker.executor import Executor
from tenure.worker.peers import Peers
from tenure.worker.scheduler import Scheduler
from tenure.worker.settings import Settings, SettingsByTask

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Driver", "Performed", "Ran", "StillBusy", "outcome_of"]

SMALLEST_STEP = 1e-6
"""Seconds that a jump of the clock is at least: less would not change a time that is counted since the epoch."""

MOST_TICKS = 10_000
"""Ticks of schedules that one call of `advance` fires at most."""

MOST_OVERDUE = 100
"""Looks at schedules that are overdue, one after the other, after which those that are left count as not ours."""

log = logging.getLogger("tenure.worker")


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt that a test kit has run."""

    job: Job[Any]
    """The handle of its job, in the state that the attempt has left it in."""

    attempt: int
    """Attempt number, from 1."""

    outcome: str
    """What became of it: succeeded, retried, failed, broken, rescheduled, waits, released, unknown, lost or crashed."""

    error: ErrorInfo | None = None
    exception: BaseException | None = None
    """What the function raised, if that made the attempt fail."""

    @property
    def task(self) -> str:
        return self.job.task

    @property
    def queue(self) -> str:
        return self.job.queue

    def __repr__(self) -> str:
        why = "" if self.error is None else f": {self.error.type}: {self.error.message}"
        return f"<Ran {self.task}, attempt {self.attempt}, {self.outcome}{why}>"


@dataclass(frozen=True, slots=True)
class Performed:
    """What one call of a task came to, outside a queue."""

    outcome: str
    """As `Ran.outcome`: what would become of the job."""

    result: Any = None
    """What the job's `result()` would return; None unless it has succeeded."""

    delay: float | None = None
    """Seconds until the next attempt; None if there is none."""

    error: ErrorInfo | None = None
    exception: BaseException | None = None
    children: Sequence[Any] = ()
    """The jobs that it has passed to `ctx.enqueue`, as `enqueued()` shows them. None of them is stored."""

    progress: Progress | None = None
    """The progress that it reported last."""

    log: Sequence[str] = ()
    """The messages that it wrote to `ctx.log`."""


class StillBusy(AssertionError):
    """Jobs go on and on: after `limit` attempts another one is due."""

    def __init__(self, ran: Sequence[Ran]) -> None:
        self.ran = ran
        [(task, times)] = Counter(each.task for each in ran).most_common(1)
        last = next(each for each in reversed(ran) if each.task == task)
        why = "" if last.error is None else f", with {last.error.type}: {last.error.message}"
        super().__init__(
            f"still busy after {len(ran):,} attempts, {times:,} of them of {task}; its last one was {last.outcome}{why}. "
            "Find out why it goes round, or give a higher limit=."
        )


class StillSettings(SettingsByTask):
    """The settings of a worker without chance and without processes: no jitter, and isolated tasks run in place."""

    def __missing__(self, name: str) -> Settings:
        settings = super().__missing__(name)
        retry = settings.policy.retry
        if retry is not None and retry.jitter:
            policy = msgspec.structs.replace(settings.policy, retry=dataclasses.replace(retry, jitter=0.0))
            settings = dataclasses.replace(settings, policy=policy)
        if settings.isolated:
            settings = dataclasses.replace(settings, isolated=False)
        if settings.task is not None:
            self[name] = settings
        return settings


class End:
    """How one attempt has ended. `transition` is None if its lease was lost."""

    def __init__(
        self, transition: Transition | None, error: BaseException | None = None, *, settled: bool = False
    ) -> None:
        self.transition = transition
        self.error = error
        self.settled = settled
        """Whether the job has settled itself, in its own transaction."""


class Ends:
    """Collects the ends of attempts, in place of the worker's settler."""

    def __init__(self) -> None:
        self._ends: dict[Attempt, End] = {}

    def add(self, attempt: Attempt, transition: Transition, error: BaseException | None = None) -> None:
        if attempt.ended:
            return
        attempt.ended = True
        if attempt.completion is None or not attempt.completing:
            self._ends[attempt] = End(transition, error)
        elif (completed := attempt.completed) is not None:
            self._ends[attempt] = End(completed, settled=True)

    def lost(self, attempt: Attempt) -> None:
        attempt.ended = True

    def take(self, attempt: Attempt) -> End:
        return self._ends.pop(attempt, None) or End(None)


class Lane:
    """Runs attempts on one event loop with the worker's executor."""

    def __init__(self, app: App, store: Store, settings: SettingsByTask, threads: Blocking) -> None:
        self.store = store
        self.threads = threads
        self._settings = settings
        self._ends = Ends()
        self._executor = Executor(
            store, settings, Peers(store, settings), self._ends, threads,
            Transactions(store, seconds(app.options.complete_timeout, "complete_timeout"), _nothing_to_secure), app.internals.middlewares,
            app.options.payload_limit, app.internals.raw_inboxes,
        )  # fmt: skip

    def attempt(self, lease: Lease) -> Attempt:
        return Attempt(lease, self._settings[lease.job.task], monotonic())

    async def run(self, attempt: Attempt) -> End:
        """Run an attempt from its start to its outcome. Nothing is settled."""
        attempt.started_at = perf_counter()
        slot = OneSlot(attempt, self._executor)
        attempt.slot = slot
        await slot.task
        slot.attempt = None
        attempt.run_time = perf_counter() - attempt.started_at
        if (caller := asyncio.current_task()) is not None and caller.cancelling():
            raise asyncio.CancelledError  # the test was cancelled, not the job
        return self._ends.take(attempt)


class OneSlot:
    """The asyncio task of one attempt, so that a timeout can cancel it."""

    def __init__(self, attempt: Attempt, executor: Executor) -> None:
        self.attempt: Attempt | None = attempt
        self.task: asyncio.Task[None] = asyncio.create_task(executor.execute(attempt))


async def _nothing_to_secure(_: float) -> None:
    """No lease expires while the clock stands still."""


class Driver:
    """The worker of a test kit. It leases, runs and settles one job at a time, with the executor of the real one."""

    def __init__(
        self,
        app: App,
        clock: ManualClock,
        crashes: Crashes,
        created: Callable[[Sequence[NewJob], str], None],
        *,
        schedules: bool,
    ) -> None:
        """`created` is called with the jobs that an attempt has created, and the name of its task."""
        self._app = app
        self._clock = clock
        self._crashes = crashes
        self._created = created
        self._schedules = schedules
        self._settings = StillSettings(app.tasks, WorkerOptions(), app.options)
        self._lease = seconds(app.options.lease, "lease")
        self._workers = 1
        self._names: tuple[str, ...] = ()
        self.ran: list[Ran] = []
        """All attempts so far."""

        self.seen: set[str] = set()
        """Ids of the jobs that were leased: they exist, or did."""

        self.waits: dict[str, tuple[float | None, float | None]] = {}
        """Of each job that was parked: the timeout in seconds, and the time at which it is over; None if it has none."""

        self._lost: dict[str, float] = {}
        """When the lease of a crashed worker expires, by the id of its job; times of the boot clock."""

    @property
    def worker(self) -> str:
        """The id of the worker. After a crash there is another one."""
        return f"kit-{self._workers}"

    async def run(self, threads: Blocking, *, skip: bool, limit: int) -> list[Ran]:
        """Run what is due until nothing is. With `skip`, also move the clock to what is due next, again and again."""
        lane, ran = self._lane(threads), list[Ran]()
        while True:
            await self._look_after(lane.store)
            while (leased := await self._next(lane.store, None)).leases:
                [lease] = leased.leases
                if len(ran) >= limit:
                    await lane.store.settle([(lease, RELEASE)])
                    raise StillBusy(ran)
                ran.append(await self._attempt(lane, lease))
            step = await self._until_next(lane.store, leased) if skip else None
            if step is None:
                return ran
            self._clock.advance(max(step, SMALLEST_STEP))

    async def run_one(self, threads: Blocking, queue: str | None) -> Ran | None:
        """Run the next attempt that is due, of this queue or of any; None if none is."""
        lane = self._lane(threads)
        await self._look_after(lane.store)
        for lease in (await self._next(lane.store, queue)).leases:
            return await self._attempt(lane, lease)
        return None

    async def perform(self, threads: Blocking, lease: Lease) -> tuple[Attempt, End]:
        """Run an attempt of a job that is in no store."""
        lane = self._lane(threads)
        attempt = lane.attempt(lease)
        return attempt, await lane.run(attempt)

    # Time.

    async def look_after(self) -> None:
        """Do the chores of a worker: reap leases and waits that are over, and fire schedules that are due."""
        await self._look_after(self._app.internals.session.store)

    async def declare(self) -> None:
        """Store the schedules that the code declares, as a worker does when it starts."""
        await Scheduler(self._app, self._app.internals.session.store).fire()

    async def advance(self, span: float) -> None:
        """Let time pass, and fire each tick of a schedule when its time has come."""
        end = self._clock.wall() + span
        store = self._app.internals.session.store
        scheduler = Scheduler(self._app, store)
        overdue = 0
        for _ in range(MOST_TICKS):
            due_in = (await store.schedules(ScheduleSearch(due=True, limit=1))).due_in
            overdue = overdue + 1 if due_in is not None and due_in <= 0 else 0
            # One that stays overdue is not fired by this code, as one of a task that is not there.
            if due_in is None or self._clock.wall() + due_in > end or overdue > MOST_OVERDUE:
                break
            if due_in > 0:
                self._clock.advance(max(due_in, SMALLEST_STEP))
            await scheduler.fire()
        else:
            raise InvalidOption(
                f"more than {MOST_TICKS:,} ticks of schedules in one advance(): advance in smaller parts, and run the jobs between"
            )
        self._clock.advance(max(end - self._clock.wall(), 0.0))

    async def _until_next(self, store: Store, leased: Leased) -> float | None:
        """Seconds until a job is due, a lost lease expires or a wait is over; None if nothing is to come."""
        now, up = self._clock.wall(), self._clock.boot()
        lost = await _those(store, self._lost, lambda job: job.state is State.RUNNING)
        parked = await _those(store, self.waits, lambda job: job.parked)
        coming = [self._lost[job] - up for job in lost]
        coming += [until - now for job in parked if (until := self.waits[job][1]) is not None]
        if leased.due_in is not None:
            coming.append(leased.due_in)
        return min(coming, default=None)

    # Jobs.

    async def _look_after(self, store: Store) -> None:
        """Do the chores of a worker: reap leases and waits that are over, and fire schedules that are due."""
        self._names = tuple(queue.name for queue in await store.queues())
        await store.reap(self._names)
        self._lost = {job: until for job, until in self._lost.items() if until > self._clock.boot()}
        if self._schedules:
            scheduler = Scheduler(self._app, store)
            while await scheduler.fire() == 0.0:
                pass

    async def _next(self, store: Store, queue: str | None) -> Leased:
        """Lease the next job in line. Queues are served in the order of their names."""
        while True:
            leased = await store.lease(
                LeaseRequest(
                    queues=self._names if queue is None else (queue,),
                    limit=1, worker=self.worker, ttl=self._lease, nonce=new_nonce(), solo=True,
                )
            )  # fmt: skip
            taken = 0
            if leased.inbox:
                limit = self._app.options.payload_limit
                raw = self._app.internals.raw_inboxes
                taken = await store.take_in(self._names, entry_limit=limit, raw=raw)
            if leased.leases:
                return leased
            names = tuple(each.name for each in await store.queues())
            if names == self._names and not taken:
                return leased
            self._names = names

    def _lane(self, threads: Blocking) -> Lane:
        return Lane(self._app, self._app.internals.session.store, self._settings, threads)

    async def _attempt(self, lane: Lane, lease: Lease) -> Ran:
        """Run one leased job, settle it, and remember what became of it."""
        attempt = lane.attempt(lease)
        job, task = lease.job, attempt.settings.task
        self.seen.add(job.id)
        self.waits.pop(job.id, None)
        names = (job.task,) if task is None else (task.name, job.task)
        if self._crashes.strikes(names, "before_start"):
            return await self._crash(lane, attempt)
        end = await lane.run(attempt)
        if self._crashes.strikes(names, "before_settle") and not end.settled:
            return await self._crash(lane, attempt)
        end = await self._settle(lane, attempt, end)
        transition = end.transition
        if isinstance(transition, Finish):
            successor = () if transition.successor is None else (transition.successor,)
            self._created((*transition.children, *successor), job.task)
        if isinstance(transition, Park):
            timeout = transition.timeout
            self.waits[job.id] = timeout, None if timeout is None else self._clock.wall() + timeout
        if self._crashes.strikes(names, "after_settle"):
            self._workers += 1
        elif isinstance(transition, Finish):
            await self._after_enqueue(transition.children)
        return self._remember(attempt, outcome_of(transition), transition, end.error)

    async def _settle(self, lane: Lane, attempt: Attempt, end: End) -> End:
        """Settle an attempt as the worker's settler does. Returns its end, which is another one if the store refuses the first."""
        if end.transition is None or end.settled:
            if end.transition is not None:
                self._app.internals.audience.settled((attempt.lease, end.transition))
            return end
        audience, job = self._app.internals.audience, attempt.lease.job
        if audience.wants & ENDS:
            audience.durations[job.id] = attempt.run_time
        if end.error is not None and (failure := attempt_failure(end.error, end.transition)) is not None:
            audience.failures[job.id] = failure
        [verdict] = await lane.store.settle([(attempt.lease, end.transition)])
        audience.failures.pop(job.id, None)
        if verdict.kind is VerdictKind.OK:
            return end
        if verdict.kind is not VerdictKind.REFUSED:
            return End(None)
        error = JobError(verdict.reason)
        transition: Transition
        if isinstance(verdict.refusal, AttributeMissing):
            transition = Finish(State.FAILED, error=ErrorInfo("MissingAttribute", verdict.reason))
        else:
            refused = Raised(error, ErrorInfo("EnqueueRefused", verdict.reason))
            transition = next_transition(job, refused, attempt.settings.policy)
        settings, context = attempt.settings, attempt.context
        if settings.failing and settings.task is not None and context is not None and has_failed(transition):
            await call_failure_hooks(settings.task, settings.failing, context, error, transition, lane.threads)
        return await self._settle(lane, attempt, End(transition, error))

    async def _after_enqueue(self, children: Sequence[NewJob]) -> None:
        """Call the `after_enqueue` hooks for jobs that a job has created. What they raise is logged, as by a worker."""
        if children and self._app.internals.hooks.enqueues:
            try:
                await acall_hooks(after_enqueue_of_children(self._app, children))
            except Exception:
                log.exception("a hook for after_enqueue failed")

    async def _crash(self, lane: Lane, attempt: Attempt) -> Ran:
        """Let the worker die: nothing more is sent, and its lease must expire."""
        if attempt.has_wrong_ttl:  # a real worker has corrected it by a renewal
            await lane.store.renew([Renewal(attempt.lease, attempt.wanted_ttl)])
        self._lost[attempt.lease.job.id] = self._clock.boot() + attempt.wanted_ttl
        self._workers += 1
        return self._remember(attempt, "crashed", None, None)

    def _remember(
        self, attempt: Attempt, outcome: str, transition: Transition | None, exception: BaseException | None
    ) -> Ran:
        record = attempt.lease.job
        results = self._app.internals.caller_of(record)._results
        job: Job[Any] = Job(self._app, record.id, record.task, record.queue, results)
        job._set_state(_state(transition, outcome))
        error = None if transition is None or isinstance(transition, Park) else transition.error
        ran = Ran(job, record.attempt, outcome, error, exception)
        self.ran.append(ran)
        return ran


async def _those(store: Store, ids: Collection[str], wanted: Callable[[JobRecord], bool]) -> list[str]:
    """The ids of the jobs that are still as wanted: one may have been completed, cancelled or deleted since."""
    found = await store.get(list(ids)) if ids else []
    return [job.id for job in found if job is not None and wanted(job)]


def outcome_of(transition: Transition | None) -> str:
    """What became of an attempt, in one word; None: its lease was lost."""
    match transition:
        case None:
            return "lost"
        case Finish(state):
            return state.value
        case Park():
            return "waits"
        case Requeue(missed=True):
            return "unknown"
        case Requeue(front=True):
            return "released"
        case Requeue(error=None):
            return "rescheduled"
        case Requeue():
            return "retried"


def _state(transition: Transition | None, outcome: str) -> State:
    """The state of a job after an attempt."""
    if isinstance(transition, Finish):
        return transition.state
    if isinstance(transition, Park):
        return State.BLOCKED
    return State.RUNNING if outcome == "crashed" else State.WAITING
