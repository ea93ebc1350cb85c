"""`Assertions`: the methods of a kit that say what was enqueued, and what became of it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from tenure.core.checks import seconds
from tenure.core.job import AttemptEnd, JobRecord, attempts_of
from tenure.core.options import UNSET
from tenure.errors import InvalidOption, JobNotFound
from tenure.jobs.handle import Job
from tenure.jobs.run import FlowRun, step_name
from tenure.sync import run
from tenure.tasks.flow import NamedFlow
from tenure.tasks.step import Step
from tenure.tasks.task import Caller, Task
from tenure.testing.driver import Driver
from tenure.testing.expecting import EnqueuedJob, Expectation, argument, checked_names, options_of, timespan
from tenure.testing.ledger import Ledger

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Assertions"]

R = TypeVar("R")


class Assertions:
    """Reads and asserts what the test has enqueued and run. Part of `Kit`, which sets the attributes."""

    _app: App
    _driver: Driver
    _ledger: Ledger

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
