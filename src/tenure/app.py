"""The app: knows the tasks and the store; enqueues and inspects."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec

from tenure.core.checks import Duration, named, refused, seconds, several
from tenure.core.checks import name as checked_name
from tenure.core.job import State
from tenure.core.keywords import AppKeywords, TaskKeywords, WorkerKeywords
from tenure.core.options import AppOptions, Retention, WorkerOptions, build_options, check_names, split_retention
from tenure.errors import InvalidName, InvalidOption, JobNotFound
from tenure.events import Event, Kind, kind_of
from tenure.explain import Explanation, explain
from tenure.hooks.calling import awaiting, waiting
from tenure.hooks.registry import JobHooks, WorkerHooks
from tenure.inline import Inline
from tenure.internals import Internals
from tenure.jobs.bulk import JobPage, Stats, cancel, cancel_equal, cancel_found, delete, retry, search_of, state_of
from tenure.jobs.by_hand import Held
from tenure.jobs.enqueue import Batch, abring, asubmit, bring, caller_connection_of, pending_of, submit
from tenure.jobs.enqueue_hooks import cancelled, may_cancel
from tenure.jobs.handle import Job
from tenure.jobs.run import FlowRun, RunPage
from tenure.observe.listeners import Listener
from tenure.observe.logs import Logs
from tenure.observe.watching import Watch
from tenure.stores import masked, store_maker
from tenure.stores.base import BATCH, Store
from tenure.stores.values import QueueInfo, Reaped, RunSearch, Search, WorkerInfo
from tenure.sync import blocking, refuse_on_loop
from tenure.sync import run as run_blocking
from tenure.tasks.context import Context, Middleware, checked_middleware
from tenure.tasks.flow import Flow, NamedFlow, RemoteFlow, Start
from tenure.tasks.task import AsyncTask, Call, Caller, Registrar, Task, Untyped, register_task

if TYPE_CHECKING:
    from tenure.worker.worker import Worker

__all__ = ["App"]

L = TypeVar("L", bound=Listener)
M = TypeVar("M", bound=Middleware)
P = ParamSpec("P")
R = TypeVar("R")


class App(JobHooks, WorkerHooks):
    """Knows tasks and where their jobs live; enqueues and inspects them.

    `store` is a URL (default: the environment's TENURE_URL, else `sqlite:///tenure.db`), or a function that makes a
    store object, one of which is needed for every event loop. For the options see `AppOptions`; `keep` may also be a
    mapping from queues to what each keeps, `"*"` standing for the others.

    Every blocking method has an async twin whose name begins with `a`, to be awaited where an event loop runs.
    """

    def __init__(
        self,
        store: str | Callable[[], Store] | None = None,
        *,
        listeners: Iterable[Listener] = (),
        log: logging.Logger | Literal[False] | None = None,
        **options: Unpack[AppKeywords],
    ) -> None:
        """Make an app. `listeners` are called with every event, see `listen`; `log` is told of every job that has ended, see `Logs`.

        Without a logger that is `tenure.jobs`; False: nobody is told.
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
        """What `on_start` opens for the jobs of a worker process, and `on_stop` closes."""

        make_store = store_maker(given) if isinstance(given, str) else given
        self.internals = Internals(self, make_store, stand_in=lambda: App("memory://stand-in"))
        """For the other parts of Tenure; its members may change in any release."""

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
        """Make a task of a function: `@app.task` or `@app.task(...)`.

        The name is the function's own unless `name` gives another; two tasks of one app cannot have the same. A parameter
        annotated `Context` is filled in by the worker; put it first, so that type checkers do not ask callers for it.
        For the options see `TaskOptions`.
        """
        return Registrar(self, options) if function is None else register_task(self, function, options)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The registered tasks by name, and by each name that they had before."""
        return MappingProxyType(self.internals.tasks)

    def include(self, *modules: str) -> None:
        """Have these modules imported when a worker of this app starts, and when the command line loads it: `app.include("shop.tasks")`.

        Nothing is imported here, so these modules may import the one that defines the app. `InvalidOption` if a name is no module name.
        """
        for module in modules:
            if not isinstance(module, str) or not all(part.isidentifier() for part in module.split(".")):
                raise InvalidOption(f"include takes full names of modules, such as 'shop.tasks', got {module!r:.80}")
        self.internals.included += modules

    def middleware(self, layer: M) -> M:
        """Wrap every attempt in this function, which gets the context and what to call next; the first registered is outermost."""
        self.internals.middlewares.append(checked_middleware(layer))
        return layer

    @overload
    def listen(self, *kinds: Kind) -> Callable[[L], L]: ...
    @overload
    def listen(self, listener: L, /) -> L: ...
    def listen(self, *given: Any) -> Any:
        """Call this function with every event that this app brings about, in this process; `@app.listen(Failed)`: of these kinds alone.

        It is called in a thread of its own, some milliseconds later, and neither slows nor breaks what it is told of. Events come in the
        order in which they happened on one event loop. If it is too slow for them, some are dropped.
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
        """The events of all processes, as they come: those of this queue, task, job or run, and of these kinds, as far as these are given.

        `async for event in app.watch():`, or `for` in blocking code, until the loop is left. They are hints; see `Watch`.
        """
        return Watch(
            lambda: self.internals.session.store,
            lambda: self.internals.audience.answered(watched=True),
            queue=None if queue is None else checked_name("queue", queue),
            task=task if isinstance(task, str) or task is None else task.name,
            job=job if isinstance(job, str) or job is None else job.id,
            run=run if isinstance(run, str) or run is None else run.id,
            kinds=[kinds] if isinstance(kinds, str | type) else kinds,
        )

    def flow(self, name: str, *, lookup: Iterable[str] = ()) -> Flow:
        """A flow of this name, whose steps are declared with `@flow.step(...)`; `lookup` names attributes that its runs are found by."""
        flow = Flow(self, name, lookup)
        if name in self.internals.flows:
            raise InvalidOption(f"there is a flow named {name!r} already: give one of them another name")
        self.internals.flows[name] = flow
        return flow

    def remote(self, name: str, *, queue: str | None = None, raw: bool = False) -> Caller[..., Any]:
        """A task whose code is elsewhere: enqueues whatever JSON can hold (or bytes, if `raw`) under its name."""
        queue = self.options.default_queue if queue is None else queue
        if queue is None:
            raise InvalidOption(f"remote task {name!r} names no queue, and this app has no default_queue")
        fields = {"queue": checked_name("queue", queue), "raw": raw}
        return Caller(self, checked_name("task", name), self.internals.any_call[raw], self.internals.any_result, fields)

    def remote_flow(self, name: str, *, first: str, queue: str | None = None, lookup: Iterable[str] = ()) -> RemoteFlow:
        """A flow whose code is elsewhere: starts and finds its runs by its name, that of its first step, and the queue of that step.

        `lookup` names attributes that its runs are found by: those that the code names, or a run that is started here is not found by them.
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
        """Store these calls, of whatever tasks, as jobs, and these starts as runs: all of them or none, durably, in one round trip.

        With them come to exist the calls and starts that they wait for (`using(after=…)`). One that is given here as well as
        waited for is one job.

        An outage of the store is ridden out for 5 seconds. Then `StoreUnavailable` says that surely nothing was stored,
        `OutcomeUnknown` that perhaps it was.

        `connection`: the caller's own, to the store's database and in a transaction. The jobs come to exist, and workers are
        woken, when that commits, and never if it does not; they are no part of a batch that is open. Errors of the
        connection come as its library raises them.

        `EnqueueRefused`, and nothing is stored, if a `before_enqueue` hook refuses one of them.
        """
        handles, pending, coming = pending_of(calls)
        caller = (
            None if self.internals.inlines or self.internals.in_memory else caller_connection_of(coming, connection)
        )
        if caller is None:
            submit(self, pending)
        elif pending:
            bring(self, pending, caller)
        return handles

    @overload
    async def aenqueue(self, *calls: Call[R], connection: object = None) -> list[Job[R]]: ...
    @overload
    async def aenqueue(self, *calls: Start, connection: object = None) -> list[FlowRun]: ...
    @overload
    async def aenqueue(self, *calls: Call[Any] | Start, connection: object = None) -> list[Job[Any] | FlowRun]: ...
    async def aenqueue(self, *calls: Call[Any] | Start, connection: object = None) -> Sequence[Job[Any] | FlowRun]:
        """The async twin of `enqueue`; a blocking connection blocks here as its own calls do."""
        handles, pending, coming = pending_of(calls)
        caller = (
            None if self.internals.inlines or self.internals.in_memory else caller_connection_of(coming, connection)
        )
        if caller is None:
            await asubmit(self, pending)
        elif pending:
            await abring(self, pending, caller)
        return handles

    def batch(self) -> Batch:
        """Enqueue together what a block of code enqueues: `with app.batch(): …`, or `async with`."""
        return Batch(self)

    def inline(self, *, raises: bool = True) -> Inline:
        """Run jobs at once where they are enqueued: `with app.inline(): …`, or `async with`; for scripts and tests.

        The call that enqueued a job that fails raises the job's own exception; with `raises=False` the handle has it instead.
        """
        return Inline(self, raises=raises)

    async def areset(self) -> None:
        """Remove everything from the app's store, which must be `memory://`; for tests."""
        await self.internals.session.store.reset()

    # Looking.

    async def ajob(self, job_id: str) -> Job[Any]:
        """The job with this id; `JobNotFound` if there is none."""
        [record] = await self.internals.session.store.get([job_id])
        if record is None:
            raise JobNotFound(job_id)
        return self.internals.job_of(record)

    async def ajobs(
        self,
        *,
        state: State | str | None = None,
        queue: str | None = None,
        task: str | Task[..., Any] | None = None,
        tag: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> JobPage:
        """List jobs, a page at a time: the newest first, those of one unfinished state in the order of their turn."""
        if not 1 <= limit <= BATCH:
            raise InvalidOption(f"limit must be between 1 and {BATCH}, got {limit}")
        search = search_of(state, queue, task, tag)
        found = await self.internals.session.store.search(msgspec.structs.replace(search, limit=limit, cursor=cursor))
        page = JobPage(self.internals.job_of(record) for record in found.jobs)
        page.cursor = found.cursor
        return page

    async def arun(self, run_id: str) -> FlowRun:
        """The run with this id, which is its first job's; `JobNotFound` if there is none."""
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
        """List runs, a page at a time, the newest first: of this flow, in this state. (`flow.find` has those with an attribute.)"""
        name = flow if isinstance(flow, str) or flow is None else flow.name
        return await self.internals.runs_found(
            RunSearch(
                flow=None if name is None else checked_name("flow", name),
                state=None if state is None else state_of(state),
                limit=limit,
                cursor=cursor,
            )
        )

    async def aexplain(self, job: Job[Any] | FlowRun | str) -> Explanation:
        """Say why a job does not run, or what has become of it; of a run, its current step. There need be no job with this id."""
        return await explain(self, _id(job))

    async def aqueues(self) -> list[QueueInfo]:
        """Every queue that has ever had a job or was paused, with its counts."""
        return await self.internals.session.store.queues()

    async def aworkers(self) -> list[WorkerInfo]:
        """Every worker in the registry."""
        return await self.internals.session.store.workers()

    async def astats(self) -> Stats:
        """What has happened so far: in all, in each queue, on each worker."""
        store = self.internals.session.store
        return Stats.of(await store.queues(), await store.workers())

    # Operating.

    async def acancel(
        self,
        *targets: Job[Any] | FlowRun | Call[Any] | str,
        queue: str | None = None,
        task: str | Task[..., Any] | None = None,
        tag: str | None = None,
        state: State | str | None = None,
    ) -> int:
        """Cancel jobs that are not final, in steps of 1,000 that are each atomic; how many were.

        A bound call means every job of its task with equal arguments, and with `queue` those in that queue alone. Or, instead of
        targets, all jobs are cancelled that are of this queue and this task, have this tag and are in this state, as far as these are
        given. A worker that runs one gets the abort signal.

        A `before_dequeue` hook may veto the cancelling of a bound call: then nothing is cancelled.
        """
        search = search_of(state, queue, task, tag)
        calls = _calls_of(targets, search)
        if calls and not await awaiting(may_cancel(self, calls)):
            return 0
        count, counts = await self._cancel(targets, calls, search)
        await awaiting(cancelled(self, counts))
        return count

    def cancel(
        self,
        *targets: Job[Any] | FlowRun | Call[Any] | str,
        queue: str | None = None,
        task: str | Task[..., Any] | None = None,
        tag: str | None = None,
        state: State | str | None = None,
    ) -> int:
        """The blocking twin of `acancel`."""
        refuse_on_loop("cancel")
        search = search_of(state, queue, task, tag)
        calls = _calls_of(targets, search)
        if calls and not waiting(may_cancel(self, calls)):
            return 0
        count, counts = run_blocking(self._cancel(targets, calls, search))
        waiting(cancelled(self, counts))
        return count

    async def _cancel(
        self,
        targets: Sequence[Job[Any] | FlowRun | Call[Any] | str],
        calls: Sequence[Call[Any]],
        search: Search,
    ) -> tuple[int, list[tuple[Call[Any], int]]]:
        """How many were cancelled, and how many of them of each bound call."""
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
        queue: str | None = None,
        task: str | Task[..., Any] | None = None,
        tag: str | None = None,
        state: State | str | None = None,
        error: str | None = None,
    ) -> int:
        """Put finished jobs at the back of their queues again, in steps of 1,000 that are each atomic; how many were.

        Those that cannot be retried (`Job.retry` says why) are left. Or, instead of targets, all jobs that are of this queue and this
        task, have this tag, ended in this state and with this type of error, as far as these are given; without a state those that
        failed or are broken. One that ends again while this goes on is not retried again.
        """
        ids, search = [_id(target) for target in targets], search_of(state, queue, task, tag)
        retried = await retry(self.internals.session.store, ids, search, error)
        if self.internals.inlines:
            await self.internals.inlines[-1].run_pending([target for target in targets if not isinstance(target, str)])
        return retried

    async def adelete(
        self,
        *targets: Job[Any] | FlowRun | str,
        cascade: bool = False,
        queue: str | None = None,
        task: str | Task[..., Any] | None = None,
        tag: str | None = None,
        state: State | str | None = None,
        error: str | None = None,
    ) -> int:
        """Remove jobs, and runs with all their steps, up to 1,000 in one atomic step: all or none; how many jobs went.

        `HasDependents` if others wait for one of them, unless `cascade` removes those too. More than 1,000 go in several steps.
        Or, instead of targets, finished jobs that every option fits, as with `aretry`; those that others wait for are left,
        unless `cascade`.
        """
        ids, search = [_id(target) for target in targets], search_of(state, queue, task, tag)
        return await delete(self.internals.session.store, ids, search, error, cascade=cascade)

    async def apause(self, queue: str) -> bool:
        """Let no worker take jobs of this queue, which need not exist yet; False if it was paused already."""
        checked_name("queue", queue)
        return await self.internals.session.store.pause(queue)

    async def aresume(self, queue: str) -> bool:
        """Let workers take jobs of this queue again; False if it was not paused."""
        checked_name("queue", queue)
        return await self.internals.session.store.resume(queue)

    async def apurge(self, queue: str) -> int:
        """Delete every job of this queue that has not started; how many went."""
        checked_name("queue", queue)
        purged = 0
        while step := await self.internals.session.store.purge(queue):
            purged += step
        return purged

    async def aretire(self, worker_id: str, reason: str | None = None) -> list[Reaped]:
        """Strike a worker that is known to be dead off the registry and give its jobs to others, at once.

        The reason is told in the error of each job that it had. A worker that lives drops its jobs and goes on under another name.
        """
        checked_name("worker", worker_id)
        reaped: list[Reaped] = []
        while True:
            batch = await self.internals.session.store.retire(worker_id, reason=reason)
            reaped += batch
            # No further: one that lives, and has not heard yet, would lose again what it has just been given.
            if len(batch) < BATCH:
                return reaped

    # Working.

    async def alease(self, *queues: str, limit: int = 1, wait: Duration = 0.0) -> list[Held]:
        """Lease up to `limit` jobs by hand, the first queue first, waiting up to `wait` seconds for one; [] if none came.

        They are held, and their leases renewed, until each is settled; closing the app gives back what is left. While it
        waits or holds jobs, it reaps expired leases of these queues once a second, as a worker does: jobs of dead peers come back.
        """
        if not queues:
            raise InvalidOption("lease needs the name of at least one queue")
        if not 1 <= limit <= BATCH:
            raise InvalidOption(f"limit must be between 1 and {BATCH}, got {limit}")
        names = tuple(checked_name("queue", queue) for queue in queues)
        ttl, patience = seconds(self.options.lease, "lease"), seconds(wait, "wait")
        holder = self.internals.session.holder
        leases = await holder.lease(names, limit, ttl, patience, wakeup=self.options.wakeup)
        held = [Held(self, holder, lease, names) for lease in leases]
        try:
            await holder.entered()
        except BaseException:
            for each in held:
                each.let_go()
            raise
        return held

    def worker(self, queues: Iterable[str] = ("*",), **options: Unpack[WorkerKeywords]) -> Worker:
        """A worker for the jobs of this app, not yet started; see `WorkerOptions`."""
        from tenure.worker.worker import Worker

        check_names("worker", "worker", options)
        layers = tuple(
            checked_middleware(each) for each in several(options.pop("middleware", ()), "worker: middleware")
        )
        return Worker(self, build_options(WorkerOptions, "worker", {"queues": queues, **options}), layers)

    async def aclose(self) -> None:
        """Let go of the connections of this event loop, and of those that blocking code has used; later calls open others.

        Listeners are called with what has happened before, if they do not take more than two seconds. An app that is dropped
        lets go of them by itself, unless one of its listeners refers to it.
        """
        await self.internals.sessions.close()
        await self.internals.audience.listeners.aflush()

    job = blocking(ajob)
    jobs = blocking(ajobs)
    run = blocking(arun)
    flows = blocking(aflows)
    explain = blocking(aexplain)
    queues = blocking(aqueues)
    workers = blocking(aworkers)
    stats = blocking(astats)
    retry = blocking(aretry)
    delete = blocking(adelete)
    pause = blocking(apause)
    resume = blocking(aresume)
    purge = blocking(apurge)
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
    """The bound calls among what is to be cancelled; `InvalidOption` if it is named as well as searched for."""
    calls = [target for target in targets if isinstance(target, Call)]
    if targets and search != Search() and (search != Search(queue=search.queue) or len(calls) < len(targets)):
        raise InvalidOption(
            "say which jobs to cancel either by themselves or by queue, task, tag and state; "
            "only a bound call takes one of these as well, the queue"
        )
    return calls


def _id(target: Job[Any] | FlowRun | str) -> str:
    return target if isinstance(target, str) else target.id
