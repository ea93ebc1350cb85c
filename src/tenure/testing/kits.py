"""`Kit`, and `kit` which makes one: an app for a test, on a separate store and on a clock that only the test moves."""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload
from urllib.parse import quote, urlsplit

from tenure.core.checks import refused, seconds
from tenure.core.job import AttemptEnd, JobRecord, NewJob, State, attempts_of
from tenure.core.lease import Lease, Token, new_nonce
from tenure.core.lifecycle import Finish, Park, Requeue
from tenure.core.options import UNSET
from tenure.errors import InvalidOption, JobNotFound
from tenure.hooks.around import Blocking
from tenure.inline import run_with_this_thread
from tenure.internals import Replaced
from tenure.jobs.handle import Job
from tenure.jobs.run import FlowRun, step_name
from tenure.stores.base import Store
from tenure.stores.memory import Data, MemoryStore
from tenure.sync import refuse_on_loop, run
from tenure.tasks.flow import NamedFlow
from tenure.tasks.step import Step
from tenure.tasks.task import Call, Caller, Task
from tenure.testing.clock import ManualClock
from tenure.testing.crashing import Crashes, Moment, replaced_function
from tenure.testing.driver import Driver, Performed, Ran, outcome_of
from tenure.testing.expecting import (
    EnqueuedJob,
    Expectation,
    argument,
    checked_names,
    options_of,
    span_of,
    timespan,
)
from tenure.testing.ledger import Ledger
from tenure.worker.threads import Threads

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Kit", "kit"]

R = TypeVar("R")
T = TypeVar("T")

Stores = Literal["memory", "sqlite"]


def kit(
    app: App,
    *,
    store: Stores = "memory",
    at: datetime | str | None = None,
    schedules: bool = False,
    system: bool = False,
) -> Kit:
    """Give a test this app on a separate store, with a clock that stands still: use it with `with`, or `async with`.

    `store`: "memory", or "sqlite" for a file with real transactions. `at`: the time to begin at, with its offset from UTC; None: now.
    `schedules`: fire schedules whose time has come; otherwise none fires by itself. `system`: move the clock of Python too, by the
    package `time-machine`.
    """
    return Kit(app, store=store, at=at, schedules=schedules, system=system)


class Kit:
    """The jobs of one test: what was enqueued, what happens when they run, and the clock by which they do.

    Nothing runs by itself. `run_until_idle` runs what is due by the real lifecycle, with hooks, middleware and retries, without
    jitter. A plain `def` runs on the thread of the test, so that it sees the transactions of the test; in the async twins it runs in
    another thread, because it may block. An isolated task runs in place.
    """

    def __init__(self, app: App, *, store: Stores, at: datetime | str | None, schedules: bool, system: bool) -> None:
        if store not in ("memory", "sqlite"):
            raise refused("store", '"memory" or "sqlite"', store)
        self._app = app
        self._store = store
        self._schedules = schedules
        self._system = system
        self._began = float(int(time.time())) if at is None else _instant(at)
        self._clock = ManualClock(self._began)
        self._crashes = Crashes()
        self._ledger = Ledger(app, self._clock)
        self._driver = Driver(app, self._clock, self._crashes, self._ledger.add_created, schedules=schedules)
        self._stack = ExitStack()
        self._replaced: Replaced | None = None
        self._traveller: Any = None
        self.path: str | None = None
        """The SQLite file of the test; None in memory."""

    def __enter__(self) -> Self:
        refuse_on_loop("with kit", "use async with")
        with self._unless_begun():
            self._begin().__enter__()
            if self._schedules:
                run(self._driver.declare())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self.__aexit__(kind, error, trace))

    async def __aenter__(self) -> Self:
        with self._unless_begun():
            await self._begin().__aenter__()
            if self._schedules:
                await self._driver.declare()
        return self

    @contextmanager
    def _unless_begun(self) -> Iterator[None]:
        """Undo what was begun if the kit cannot be entered."""
        try:
            yield
        except BaseException:
            if self._replaced is not None:
                self._replaced.undo()
            self._stack.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._replaced is not None
        try:
            await self._replaced.__aexit__(kind, error, trace)
        finally:
            self._stack.close()

    def _begin(self) -> Replaced:
        parts = self._app.internals
        parts.import_included()
        parts.check_code()
        make_store = self._maker()
        if self._system:
            self._traveller = self._stack.enter_context(_travel(self._began))
        in_memory = self._store == "memory"
        self._replaced = _ReplacedForTest(self._app, make_store, self._ledger.note, in_memory=in_memory)
        return self._replaced

    def _maker(self) -> Callable[[], Store]:
        if self._store == "memory":
            data = Data(self._clock)
            return lambda: MemoryStore(data)
        from tenure.stores.sqlite.store import SqliteStore

        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-", ignore_cleanup_errors=True))
        self.path = os.path.join(folder, "jobs.db")
        # With the same library as the app, because a connection of another one is refused.
        query = urlsplit(self._app.url).query if self._app.url.startswith("sqlite:") else ""
        url = f"sqlite:///{quote(self.path)}?{query}"
        return lambda: SqliteStore.from_url(url, clock=self._clock)

    # Time.

    @property
    def now(self) -> datetime:
        """The time of the store, in UTC."""
        return datetime.fromtimestamp(self._clock.wall(), UTC)

    @property
    def elapsed(self) -> float:
        """Seconds that have passed on the store's clock since the test began."""
        return self._clock.wall() - self._began

    def advance(
        self,
        span: timedelta | float | None = None,
        /,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Let time pass, on the store's clock alone. Runs no job; with `schedules`, enqueues those of the ticks on the way."""
        passing = span_of(span, days=days, hours=hours, minutes=minutes, seconds=seconds)
        if self._schedules:
            run(self._driver.advance(passing))
        else:
            self._clock.advance(passing)
        self._follow()

    def _follow(self) -> None:
        """Move the clock of Python to that of the store, if the kit moves both."""
        if self._traveller is not None:
            self._traveller.move_to(self._clock.wall())

    # What was enqueued.

    def enqueued(self, task: Caller[..., Any] | NamedFlow | str | None = None) -> list[EnqueuedJob]:
        """All jobs that were enqueued in this test, or those of one task, in the order in which they were."""
        jobs = run(self._ledger.read(self._driver.seen))
        if task is None:
            return jobs
        is_of = _is_of(task)
        return [job for job in jobs if is_of(job)]

    @overload
    def assert_enqueued(
        self,
        task: Caller[..., R],
        /,
        *,
        count: Literal[1] = 1,
        arguments: Mapping[str, Any] | None = None,
        **expected: Any,
    ) -> Job[R]: ...
    @overload
    def assert_enqueued(
        self, task: Caller[..., R], /, *, count: int | None, arguments: Mapping[str, Any] | None = None, **expected: Any
    ) -> list[Job[R]]: ...
    @overload
    def assert_enqueued(
        self, task: NamedFlow, /, *, count: Literal[1] = 1, arguments: Mapping[str, Any] | None = None, **expected: Any
    ) -> FlowRun: ...
    @overload
    def assert_enqueued(
        self, task: NamedFlow, /, *, count: int | None, arguments: Mapping[str, Any] | None = None, **expected: Any
    ) -> list[FlowRun]: ...
    @overload
    def assert_enqueued(
        self, task: str, /, *, count: Literal[1] = 1, arguments: Mapping[str, Any] | None = None, **expected: Any
    ) -> Job[Any]: ...
    @overload
    def assert_enqueued(
        self, task: str, /, *, count: int | None, arguments: Mapping[str, Any] | None = None, **expected: Any
    ) -> list[Job[Any]]: ...
    def assert_enqueued(
        self,
        task: Caller[..., Any] | NamedFlow | str,
        /,
        *,
        count: int | None = 1,
        arguments: Mapping[str, Any] | None = None,
        queue: Any = UNSET,
        delay: Any = UNSET,
        run_at: Any = UNSET,
        priority: Any = UNSET,
        tags: Any = UNSET,
        unique: Any = UNSET,
        headers: Any = UNSET,
        **named: Any,
    ) -> Any:
        """Assert that `count` jobs of a task were enqueued in this test with these arguments and options. Returns the handle, or a list.

        Arguments are given by name, in `arguments` if the name is that of an option. Those that are not given may have any value.
        `count=None`: any number but none. Each value may be a function that returns whether the value of the job is right.

        `delay` and `run_at` are the time at which the job was due when it was enqueued. `tags` and `headers` must be among those of the
        job. `unique`: the key, or True for any. A flow stands for its runs, whose arguments are their first attributes.
        """
        options = {
            "queue": queue, "delay": delay, "run_at": run_at, "priority": priority, "tags": tags, "unique": unique,
            "headers": headers,
        }  # fmt: skip
        expectation = self._expectation(task, {**(arguments or {}), **named}, options)
        jobs = self.enqueued()
        fitting = expectation.fitting(jobs)
        if not fitting and count != 0:
            raise AssertionError(expectation.missing(jobs))
        if count is not None and len(fitting) != count:
            raise AssertionError(expectation.miscounted(jobs, count))
        return fitting[0].job if count == 1 else [each.job for each in fitting]

    def assert_not_enqueued(
        self,
        task: Caller[..., Any] | NamedFlow | str,
        /,
        *,
        arguments: Mapping[str, Any] | None = None,
        queue: Any = UNSET,
        delay: Any = UNSET,
        run_at: Any = UNSET,
        priority: Any = UNSET,
        tags: Any = UNSET,
        unique: Any = UNSET,
        headers: Any = UNSET,
        **named: Any,
    ) -> None:
        """Assert that no job of a task was enqueued in this test with these arguments and options, as for `assert_enqueued`."""
        options = {
            "queue": queue, "delay": delay, "run_at": run_at, "priority": priority, "tags": tags, "unique": unique,
            "headers": headers,
        }  # fmt: skip
        expectation = self._expectation(task, {**(arguments or {}), **named}, options)
        jobs = self.enqueued()
        if expectation.fitting(jobs):
            raise AssertionError(expectation.unexpected(jobs))

    def _expectation(
        self, task: Caller[..., Any] | NamedFlow | str, arguments: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Expectation:
        name = task if isinstance(task, str) else task.name
        found = None if isinstance(task, NamedFlow) else self._app.tasks.get(name)
        if found is not None and not isinstance(found, Step):
            parameters = found._signature.call.parameters.values()
            if not any(each.kind is each.VAR_KEYWORD for each in parameters):
                checked_names(name, list(arguments), [each.name for each in parameters])
        elif found is None and isinstance(task, str):
            _check_known(self._app, name, self._ledger)
        wanted = [argument(each, value) for each, value in arguments.items()]
        return Expectation(name, [*wanted, *options_of(options)], _is_of(task))

    # Running.

    def run_until_idle(self, *, skip: bool = False, limit: int = 1000, worker: bool = False) -> list[Ran]:
        """Run what is due, one attempt at a time, until nothing is. Returns the attempts, with their outcomes.

        Queues are served in the order of their names, and each in the order of its line. `skip`: then move the clock to what is due next,
        a delayed job, a retry, a lost lease or the timeout of a wait, and go on; ticks of schedules do not count. `limit`: `StillBusy`
        if another attempt is due after this many. `worker`: run what is due with a real worker instead, with its threads and child
        processes.
        """
        if worker:
            refuse_on_loop("run_until_idle")
            return self._by_a_worker(skip=skip)
        return self._here("run_until_idle", lambda threads: self._driver.run(threads, skip=skip, limit=limit))

    async def arun_until_idle(self, *, skip: bool = False, limit: int = 1000, worker: bool = False) -> list[Ran]:
        """The async twin of `run_until_idle`. Coroutines run on this event loop, plain functions in another thread.

        With `worker`, the worker runs in another thread, on another event loop.
        """
        if worker:
            return await asyncio.to_thread(self._by_a_worker, skip=skip)
        return await self._there(lambda threads: self._driver.run(threads, skip=skip, limit=limit))

    def run_one(self, queue: str | None = None) -> Ran | None:
        """Run the next attempt that is due, of this queue or of any; None if none is due."""
        return self._here("run_one", lambda threads: self._driver.run_one(threads, queue))

    async def arun_one(self, queue: str | None = None) -> Ran | None:
        """The async twin of `run_one`."""
        return await self._there(lambda threads: self._driver.run_one(threads, queue))

    def perform(self, call: Call[Any], *, attempt: int = 1) -> Performed:
        """Run one call of a task, `task.bind(…)`, through codec, hooks and middleware, and store nothing. Returns what came of it."""
        return self._here("perform", lambda threads: self._perform(threads, call, attempt))

    async def aperform(self, call: Call[Any], *, attempt: int = 1) -> Performed:
        """The async twin of `perform`."""
        return await self._there(lambda threads: self._perform(threads, call, attempt))

    async def _perform(self, threads: Blocking, call: Call[Any], attempt: int) -> Performed:
        new = call.new_job()
        now = self._clock.wall()
        record = JobRecord(
            id=new.id, task=new.task, queue=new.queue, state=State.RUNNING, payload=new.payload, raw=new.raw,
            priority=new.priority, created_at=now, started_at=now, attempt=attempt, fence=attempt,
            max_attempts=new.max_attempts, max_losses=new.max_losses, lease=new.lease, tags=new.tags,
            unique=new.unique, worker=self._driver.worker, headers=new.headers,
        )  # fmt: skip
        with _job_log() as lines:
            tried, end = await self._driver.perform(threads, Lease(record, Token(attempt, new_nonce()), 60.0))
        transition = end.transition
        children = transition.children if isinstance(transition, Finish) else ()
        result = transition.result if isinstance(transition, Finish) and transition.state is State.SUCCEEDED else None
        return Performed(
            outcome=outcome_of(transition),
            result=None if result is None else call.caller._results.decode(result),
            delay=_delay_of(transition, now),
            error=None if transition is None or isinstance(transition, Park) else transition.error,
            exception=end.error,
            children=tuple(self._ledger.entry_of(child) for child in children),
            progress=None if tried.context is None else tried.context._progress,
            log=tuple(lines),
        )

    def _here(self, method: str, make: Callable[[Blocking], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the private loop; blocking functions run on this thread."""
        refuse_on_loop(method)
        try:
            return run_with_this_thread(make)
        finally:
            self._follow()

    async def _there(self, make: Callable[[Blocking], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on this loop; blocking functions run in another thread."""
        threads = Threads()
        try:
            return await make(threads)
        finally:
            threads.close()
            self._follow()

    def _by_a_worker(self, *, skip: bool) -> list[Ran]:
        """Run what is due with a real worker, and read from the store what it has done."""
        if skip:
            raise InvalidOption("a real worker does not move the clock: give either skip= or worker=")
        run(self._driver.look_after())
        before = {job.id: {each.fence for each in attempts_of(job)} for job in run(self._ledger.records())}
        # Without reaping it fires no schedules either: look_after has done both, as this kit wants it.
        self._app.worker(reap=False).run(until_empty=True)
        ran = [
            Ran(self._app.internals.job_of(job), each.number, each.outcome.value, each.error)
            for job in run(self._ledger.records())
            for each in attempts_of(job)
            if each.outcome is not None and each.fence not in before.get(job.id, ())
        ]
        self._driver.ran += ran
        return ran

    # Faults.

    def crash(self, task: Task[..., Any] | str, *, at: Moment, times: int = 1) -> AbstractContextManager[None]:
        """Let the worker die in the next `times` attempts of a task that run inside the block: nothing more is sent to the store.

        `before_start`: before the function is called. `before_settle`: the function has ended, and the store does not know. `after_settle`:
        the store knows, and hooks after it are not called. Its lease expires when the clock has passed it; then the job is run again.
        """
        return self._crashes.expect(self._task(task).name, at, times)

    def failing(
        self, task: Task[..., Any] | str, error: BaseException | type[BaseException], *, times: int | None = None
    ) -> AbstractContextManager[None]:
        """Let attempts of a task that run inside the block raise this error in place of the function: the first `times`, or all."""
        left = times

        def failing(function: Callable[..., Any]) -> Callable[..., Any]:
            def instead(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                if left == 0:
                    return function(*args, **kwargs)
                left = None if left is None else left - 1
                raise error if isinstance(error, type) else error.with_traceback(None)

            return instead

        return replaced_function(self._task(task), failing)

    def stub(self, task: Task[..., Any] | str, value: Any = None) -> AbstractContextManager[None]:
        """Let attempts of a task that run inside the block return this value, and not call the function."""
        return replaced_function(self._task(task), lambda _: lambda *_args, **_kwargs: value)

    def _task(self, task: Task[..., Any] | str) -> Task[..., Any]:
        found = self._app.tasks.get(task) if isinstance(task, str) else task
        if not isinstance(found, Task):
            raise refused("task", "a task of this app, or the name of one", task)
        return found

    # What became of it.

    def attempts(self, job: Job[Any] | FlowRun | str) -> list[str]:
        """How the attempts of a job have ended, oldest first: retried, failed, broken, lost, cancelled, completed or succeeded.

        Of a run: those of its current step.
        """
        record = run(self._current(job))
        stored = [each.outcome.value for each in attempts_of(record) if each.outcome is not None]
        # The store remembers the latest ten or so, the kit all that it has run.
        ends = {each.value for each in AttemptEnd}
        ran = [
            "lost" if each.outcome == "crashed" else each.outcome
            for each in self._driver.ran
            if each.job.id == record.id
        ]
        ran = [each for each in ran if each in ends]
        return ran if len(ran) > len(stored) and ran[len(ran) - len(stored) :] == stored else stored

    def steps(self, flow_run: FlowRun | str) -> list[str]:
        """The names of the steps that a run has entered, the first one first."""
        handle = run(self._app.arun(flow_run if isinstance(flow_run, str) else flow_run.id))
        names: list[str] = []
        cursor: str | None = None
        while True:
            page = run(handle.asteps(cursor=cursor))
            names += [step.name for step in page]
            if (cursor := page.cursor) is None:
                return names

    def assert_waits(
        self,
        target: FlowRun | Job[Any],
        *,
        step: str | Step[..., Any] | None = None,
        timeout: timedelta | float | None = None,
    ) -> None:
        """Assert that a job, or a run in this step, waits to be completed from outside, and was given this timeout."""
        record = run(self._current(target))
        what = f"run {record.run_id}" if isinstance(target, FlowRun) else f"job {record.id} of {record.task}"
        here = step_name(record.task, target.flow) if isinstance(target, FlowRun) else None
        wanted = step.step_name if isinstance(step, Step) else step
        where = "" if here is None else f" in step {here!r}"
        if not record.parked:
            asked = "" if wanted is None else f" in step {wanted!r}"
            why = "" if record.error is None else f", with {record.error.type}: {record.error.message}"
            due = "; call run_until_idle() first" if record.label in ("waiting", "scheduled", "retrying") else ""
            raise AssertionError(f"{what} does not wait to be completed{asked}: it is {record.label}{where}{why}{due}.")
        if wanted is not None and here != wanted:
            raise AssertionError(f"{what} waits to be completed{where}, not in step {wanted!r}.")
        if timeout is not None:
            given, _ = self._driver.waits.get(record.id, (None, None))
            if given is None or abs(given - seconds(timeout, "timeout")) > 0.001:
                has = "without a timeout" if given is None else f"with a timeout of {timespan(given)}"
                raise AssertionError(
                    f"{what} waits to be completed{where} {has}, not of {timespan(seconds(timeout, 'timeout'))}."
                )

    async def _current(self, target: FlowRun | Job[Any] | str) -> JobRecord:
        """The record of a job, or of the current step of a run."""
        id_ = target if isinstance(target, str) else target.id
        if isinstance(target, FlowRun):
            id_ = (await target._fetch_run()).step.id
        [record] = await self._app.internals.session.store.get([id_])
        if record is None:
            raise JobNotFound(id_)
        return record


class _ReplacedForTest(Replaced):
    """Other stores for a block, in which any `connection=` is accepted and enqueued jobs are noted."""

    def __init__(
        self, app: App, make_store: Callable[[], Store], note: Callable[[Sequence[NewJob]], None], *, in_memory: bool
    ) -> None:
        super().__init__(app, make_store)
        self._note = note
        self._in_memory = in_memory

    def _begin(self) -> Self:
        super()._begin()
        parts = self._app.internals
        parts.in_memory, parts.any_connection, parts.note = self._in_memory, True, self._note
        return self


def _is_of(task: Caller[..., Any] | NamedFlow | str) -> Callable[[EnqueuedJob], bool]:
    """Whether a job is one of this task, or begins a run of this flow."""
    if isinstance(task, NamedFlow):
        flow = task.name
        return lambda job: isinstance(job.job, FlowRun) and job.job.flow == flow
    names = (task,) if isinstance(task, str) else (task.name, *(task.aliases if isinstance(task, Task) else ()))
    return lambda job: job.task in names


def _check_known(app: App, name: str, ledger: Ledger) -> None:
    """Raise `InvalidOption` if no task has this name and no job either: it is misspelt, and would never be found."""
    if not ledger.knows(name):
        near = difflib.get_close_matches(name, app.tasks, n=1)
        raise InvalidOption(f"there is no task named {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _delay_of(transition: Any, now: float) -> float | None:
    """Seconds until the next attempt after this transition; None if there is none."""
    if not isinstance(transition, Requeue):
        return None
    return transition.delay if transition.run_at is None else max(transition.run_at - now, 0.0)


@contextmanager
def _job_log() -> Iterator[list[str]]:
    """Collect the messages that jobs write to `ctx.log` inside the block, of every level."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, handler = logging.getLogger("tenure.job"), Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _instant(at: datetime | str) -> float:
    given = datetime.fromisoformat(at) if isinstance(at, str) else at
    if given.utcoffset() is None:
        raise InvalidOption(
            f"at= needs a time with its offset from UTC, got {at!r}: write {given.isoformat()}Z for UTC"
        )
    return given.timestamp()


def _travel(began: float) -> AbstractContextManager[Any]:
    try:
        import time_machine  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InvalidOption("system=True moves the clock of Python by the package time-machine: install it") from None
    travel: AbstractContextManager[Any] = time_machine.travel(began, tick=False)
    return travel
