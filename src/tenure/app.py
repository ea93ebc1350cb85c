"""App: registers tasks and flows, enqueues and inspects their jobs, and makes workers."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec

from tenure.core.checks import Duration, named, refused, seconds, several
from tenure.core.checks import name as checked_name
from tenure.core.job import State
from tenure.core.keywords import AppKeywords, Filters, ScheduleKeywords, TaskKeywords, WorkerKeywords
from tenure.core.options import AppOptions, Retention, build_options, check_names, split_retention
from tenure.core.origin import schedule_tag
from tenure.core.when import When
from tenure.errors import InvalidName, InvalidOption, JobNotFound
from tenure.events import Event, Kind, kind_of
from tenure.explain import Explanation, explain
from tenure.hooks.calling import acall_hooks, call_hooks
from tenure.hooks.registry import JobHooks, WorkerHooks
from tenure.inline import Inline
from tenure.internals import Internals, Replaced
from tenure.jobs.attention import Attention, attention_of
from tenure.jobs.bulk import JobPage, Stats, cancel, cancel_equal, cancel_found, delete, retry, search_of, state_of
from tenure.jobs.by_hand import Held
from tenure.jobs.enqueue import (
    Batch,
    aenqueue,
    aenqueue_in_transaction,
    enqueue,
    enqueue_in_transaction,
    prepare_calls,
)
from tenure.jobs.enqueue_hooks import after_dequeue, before_dequeue
from tenure.jobs.handle import Job
from tenure.jobs.history import History, checked_span, history_of
from tenure.jobs.plans import plan_of
from tenure.jobs.run import FlowRun, RunPage
from tenure.jobs.schedules import Schedule, all_schedules, create_schedule, find_schedule
from tenure.jobs.stamps import Stamp
from tenure.observe.listeners import Listener
from tenure.observe.logs import Logs
from tenure.observe.watching import Watch
from tenure.stores import masked, store_maker
from tenure.stores.base import BATCH, Store
from tenure.stores.values import ActionPage, Order, QueueInfo, Reaped, RunSearch, Search, WorkerInfo
from tenure.sync import blocking, refuse_on_loop
from tenure.sync import run as run_blocking
from tenure.tasks.context import Context, Middleware, checked_middleware
from tenure.tasks.flow import Flow, NamedFlow, RemoteFlow, Start
from tenure.tasks.task import AsyncTask, Call, Caller, Registrar, Task, Untyped, register_task

if TYPE_CHECKING:
    from tenure.worker.lifespan import Lifespan
    from tenure.worker.worker import Worker

__all__ = ["App"]

L = TypeVar("L", bound=Listener)
M = TypeVar("M", bound=Middleware)
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Stamp)


class App(JobHooks, WorkerHooks):
    """Registers tasks and flows, and enqueues, inspects and operates on the jobs in its store.

    `store` is a URL (default: the environment variable TENURE_URL, else `sqlite:///tenure.db`), or a function that returns a new
    store object; it is called once for each event loop. docs/options.md and `AppOptions` describe the options.

    Every blocking method has an async twin with the prefix `a`, for code that runs on an event loop.
    """

    def __init__(
        self,
        store: str | Callable[[], Store] | None = None,
        *,
        listeners: Iterable[Listener] = (),
        log: logging.Logger | Literal[False] | None = None,
        **options: Unpack[AppKeywords],
    ) -> None:
        """Make an app. `listeners` are called with every event, see `listen`.

        `log`: the logger that gets a line for every job that has ended, see `Logs`. None: the logger `tenure.jobs`; False: no lines.
        """
        check_names("App", "App", options)
        try:
            for_all, for_queues = split_retention(options.get("keep", Retention()))
        except (InvalidOption, InvalidName) as error:
            raise named(error, "App") from None
        self.options = build_options(AppOptions, "App", {**options, "keep": for_all, "keep_in": for_queues})
        _check_store(store)
        _check_log(log)
        given = os.environ.get("TENURE_URL") or "sqlite:///tenure.db" if store is None else store
        self.url = given if isinstance(given, str) else f"made by {getattr(given, '__qualname__', repr(given))}"
        self.state = SimpleNamespace()
        """Resources that `on_start` opens for the jobs of a worker process and `on_stop` closes."""

        make_store = store_maker(given) if isinstance(given, str) else given
        self.internals = Internals(self, make_store, stand_in=lambda: App("memory://stand-in"))
        """For Tenure's own modules; its members may change in any release."""

        self._hooks = self.internals.hooks
        audience = self.internals.audience
        if log is not False:
            audience.listeners.add_batched(Logs(log, audience.failures))
        for listener in several(listeners, "App: listeners"):
            self.listen(listener)

    def __repr__(self) -> str:
        return f"<App {masked(self.url)}>"

    @overload
    def task(self, function: Callable[Concatenate[Untyped, P], Coroutine[Any, Any, R]], /) -> AsyncTask[..., R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Untyped, P], R], /) -> Task[..., R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        **options: Unpack[TaskKeywords],
    ) -> Registrar: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a task from a function: `@app.task` or `@app.task(...)`.

        `name`: default, the name of the function; it must be unique in the app. The worker passes the context to a parameter annotated
        `Context`; put it first, so that type checkers do not ask callers for it. docs/options.md and `TaskOptions` describe the other
        options.
        """
        return Registrar(self, options) if function is None else register_task(self, function, options)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks, by name and by each alias."""
        return MappingProxyType(self.internals.tasks)

    def include(self, *modules: str) -> None:
        """Import these modules when a worker of this app starts and when the command line loads it: `app.include("shop.tasks")`.

        This call imports nothing, so these modules may import the one that defines the app. `InvalidOption` if a name is no module name.
        """
        for module in modules:
            if not isinstance(module, str) or not all(part.isidentifier() for part in module.split(".")):
                raise InvalidOption(f"include takes full names of modules, such as 'shop.tasks', got {module!r:.80}")
        self.internals.included += modules

    def middleware(self, layer: M) -> M:
        """Wrap every attempt in this async function. It gets the context and `call_next`. The first that is registered is outermost."""
        self.internals.middlewares.append(checked_middleware(layer))
        return layer

    def stamp(self, function: S) -> S:
        """Ask this function for headers once in each call that enqueues, and give them to all its jobs: `@app.stamp`.

        It takes nothing and returns a mapping of names to short texts, or None. Headers that `using(headers=…)` gives override it. What
        it raises, the call that enqueues raises. It is not asked for jobs of schedules and of inboxes.
        """
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise refused("what @app.stamp decorates", "a function that is not async", function)
        self.internals.stamps.append(function)
        return function

    @overload
    def listen(self, *kinds: Kind) -> Callable[[L], L]: ...
    @overload
    def listen(self, listener: L, /) -> L: ...
    def listen(self, *given: Any) -> Any:
        """Call this function with every event of this app in this process; `@app.listen(Failed)`: only with events of these kinds.

        It is called in a separate thread, some milliseconds after the event, and cannot slow down or break the job. Events of one event
        loop come in their order. If the function is too slow, events are dropped.
        """
        if (
            len(given) == 1
            and not isinstance(given[0], str)
            and not (isinstance(given[0], type) and issubclass(given[0], Event))
        ):
            return self._listen(given[0], ())
        kinds = tuple(kind_of(kind) for kind in given)
        return lambda listener: self._listen(listener, kinds)

    def _listen(self, listener: L, kinds: Sequence[Kind]) -> L:
        self.internals.audience.listeners.add(listener, kinds)
        self.internals.audience.refresh()
        return listener

    def watch(
        self,
        *,
        queue: str | None = None,
        task: str | Task[..., Any] | None = None,
        job: str | Job[Any] | None = None,
        run: str | FlowRun | None = None,
        kinds: Kind | Iterable[Kind] = (),
    ) -> Watch:
        """Iterate over the events of all processes as they happen, filtered by queue, task, job, run and kinds.

        `async for event in app.watch():`, or `for` in blocking code. Events are hints and may be missed; see `Watch`.
        """
        return Watch(
            lambda: self.internals.session.store,
            lambda: self.internals.audience.set_watched(watched=True),
            queue=None if queue is None else checked_name("queue", queue),
            task=task if isinstance(task, str) or task is None else task.name,
            job=job if isinstance(job, str) or job is None else job.id,
            run=run if isinstance(run, str) or run is None else run.id,
            kinds=[kinds] if isinstance(kinds, str | type) else kinds,
        )

    def flow(self, name: str, *, lookup: Iterable[str] = ()) -> Flow:
        """Make a flow with this name. Declare its steps with `@flow.step(...)`. `lookup`: attributes that its runs can be found by."""
        flow = Flow(self, name, lookup)
        if name in self.internals.flows:
            raise InvalidOption(f"there is a flow named {name!r} already: give one of them another name")
        self.internals.flows[name] = flow
        return flow

    def schedule(self, name: str, call: Call[Any] | Start, when: When, /, **options: Unpack[ScheduleKeywords]) -> None:
        """Declare a schedule: enqueue this bound call, or start this flow, whenever `when` says so. No I/O.

        A worker of this app stores it before it leases its first job, and the workers whose code declares it fire it. What
        an operator changes of it wins, and outlives deploys. docs/options.md and `ScheduleKeywords` describe the options.

        `InvalidSchedule` if it can never fire, `InvalidOption` if this app declares another schedule of this name.
        """
        self.internals.declare(checked_name("schedule", name), plan_of(call, when, options))

    def remote(self, name: str, *, queue: str | None = None, raw: bool = False, version: int = 1) -> Caller[..., Any]:
        """A task whose code is in another program. It takes any arguments that JSON can hold, or bytes if `raw`.

        `version`: the version of the task that the arguments are for; see `@task.upcast`.
        """
        queue = self.options.default_queue if queue is None else queue
        if queue is None:
            raise InvalidOption(f"remote task {name!r} names no queue, and this app has no default_queue")
        fields = {"queue": checked_name("queue", queue), "raw": raw}
        arguments = self.internals.arguments_of_remote(version, raw=raw)
        return Caller(self, checked_name("task", name), arguments, self.internals.any_result, fields)

    def remote_flow(self, name: str, *, first: str, queue: str | None = None, lookup: Iterable[str] = ()) -> RemoteFlow:
        """A flow whose code is in another program. `first` and `queue` are the name and the queue of its first step.

        `lookup`: attributes that its runs can be found by. Give the same as the code of the flow, because a run that is started here can
        be found only by these.
        """
        queue = self.options.default_queue if queue is None else queue
        if queue is None:
            raise InvalidOption(f"remote flow {name!r} names no queue, and this app has no default_queue")
        return RemoteFlow(self, name, first, queue, lookup)

    # Producing.

    @overload
    def enqueue(self, *calls: Call[R], connection: object = None) -> list[Job[R]]: ...
    @overload
    def enqueue(self, *calls: Start, connection: object = None) -> list[FlowRun]: ...
    @overload
    def enqueue(self, *calls: Call[Any] | Start, connection: object = None) -> list[Job[Any] | FlowRun]: ...
    def enqueue(self, *calls: Call[Any] | Start, connection: object = None) -> Sequence[Job[Any] | FlowRun]:
        """Store these calls as jobs and these starts as runs, durably, all or none, in one round trip.

        The calls and starts that they wait for (`using(after=…)`) are stored with them. One that is passed here and also waited for
        is one job.

        If the store is down, this retries for 5 seconds. Then it raises `StoreUnavailable` if nothing was stored, or `OutcomeUnknown`
        if the jobs may have been stored.

        `connection`: a connection of the caller to the store's database, with an open transaction. The jobs are created, and workers
        are woken, when that transaction commits. They do not join an open `batch`. Errors of the connection are raised as its library
        raises them.

        Raises `EnqueueRefused`, and stores nothing, if a `before_enqueue` hook refuses one of them.
        """
        handles, pending, coming = prepare_calls(self, calls)
        caller = self.internals.caller_connection(coming, connection)
        if caller is None:
            enqueue(self, pending)
        elif pending:
            enqueue_in_transaction(self, pending, caller)
        return handles

    @overload
    async def aenqueue(self, *calls: Call[R], connection: object = None) -> list[Job[R]]: ...
    @overload
    async def aenqueue(self, *calls: Start, connection: object = None) -> list[FlowRun]: ...
    @overload
    async def aenqueue(self, *calls: Call[Any] | Start, connection: object = None) -> list[Job[Any] | FlowRun]: ...
    async def aenqueue(self, *calls: Call[Any] | Start, connection: object = None) -> Sequence[Job[Any] | FlowRun]:
        """The async twin of `enqueue`. A blocking `connection` blocks the event loop, as its own calls do."""
        handles, pending, coming = prepare_calls(self, calls)
        caller = self.internals.caller_connection(coming, connection)
        if caller is None:
            await aenqueue(self, pending)
        elif pending:
            await aenqueue_in_transaction(self, pending, caller)
        return handles

    def batch(self) -> Batch:
        """Store everything that a block enqueues in one transaction: `with app.batch(): …`, or `async with`."""
        return Batch(self)

    def inline(self, *, raises: bool = True) -> Inline:
        """Run jobs at once where they are enqueued, for scripts and tests: `with app.inline(): …`, or `async with`.

        If a job fails, the call that enqueued it raises the job's exception. With `raises=False` only the handle has it.
        """
        return Inline(self, raises=raises)

    def replaced(self, make_store: Callable[[], Store]) -> Replaced:
        """Use other stores inside a block, for tests: `with app.replaced(make_store): …`, or `async with`.

        `make_store` is called once for each event loop, as the function that `App` takes. The app's own store is not touched, and is
        back after the block. `tenure.testing.kit` is built on this.
        """
        return Replaced(self, make_store)

    async def areset(self) -> None:
        """Delete everything in the app's store, for tests. The store must be `memory://`."""
        await self.internals.session.store.reset()

    # Inspecting.

    async def ajob(self, job_id: str) -> Job[Any]:
        """The job with this id. `JobNotFound` if there is none."""
        [record] = await self.internals.session.store.get([job_id])
        if record is None:
            raise JobNotFound(job_id)
        return self.internals.job_of(record)

    async def ajobs(
        self,
        *,
        schedule: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        **filters: Unpack[Filters],
    ) -> JobPage:
        """List jobs, a page at a time, newest first. Jobs of one unfinished state are listed in the order in which they will run.

        `filters` are `state`, `queue`, `task`, `tag`, `scheduled`, `error`, `text`, `worker` and `before`; see `Filters`.
        """
        if not 1 <= limit <= BATCH:
            raise InvalidOption(f"limit must be between 1 and {BATCH}, got {limit}")
        if filters.get("tag") is not None and schedule is not None:
            raise InvalidOption("give either a tag or a schedule to find jobs by, not both")
        search = search_of(filters)
        if schedule is not None:
            search = msgspec.structs.replace(search, tag=schedule_tag(checked_name("schedule", schedule)))
        found = await self.internals.session.store.search(msgspec.structs.replace(search, limit=limit, cursor=cursor))
        page = JobPage(self.internals.job_of(record) for record in found.jobs)
        page.cursor = found.cursor
        return page

    async def arun(self, run_id: str) -> FlowRun:
        """The run with this id, which is the id of its first job. `JobNotFound` if there is none."""
        found = await self.internals.session.store.run(run_id)
        if found is None:
            raise JobNotFound(run_id, "run")
        return self.internals.run_of(found)

    async def aflows(
        self,
        *,
        flow: str | NamedFlow | None = None,
        state: State | str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPage:
        """List runs, a page at a time, newest first, filtered by flow and state. (`flow.find` finds them by an attribute.)"""
        name = flow if isinstance(flow, str) or flow is None else flow.name
        return await self.internals.runs_found(
            RunSearch(
                flow=None if name is None else checked_name("flow", name),
                state=None if state is None else state_of(state),
                limit=limit,
                cursor=cursor,
            )
        )

    async def aget_schedule(self, name: str) -> Schedule:
        """The schedule of this name. `ScheduleNotFound` if the store has none; those of code are there once a worker has started."""
        return await find_schedule(self, name)

    async def aschedules(self) -> list[Schedule]:
        """All schedules in the store, by name: those declared in code and those created at run time."""
        pages = [page async for page in all_schedules(self.internals.session.store)]
        return [Schedule(self, record) for page in pages for record in page.schedules]

    async def acreate_schedule(
        self, name: str, call: Call[Any] | Start, when: When, /, **options: Unpack[ScheduleKeywords]
    ) -> Schedule:
        """Create a schedule at run time; any worker that reaps fires it. Otherwise as `schedule`.

        If there is an equal one already, it is returned. `InvalidSchedule` if there is another one of this name.
        """
        return await create_schedule(self, name, plan_of(call, when, options))

    async def aexplain(self, job: Job[Any] | FlowRun | str) -> Explanation:
        """Explain why a job does not run, or how it ended; for a run, its current step. Also explains an id that has no job."""
        return await explain(self, _id(job))

    async def aqueues(self) -> list[QueueInfo]:
        """Every queue that has ever had a job or was paused, with its counts of jobs."""
        return await self.internals.session.store.queues()

    async def aworkers(self) -> list[WorkerInfo]:
        """Every worker in the registry."""
        return await self.internals.session.store.workers()

    async def ahistory(
        self, queue: str | None = None, task: str | Task[..., Any] | None = None, *, span: str = "1h"
    ) -> History:
        """What happened over the last `span`: rates, lengths, ages, waits and runs, of all jobs, a queue, a task, or both.

        `span`: `10m`, `1h` (default), `6h`, `24h`, `2d`, `7d` or `30d`.
        """
        name = task.name if isinstance(task, Task) else task
        names = (
            None if queue is None else checked_name("queue", queue),
            None if name is None else checked_name("task", name),
        )
        checked_span(span)
        return await history_of(self.internals.session.store, *names, span)

    async def aattention(self) -> list[Attention]:
        """What an operator should look at now, the bad first, such as a queue with jobs in line that no live worker serves.

        Reads the first 1,000 queues by name, the workers, the last 15 minutes of the history, the first 200 schedules, and
        examines the store.
        """
        return await attention_of(self.internals.session.store)

    async def amark(self, label: str) -> None:
        """Mark this moment in the history, such as a deploy or a change of configuration; at most 100 characters."""
        if not isinstance(label, str) or not label.strip() or len(label) > 100:
            raise refused("label", "a text of 1 to 100 characters", label)
        await self.internals.session.store.mark(label)

    async def aactions(self, *, limit: int = 50, cursor: str | None = None) -> ActionPage:
        """What operators have done with the command line and the dashboard, the latest first: the last 10,000 actions of 90 days."""
        if not 1 <= limit <= BATCH:
            raise InvalidOption(f"limit must be between 1 and {BATCH}, got {limit}")
        return await self.internals.session.store.actions(limit, cursor)

    async def astats(self) -> Stats:
        """Totals of what has happened so far: overall, by queue and by worker."""
        store = self.internals.session.store
        return Stats.of(await store.queues(), await store.workers())

    # Operating.

    async def acancel(
        self,
        *targets: Job[Any] | FlowRun | Call[Any] | str,
        **filters: Unpack[Filters],
    ) -> int:
        """Cancel jobs that have not ended, in atomic batches of 1,000. Returns how many were cancelled.

        A bound call stands for every job of its task with equal arguments; with `queue`, only for those in that queue. Without targets,
        all jobs are cancelled that match the filters that are given, see `Filters`; none if none is. A running job gets the abort signal.

        A `before_dequeue` hook may veto the cancelling of a bound call. Then nothing is cancelled.
        """
        search = search_of(filters)
        calls = _calls_of(targets, search)
        if calls and not await acall_hooks(before_dequeue(self, calls)):
            return 0
        count, counts = await self._cancel(targets, calls, search)
        await acall_hooks(after_dequeue(self, counts))
        return count

    def cancel(
        self,
        *targets: Job[Any] | FlowRun | Call[Any] | str,
        **filters: Unpack[Filters],
    ) -> int:
        """The blocking twin of `acancel`."""
        refuse_on_loop("cancel")
        search = search_of(filters)
        calls = _calls_of(targets, search)
        if calls and not call_hooks(before_dequeue(self, calls)):
            return 0
        count, counts = run_blocking(self._cancel(targets, calls, search))
        call_hooks(after_dequeue(self, counts))
        return count

    async def _cancel(
        self,
        targets: Sequence[Job[Any] | FlowRun | Call[Any] | str],
        calls: Sequence[Call[Any]],
        search: Search,
    ) -> tuple[int, list[tuple[Call[Any], int]]]:
        """Cancel them. Returns how many jobs were cancelled, and how many of them by each bound call."""
        store = self.internals.session.store
        if not targets and search != Search():
            return await cancel_found(store, search), []
        named = [target if isinstance(target, str) else target.id for target in targets if not isinstance(target, Call)]
        count = await cancel(store, named)
        counts = [(call, await cancel_equal(store, call, search.queue)) for call in calls]
        return count + sum(of_call for _, of_call in counts), counts

    async def aretry(
        self,
        *targets: Job[Any] | FlowRun | str,
        **filters: Unpack[Filters],
    ) -> int:
        """Put finished jobs at the back of their queues again, in atomic batches of 1,000. Returns how many.

        Jobs that cannot be retried are skipped (`Job.retry` says which). Without targets, all jobs are retried that match the filters that
        are given, see `Filters`; of `state` the default is failed and broken. A job that ends again during this call is not retried twice.
        """
        ids, search = [_id(target) for target in targets], search_of(filters)
        retried = await retry(self.internals.session.store, ids, search)
        if self.internals.inlines:
            await self.internals.inlines[-1].run_pending([target for target in targets if not isinstance(target, str)])
        return retried

    async def adelete(
        self,
        *targets: Job[Any] | FlowRun | str,
        cascade: bool = False,
        **filters: Unpack[Filters],
    ) -> int:
        """Delete jobs, and runs with all their steps, in atomic batches of 1,000. Returns how many jobs were deleted.

        Raises `HasDependents` if other jobs wait for one of them, unless `cascade` deletes those too. Without targets, finished jobs are
        deleted that match the filters, as for `aretry`; those that other jobs wait for are skipped, unless `cascade`.
        """
        ids, search = [_id(target) for target in targets], search_of(filters)
        return await delete(self.internals.session.store, ids, search, cascade=cascade)

    async def apause(self, queue: str) -> bool:
        """Stop handing out jobs of this queue, which need not exist yet. Returns False if it was paused already."""
        checked_name("queue", queue)
        return await self.internals.session.store.pause(queue)

    async def aresume(self, queue: str) -> bool:
        """Hand out jobs of this queue again. Returns False if it was not paused."""
        checked_name("queue", queue)
        return await self.internals.session.store.resume(queue)

    async def apurge(self, queue: str) -> int:
        """Delete every job of this queue that has not started. Returns how many."""
        checked_name("queue", queue)
        purged = 0
        while batch := await self.internals.session.store.purge(queue):
            purged += batch
        return purged

    async def aorder(self, worker_id: str, order: Order | Literal["go_on", "quiet", "stop"]) -> bool:
        """Tell a worker to lease no more jobs (`quiet`), to lease jobs again (`go_on`), or to finish its jobs and stop (`stop`).

        It obeys with its next heartbeat, within two seconds by default. Returns False if the registry does not know the worker. An order
        stands until the next one, or until the worker registers again. A supervisor replaces a process that has stopped.
        """
        if order not in set(Order):
            raise refused("order", f"one of {', '.join(Order)}", order)
        return await self.internals.session.store.order(checked_name("worker", worker_id), Order(order))

    async def aretire(self, worker_id: str, reason: str | None = None) -> list[Reaped]:
        """Remove a worker that is known to be dead from the registry and release its jobs to other workers at once.

        `reason` appears in the error of each of these jobs. A worker that is still alive drops its jobs and goes on under a new name.
        """
        checked_name("worker", worker_id)
        reaped: list[Reaped] = []
        while True:
            batch = await self.internals.session.store.retire(worker_id, reason=reason)
            reaped += batch
            # Stop here: if the worker is alive and has not noticed yet, another call would take the jobs that it has just leased.
            if len(batch) < BATCH:
                return reaped

    # Working.

    async def alease(self, *queues: str, limit: int = 1, wait: Duration = 0.0) -> list[Held]:
        """Lease up to `limit` jobs by hand, the first queue first. Waits up to `wait` seconds for a job; [] if none came.

        The app holds the jobs and renews their leases until each is settled; closing the app releases the rest. While it waits or holds
        jobs, it reaps expired leases of these queues once a second, as a worker does, so that jobs of dead peers are recovered.
        """
        if not queues:
            raise InvalidOption("lease needs the name of at least one queue")
        if not 1 <= limit <= BATCH:
            raise InvalidOption(f"limit must be between 1 and {BATCH}, got {limit}")
        names = tuple(checked_name("queue", queue) for queue in queues)
        ttl, timeout = seconds(self.options.lease, "lease"), seconds(wait, "wait")
        holder = self.internals.session.holder
        leases = await holder.lease(names, limit, ttl, timeout, wakeup=self.options.wakeup)
        held = [Held(self, holder, lease, names) for lease in leases]
        try:
            await holder.wait_registered()
        except BaseException:
            for each in held:
                each._stop_renewing()
            raise
        return held

    def worker(self, queues: Iterable[str] = ("*",), **options: Unpack[WorkerKeywords]) -> Worker:
        """Make a worker for the jobs of this app, not yet started; docs/options.md and `WorkerOptions` describe the options."""
        return self.internals.new_worker({"queues": queues, **options})

    def lifespan(
        self,
        *,
        worker: bool = True,
        grace: Duration = 10.0,
        queues: Iterable[str] | None = None,
        **options: Unpack[WorkerKeywords],
    ) -> Lifespan:
        """Run a worker in a web server, on its event loop: `FastAPI(lifespan=app.lifespan(concurrency=10))`.

        `grace`: seconds within which the worker stops when the server does. `term_timeout` seconds before the end of that time, jobs that
        still run are aborted; at the end, those that have not stopped are released, and run elsewhere.
        `worker=False`: open the store and close the app, and run no jobs. `queues` and `options`: those of `worker`. See `Lifespan`.
        """
        from tenure.worker.lifespan import Lifespan, check_lifespan_options

        given: dict[str, Any] = {**options} if queues is None else {"queues": queues, **options}
        check_lifespan_options(given, worker=worker)
        limit = seconds(grace, "lifespan: grace")
        if not worker:
            return Lifespan(self, None, limit)
        make_worker = self.internals.worker_maker("lifespan", given, stop_within=limit)
        make_worker()  # raises now, where the options stand
        return Lifespan(self, make_worker, limit)

    async def aclose(self) -> None:
        """Close the connections of this event loop and those of blocking code. Later calls open new ones.

        Listeners are first called with the events so far, for at most two seconds. An app that is garbage collected closes its
        connections too, which does not happen while one of its listeners refers to it.
        """
        await self.internals.sessions.close()
        await self.internals.audience.listeners.aflush()

    job = blocking(ajob)
    jobs = blocking(ajobs)
    run = blocking(arun)
    flows = blocking(aflows)
    get_schedule = blocking(aget_schedule)
    schedules = blocking(aschedules)
    create_schedule = blocking(acreate_schedule)
    explain = blocking(aexplain)
    queues = blocking(aqueues)
    workers = blocking(aworkers)
    actions = blocking(aactions)
    stats = blocking(astats)
    history = blocking(ahistory)
    attention = blocking(aattention)
    mark = blocking(amark)
    retry = blocking(aretry)
    delete = blocking(adelete)
    pause = blocking(apause)
    resume = blocking(aresume)
    purge = blocking(apurge)
    order = blocking(aorder)
    retire = blocking(aretire)
    lease = blocking(alease)
    reset = blocking(areset)
    close = blocking(aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _check_store(store: object) -> None:
    if store is None or isinstance(store, str) or callable(store):
        return
    instead = f'write "sqlite:///{store}"' if isinstance(store, os.PathLike) else "write lambda: … around a store"
    raise named(refused("store", "a URL, or a function that makes a store", store, instead), "App")


def _check_log(log: object) -> None:
    if log is None or log is False or isinstance(log, logging.Logger | logging.LoggerAdapter):
        return
    instead = f"write logging.getLogger({log!r:.80})" if isinstance(log, str) else ""
    raise named(refused("log", "a logging.Logger, False or None", log, instead), "App")


def _calls_of(targets: Sequence[Job[Any] | FlowRun | Call[Any] | str], search: Search) -> list[Call[Any]]:
    """The bound calls among the targets of a cancel. `InvalidOption` if there are both targets and filters."""
    calls = [target for target in targets if isinstance(target, Call)]
    if targets and search != Search() and (search != Search(queue=search.queue) or len(calls) < len(targets)):
        raise InvalidOption(
            "give either jobs to cancel, or queue, task, tag and state to select them; "
            "only a bound call can be combined with one of these, the queue"
        )
    return calls


def _id(target: Job[Any] | FlowRun | str) -> str:
    return target if isinstance(target, str) else target.id
