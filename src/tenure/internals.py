"""Internals: the parts of an app that only Tenure's own modules use. Replaced: other stores for a block of a test."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tenure.core.after import BoundCall
from tenure.core.checks import integer, seconds, several
from tenure.core.codec import ANY_CALL, RAW_CALL, Arguments, JsonArguments, RawArguments, ResultCodec
from tenure.core.job import JobRecord, NewJob
from tenure.core.options import WorkerOptions, build_options, check_names
from tenure.core.schedule import Plan
from tenure.core.versions import AnyVersion
from tenure.errors import InvalidOption
from tenure.hooks.lifetime import StartStopHooks
from tenure.hooks.registry import Hooks
from tenure.jobs.enqueue import caller_connection_of
from tenure.jobs.handle import Job
from tenure.jobs.run import FlowRun, RunPage
from tenure.jobs.session import Session
from tenure.jobs.stamps import Stamp
from tenure.observe.audience import Audience
from tenure.observe.observed import observed
from tenure.stores.base import BATCH, Store
from tenure.stores.callers import CallerConnection
from tenure.stores.values import Enqueued, RunRecord, RunSearch
from tenure.sync import PerLoop, refuse_on_loop, run
from tenure.tasks.context import Middleware, checked_middleware
from tenure.tasks.flow import Flow
from tenure.tasks.step import Step
from tenure.tasks.task import Caller, Task

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.inline import Inline
    from tenure.worker.settings import Settings
    from tenure.worker.sources import Source
    from tenure.worker.worker import Worker

__all__ = ["Internals", "Replaced"]

WORKER = WorkerOptions()


class Internals:
    """The parts of one app. `app.internals` is for Tenure's own modules: its members may change in any release."""

    def __init__(self, app: App, make_store: Callable[[], Store], *, stand_in: Callable[[], App]) -> None:
        limit = app.options.payload_limit
        self._app = app
        self.make_store = make_store
        """Makes a new store object, which does not publish events."""

        self.stand_in = stand_in
        """Makes an empty app in memory, which child processes use to warm up code before the first job."""

        self.in_memory = app.url.startswith("memory:")
        """Whether the store is in the memory of this process: then `connection=` is accepted and ignored."""

        self.any_connection = False
        """Whether a `connection=` to another database than the store's is accepted and ignored, as in a test kit."""

        self.note: Callable[[Sequence[NewJob]], None] | None = None
        """Called with the jobs of every call that enqueues, on its thread, before they are stored; set by a test kit."""

        self.hooks = Hooks()
        self.start_stop = StartStopHooks(self.hooks)
        self.audience = Audience()
        """The listeners and watchers that receive events."""

        self.middlewares: list[Middleware] = []
        """Middleware around every attempt, the outermost first."""

        self.stamps: list[Stamp] = []
        """Functions that give new jobs headers, in the order of their registration."""

        self.included: list[str] = []
        """Modules that are imported before a worker of the app starts."""

        self.tasks: dict[str, Task[..., Any]] = {}
        """Tasks by name and by each alias."""

        self.flows: dict[str, Flow] = {}
        self.schedules: dict[str, Plan] = {}
        """The schedules that the code declares, by name."""

        self.raw_inboxes: dict[str, NewJob] = {}
        """Templates of the jobs that entries of raw inboxes become, by queue."""

        self._any_json = JsonArguments(ANY_CALL, {}, limit)
        self._any_bytes = RawArguments(RAW_CALL, limit)

        self.any_result = ResultCodec(Any, limit)
        self.sessions = PerLoop(lambda: Session(self.new_store(), app.options, self.raw_inboxes))
        """The app's session on each event loop."""

        self.inlines: list[Inline] = []
        """The open `app.inline()` blocks, the innermost last."""

    @property
    def session(self) -> Session:
        """The app's session on the running event loop."""
        return (self.inlines[-1].sessions if self.inlines else self.sessions).here()

    def caller_connection(self, calls: Sequence[BoundCall], connection: object) -> CallerConnection | None:
        """The connection of the caller in whose transaction `calls` are enqueued; None: the store uses its own."""
        if self.inlines or self.in_memory:
            return None
        try:
            return caller_connection_of(calls, connection)
        except InvalidOption:
            if self.any_connection:
                return None
            raise

    def new_store(self) -> Store:
        """Make a store object that publishes events, beside the session's. The caller closes it."""
        return observed(self.make_store(), self.audience)

    def new_worker(self, given: Mapping[str, Any], sources: Sequence[Source] = ()) -> Worker:
        """Make a worker with these options and `queues`, which also looks for work in these sources."""
        return self.worker_maker("worker", given, sources=sources)()

    def worker_maker(
        self, whose: str, given: Mapping[str, Any], *, stop_within: float | None = None, sources: Sequence[Source] = ()
    ) -> Callable[[], Worker]:
        """Makes workers with these options, which are checked now. `stop_within`: the longest `term_timeout`, in seconds."""
        from tenure.worker.worker import Worker

        given = dict(given)
        check_names(whose, "worker", {name: value for name, value in given.items() if name != "queues"})
        layers = tuple(
            checked_middleware(each) for each in several(given.pop("middleware", ()), f"{whose}: middleware")
        )
        options = build_options(WorkerOptions, whose, given)
        if stop_within is not None:
            options = replace(options, term_timeout=min(seconds(options.term_timeout, "term_timeout"), stop_within))
        return lambda: Worker(self._app, options, layers, sources)

    def import_included(self) -> None:
        """Import the modules that were passed to `app.include`."""
        for module in self.included:  # the list may grow during the loop
            importlib.import_module(module)

    def check_code(self) -> None:
        """Raise `InvalidOption` if `then=` or `next=` of a step names no step, or an upcaster of a task is missing."""
        for flow in self.flows.values():
            flow._check()
        for task in self.tasks.values():
            task._check_versions()

    def register(self, task: Task[..., Any], plan: Plan | None = None) -> None:
        """Add a task, and with a plan a schedule of the same name, or nothing at all.

        `InvalidOption` if its name or one of its aliases is taken, or if another task has the same raw inbox.
        """
        names = dict.fromkeys((task.name, *task.aliases))
        for name in names:
            if (other := self.tasks.get(name)) is None:
                continue
            if name == task.name == other.name:
                raise InvalidOption(_taken(other, task))
            raise InvalidOption(
                f"tasks {other.name!r} and {task.name!r} would both run jobs of {name!r}: remove it from the aliases= of one of them"
            )
        if task.options.inbox == "raw" and (other_job := self.raw_inboxes.get(task.options.queue)) is not None:
            raise InvalidOption(
                f"tasks {other_job.task!r} and {task.name!r} would both take the entries of the inbox of queue "
                f"{task.options.queue!r}: give one of them another queue="
            )
        if plan is not None:
            self.declare(task.name, plan)
        if task.options.inbox == "raw":
            self.raw_inboxes[task.options.queue] = task._template
        self.tasks |= dict.fromkeys(names, task)

    def declare(self, name: str, plan: Plan) -> None:
        """Add a schedule. `InvalidOption` if one of this name is declared already."""
        if name in self.schedules:
            raise InvalidOption(f"there is a schedule named {name!r} already: give one of them another name")
        self.schedules[name] = plan

    def arguments_of_remote(self, version: int = 1, *, raw: bool) -> Arguments:
        """Encodes and decodes the arguments of a task whose code is not registered here. `InvalidOption` if `version` is wrong."""
        integer(1)(version, "version")
        if raw and version != 1:
            raise InvalidOption(
                "a raw task has no version: its payload is bytes, which you can give a version yourself"
            )
        return self._any_bytes if raw else AnyVersion(self._any_json, version)

    def caller_of(self, record: JobRecord | NewJob) -> Caller[..., Any]:
        """The `Caller` that decodes this job's arguments and result: its task, or a generic one if the task is not registered here."""
        task = self.tasks.get(record.task)
        if task is not None:
            return task
        fields = {"queue": record.queue, "raw": record.raw}
        return Caller(self._app, record.task, self.arguments_of_remote(raw=record.raw), self.any_result, fields)

    def converted(self, record: JobRecord, value: Any) -> Any:
        """A JSON value that completes this job, converted by the annotations of its task, or of the steps of its flow."""
        task = self.tasks.get(record.task)
        if record.run_id is not None and task is None:
            return value  # a worker that has the code converts it
        if isinstance(task, Step) and isinstance(value, dict):
            return task.flow._converted(value)
        return self.caller_of(record)._results.decode(msgspec.json.encode(value).decode())

    def settings(self, task: str) -> Settings:
        """The settings of jobs of this task outside a worker."""
        from tenure.worker.settings import resolve

        return resolve(self.tasks.get(task), WORKER, self._app.options)

    def job_of(self, record: JobRecord) -> Job[Any]:
        """The handle of this job."""
        job: Job[Any] = Job(self._app, record.id, record.task, record.queue, self.caller_of(record)._results)
        job._update(record)
        return job

    def run_of(self, record: RunRecord) -> FlowRun:
        """The handle of this run."""
        run = FlowRun(self._app, record.id, record.flow)
        run._update_run(record)
        return run

    def handle_of(self, job: NewJob, answer: Enqueued) -> Job[Any] | FlowRun:
        """The handle of a job that was enqueued, or of the run that it starts."""
        handle: Job[Any] | FlowRun
        if job.step is None:
            handle = Job(self._app, answer.id, job.task, job.queue, self.caller_of(job)._results)
        else:
            handle = FlowRun(self._app, answer.id, job.step.flow)
        handle._update_enqueued(answer)
        return handle

    async def runs_found(self, search: RunSearch) -> RunPage:
        """One page of the runs that match a search. `InvalidOption`, before any I/O, if its limit is out of range."""
        if not 1 <= search.limit <= BATCH:
            raise InvalidOption(f"limit must be between 1 and {BATCH}, got {search.limit}")
        found = await self.session.store.runs(search)
        page = RunPage(self.run_of(record) for record in found.runs)
        page.cursor = found.cursor
        return page


class Replaced:
    """A block, `with app.replaced(make_store):` or `async with`, in which an app uses other stores."""

    def __init__(self, app: App, make_store: Callable[[], Store]) -> None:
        self._app = app
        self._make_store = make_store
        self._restore: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        refuse_on_loop("with app.replaced", "use async with")
        return self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self.__aexit__(kind, error, trace))

    async def __aenter__(self) -> Self:
        return self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sessions = self._app.internals.sessions
        self.undo()
        await sessions.close()

    def undo(self) -> None:
        """Give the app its own stores back, and leave the others open."""
        if self._restore is not None:
            self._restore()
            self._restore = None

    def _begin(self) -> Self:
        app, parts, make_store = self._app, self._app.internals, self._make_store
        before = parts.make_store, parts.sessions, parts.in_memory, parts.any_connection, parts.note, app.url

        def restore() -> None:
            parts.make_store, parts.sessions, parts.in_memory, parts.any_connection, parts.note, app.url = before

        self._restore = restore
        parts.make_store, parts.in_memory = make_store, False
        # Not new_store: a session that is made late, by a thread that outlives the block, must not reach the app's own store.
        parts.sessions = PerLoop(
            lambda: Session(observed(make_store(), parts.audience), app.options, parts.raw_inboxes)
        )
        app.url = f"made by {getattr(make_store, '__qualname__', repr(make_store))}"
        return self


def _taken(other: Task[..., Any], task: Task[..., Any]) -> str:
    """The error message about two tasks with the same name."""
    place = _place(other)
    if place == _place(task) and other.function.__module__ != task.function.__module__:
        return (
            f"there is a task named {task.name!r} already, defined in the same place, {place}: its module was imported "
            f"twice, as {other.function.__module__} and as {task.function.__module__}; import it under one name only"
        )
    return f"there is a task named {task.name!r} already, defined in {place}: give one of them another name="


def _place(task: Task[..., Any]) -> str:
    """Where the function of a task is defined."""
    code = getattr(inspect.unwrap(task.function), "__code__", None)
    return f"module {task.function.__module__}" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
