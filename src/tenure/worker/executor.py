"""`Executor`: runs one attempt, from its lease to the transition that its job makes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tenure.core.failure import bounded, describe_exception, error_summary, remote_exception
from tenure.core.inbox import UNREAD
from tenure.core.job import ErrorInfo, JobRecord, NewJob, State
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Finish, Park, Requeue, Transition, next_transition
from tenure.core.outcome import (
    Abandoned,
    Answer,
    Collided,
    Done,
    Fail,
    Interrupted,
    Next,
    Outcome,
    Raised,
    Retry,
    Success,
    Undecodable,
    Unknown,
    Wait,
)
from tenure.core.remote_completion import is_decision
from tenure.core.running import running
from tenure.errors import STORE_OUTAGE, JobError, NewerPayload, PayloadTooLarge, UnknownTask
from tenure.hooks.around import Blocking, PerformHooks, call_failure_hooks, error_of, has_failed
from tenure.hooks.calling import acall_hooks
from tenure.hooks.registry import name_of
from tenure.jobs.enqueue_hooks import before_enqueue
from tenure.stores.base import Store
from tenure.stores.callers import collided
from tenure.tasks.completion.completion import Completion, Transactions, await_despite_cancel
from tenure.tasks.completion.stage import Stage
from tenure.tasks.context import Context, Middleware
from tenure.tasks.step import Step
from tenure.tasks.task import Task
from tenure.worker.attempt import Attempt
from tenure.worker.inbox import read_again
from tenure.worker.output import LogTail, capture_logs, stop_capturing
from tenure.worker.peers import Peers, knows_version
from tenure.worker.settings import SettingsByTask

if TYPE_CHECKING:
    from tenure.worker.isolation.runner import ProcessRunner

__all__ = ["Executor", "after_completion", "outcome_of_answer", "outcome_of_decision", "perform", "timed_out"]

LIVE_WITHIN = 60.0
"""A worker that was silent for longer than this many seconds does not count as one that knows a task."""

STRAY = 5.0
"""Seconds that a function in a thread has to stop after its timeout, before its slot goes on without it."""

log = logging.getLogger("tenure.worker")


class Settling(Protocol):
    """Takes the transitions of attempts that have ended: the worker's `Settler`, or a test kit."""

    def add(self, attempt: Attempt, transition: Transition, error: BaseException | None = None) -> None: ...
    def lost(self, attempt: Attempt) -> None: ...


class Executor:
    """Runs attempts and passes the resulting transitions to the settler."""

    def __init__(
        self,
        store: Store,
        settings: SettingsByTask,
        peers: Peers,
        settler: Settling,
        threads: Blocking,
        transactions: Transactions,
        middleware: Sequence[Middleware],
        payload_limit: int,
        raw_inboxes: Mapping[str, NewJob],
        process_runner: ProcessRunner | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._peers = peers
        self._settler = settler
        self._threads = threads
        self._transactions = transactions
        self._middleware = middleware
        self._payload_limit = payload_limit
        self._raw_inboxes = raw_inboxes
        self._process_runner = process_runner
        self._captures = False
        """Whether the logs of jobs are captured, because a task with `output=` has run here."""

    async def execute(self, attempt: Attempt) -> None:
        """Run one attempt.

        Raises nothing: any error becomes the job's outcome, or is dropped because the lease is lost.
        """
        job, settings = attempt.lease.job, attempt.settings
        failed: BaseException | None = None
        raised: BaseException | None = None
        try:
            outcome = await self._outcome(attempt)
            if type(outcome) is Undecodable and isinstance(outcome.exception, NewerPayload):
                outcome = await self._newer(attempt, outcome.exception)
            if settings.output and attempt.context is not None and isinstance(attempt.context._output, LogTail):
                attempt.output = attempt.context._output.text()
            if isinstance(outcome, Finish | Requeue | Park):
                transition: Transition = outcome  # a child process ran it, decided the transition and called the hooks
                if not isinstance(transition, Park) and has_failed(transition):
                    raised = remote_exception(transition.error)
            else:
                if attempt.completion is not None and not settings.isolated:
                    outcome = await after_completion(attempt.completion, outcome)
                transition = next_transition(job, outcome, settings.policy)
                if type(outcome) is not Success and has_failed(transition):
                    raised = error_of(outcome)
                    failed = raised if settings.failing else None
            if attempt.output is not None:
                transition = _with_output(attempt, transition)
        except Exception as error:
            log.exception(
                "internal error while deciding the outcome of job %s of task %s: marked failed", job.id, job.task
            )
            transition, failed = Finish(State.FAILED, error=describe_exception(error)), error
        if failed is not None:
            await self._report_failure(attempt, failed, transition)
        if attempt.lost and attempt.completed is None:
            self._settler.lost(attempt)
        else:
            self._settler.add(attempt, transition, raised)

    async def _report_failure(self, attempt: Attempt, error: BaseException, transition: Transition) -> None:
        """Call the `on_failure` hooks, unless the lease is lost or the job has already ended."""
        settings, context = attempt.settings, attempt.context
        if attempt.ended or attempt.lost or attempt.completed is not None or context is None or settings.task is None:
            return
        attempt.failure_reported = True
        await call_failure_hooks(settings.task, settings.failing, context, error, transition, self._threads)

    async def _outcome(self, attempt: Attempt) -> Outcome | Transition:
        job, settings = attempt.lease.job, attempt.settings
        if attempt.signal.aborted:
            return Abandoned()  # its lease was lost while it was in the buffer
        if settings.task is None:
            return await self._unknown(attempt)
        attempt.context = context = Context(
            attempt.lease, job.worker or "", attempt.signal, settings.task, self._transactions
        )
        if settings.output and not (settings.isolated and self._process_runner is not None):
            context._output = settings.output
            if not self._captures:
                self._captures = True
                capture_logs()
        if len(job.payload) > self._payload_limit:
            too_large = PayloadTooLarge(len(job.payload), self._payload_limit)
            return Undecodable(describe_exception(too_large), too_large)
        if settings.task._is_step and (
            job.on_timeout is not None or job.reads != settings.task._reads or is_decision(job)
        ):
            outcome = await self._before_step(attempt)
            if outcome is not None:
                return outcome
        if settings.isolated and self._process_runner is not None:
            if (newer := settings.task._newer(job)) is not None:
                return Undecodable(describe_exception(newer), newer)
            return await self._process_runner.run(attempt)
        if settings.timeout is None:
            return await perform(settings.task, context, self._middleware, self._threads, settings.performing)
        timer = asyncio.get_running_loop().call_later(settings.timeout, self._time_out, attempt)
        try:
            return await perform(settings.task, context, self._middleware, self._threads, settings.performing)
        finally:
            timer.cancel()

    def close(self) -> None:
        """Stop to capture what is logged."""
        if self._captures:
            self._captures = False
            stop_capturing()

    async def _before_step(self, attempt: Attempt) -> Outcome | None:
        """The outcome of a flow step that need not run (it was completed elsewhere, or its wait timed out).

        Returns None if the step must run. Then its job has all attributes that its function reads.
        """
        job, step = attempt.lease.job, attempt.settings.task
        assert isinstance(step, Step)
        if is_decision(job):
            return outcome_of_decision(step, job)
        if job.on_timeout is not None:
            return outcome_of_answer(Next(job.on_timeout), step, job)
        # The program that enqueued the step may have had other code, whose function read other attributes.
        missing = [name for name in step._reads if name not in job.reads]
        if missing and job.attributes is not None and job.run_id is not None:
            try:
                job.attributes.update(await self._store.attributes(job.run_id, missing))
            except STORE_OUTAGE:
                return Abandoned()
        return None

    def _time_out(self, attempt: Attempt) -> None:
        if attempt.signal.abort(AbortReason.TIMEOUT):
            attempt.interrupt()
            asyncio.get_running_loop().call_later(STRAY, self._leave_stray, attempt)

    def _leave_stray(self, attempt: Attempt) -> None:
        """Free the slot of a thread that does not stop.

        A coroutine that caught its cancellation is cancelled once more.
        """
        if attempt.running and not attempt.failure_reported:
            job = attempt.lease.job
            log.warning(
                "job %s of task %s has not stopped %g s after its timeout: its slot goes on without it",
                job.id,
                job.task,
                STRAY,
            )
            attempt.give_up()
            asyncio.get_running_loop().call_later(STRAY, self._leave_stray, attempt)

    async def _unknown(self, attempt: Attempt) -> Outcome:
        job = attempt.lease.job
        if job.task == UNREAD:
            return read_again(job, self._payload_limit, self._raw_inboxes)
        error = describe_exception(UnknownTask(job.task, self._settings.known))
        try:
            if await self._peers.should_skip(job.task, job.queue):
                return Abandoned()
        except STORE_OUTAGE:
            return Unknown(error, known_elsewhere=True)
        # Worker entries that are silent or serve other queues are no reason to wait long. But while there is one, the
        # job is not marked broken.
        known = any(job.task in worker.tasks for worker in self._peers.workers if worker.silent_for < LIVE_WITHIN)
        return Unknown(error, known_elsewhere=known)

    async def _newer(self, attempt: Attempt, newer: NewerPayload) -> Outcome:
        """The outcome of a job with a later version of its task than this worker knows: another worker may run it."""
        job, error = attempt.lease.job, describe_exception(newer.with_traceback(None))
        try:
            if await self._peers.should_skip_for_now(job.task, newer.version, job.queue):
                return Abandoned()
        except STORE_OUTAGE:
            return Unknown(error, known_elsewhere=True)
        live = [worker for worker in self._peers.workers if worker.silent_for < LIVE_WITHIN]
        return Unknown(error, known_elsewhere=any(knows_version(worker, job.task, newer.version) for worker in live))


def _with_output(attempt: Attempt, transition: Transition) -> Transition:
    """Attach the attempt's output to its transition.

    If the worker does not settle the job, or the job is not remembered, log what a child process wrote instead. What was
    logged is in the log already.
    """
    if not attempt.lost and not attempt.completing:
        if isinstance(transition, Finish) and transition.state is State.SUCCEEDED:
            return msgspec.structs.replace(transition, output=attempt.output)
        if not isinstance(transition, Park) and transition.error is not None:
            return msgspec.structs.replace(
                transition, error=msgspec.structs.replace(transition.error, output=attempt.output)
            )
    for line in (attempt.output or "").splitlines() if attempt.child is not None else ():
        log.info("job %s of task %s wrote %r", attempt.lease.job.id, attempt.lease.job.task, line)
    return transition


async def after_completion(completion: Completion, outcome: Outcome) -> Outcome:
    """The outcome of a job that may have ended in its own transaction, now that its function has ended."""
    joined = completion.stage is Stage.JOINED
    with contextlib.suppress(asyncio.CancelledError):  # the cancellation was meant for the function, which has ended
        await await_despite_cancel(completion.resolve())
    job = completion.lease.job
    if completion.stage is Stage.FINAL:
        if (late := _late_answer(outcome, completion.transition)) is not None:
            log.warning(
                "job %s of task %s was completed in its transaction, so the rest is ignored: %s", job.id, job.task, late
            )
    elif joined and isinstance(outcome, Success):
        forgot = JobError(
            "the function returned before the transaction of ctx.complete(connection=…) was committed: commit it first"
        )
        return Raised(forgot, ErrorInfo("JobError", str(forgot)))
    elif isinstance(outcome, Raised) and completion.stage is Stage.RUNNING and collided(outcome.exception):
        return Collided(outcome)
    return outcome


def _late_answer(outcome: Outcome, transition: Finish) -> str | None:
    """What the function returned or raised after its job was completed, as a phrase for the log; None if it adds
    nothing.
    """
    match outcome:
        case Success(value, _, _, writes) if value in ("null", transition.result) and writes in (
            None,
            transition.writes,
        ):
            return None
        case Abandoned() | Interrupted():
            return None
        case Success():
            return "its return value is dropped; set tx.result instead"
        case Raised(_, error):
            return f"it raised {error_summary(error)}"
        case _:
            return f"it answered {type(outcome).__name__}"


async def perform(
    task: Task[..., Any],
    ctx: Context,
    middleware: Sequence[Middleware],
    threads: Blocking,
    hooks: PerformHooks | None = None,
) -> Outcome:
    """Call a task's function inside its hooks, and those inside the middleware, and turn any result or exception into
    an outcome. Raises nothing.

    A cancellation without an aborted `ctx.signal` comes from the job itself: it may cancel the asyncio task that it
    runs in.
    """
    try:
        args, kwargs = task._call_arguments(ctx.job.payload, ctx)
    except Exception as error:  # noqa: BLE001  (a PayloadError, or any error of a converter of the user's)
        return Undecodable(describe_exception(error), error)
    outside = running.set(ctx)
    function, returned = task.function, None
    try:
        if middleware or hooks is not None:
            returned = Returned(function, is_async=task._is_async)
            function = returned.function
        if middleware:
            call = functools.partial(_call, task, function, args, kwargs, threads, ctx, hooks)
            value = await _through(middleware, ctx, call)
        else:
            value = await _call(task, function, args, kwargs, threads, ctx, hooks)
        if isinstance(value, Answer):
            return await _passed_by_hooks(_outcome_of_live_answer(value, task, ctx), task, ctx)
        if ctx.signal.reason is AbortReason.TIMEOUT:
            return timed_out(task)
        return task._succeeded(ctx.job, value, ctx._children, returned=returned is None or returned.value is value)
    except BaseException as error:  # noqa: BLE001  (nothing that a job raises may end the worker)
        outcome = _outcome_of_error(error, task, ctx)
        return await _passed_by_hooks(outcome, task, ctx) if isinstance(error, Answer) else outcome
    finally:
        running.reset(outside)


class Returned:
    """Records what a function returned.

    Hooks and middleware may replace it by a value that need not match its annotation.
    """

    def __init__(self, function: Callable[..., Any], *, is_async: bool) -> None:
        self.value: Any = self  # nothing yet
        self._function = function
        self.function = self._awaited if is_async else self._called

    async def _awaited(self, *args: Any, **kwargs: Any) -> Any:
        self.value = await self._function(*args, **kwargs)
        return self.value

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        self.value = self._function(*args, **kwargs)
        return self.value


def _call(
    task: Task[..., Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    threads: Blocking,
    ctx: Context,
    hooks: PerformHooks | None,
) -> Awaitable[Any]:
    if hooks is None:
        return function(*args, **kwargs) if task._is_async else threads.run(function, args, kwargs)
    bound = functools.partial(function, *args, **kwargs)
    if task._is_async:
        return hooks.on_loop(ctx, bound)
    return threads.run(hooks.in_thread, (ctx, bound, asyncio._get_running_loop()), {})


async def _passed_by_hooks(outcome: Outcome, task: Task[..., Any], ctx: Context) -> Outcome:
    """The same outcome, unless a `before_enqueue` hook refuses one of the jobs that the next step is to wait for."""
    if isinstance(outcome, Success) and task.app.internals.hooks.enqueues:
        try:
            await acall_hooks(before_enqueue(task.app, outcome.children[len(ctx._children) :]))
        except BaseException as error:  # noqa: BLE001  (any error becomes the outcome of the job)
            return _outcome_of_error(error, task, ctx)
    return outcome


async def _through(middleware: Sequence[Middleware], ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    for layer in reversed(middleware):
        call = functools.partial(_wrapped, layer, ctx, call)
    return await call()


async def _wrapped(layer: Middleware, ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    given = layer(ctx, call)
    if not inspect.isawaitable(given):
        raise TypeError(f"middleware {name_of(layer)} returned something that cannot be awaited: write it as async def")
    return await given


def _outcome_of_error(error: BaseException, task: Task[..., Any], ctx: Context) -> Outcome:
    """The outcome for an exception, which depends on whether the job's signal was aborted."""
    if isinstance(error, Answer):
        return _outcome_of_live_answer(error, task, ctx)
    if ctx.signal.reason is AbortReason.TIMEOUT:
        return timed_out(task, describe_exception(error).traceback)
    if ctx.signal.reason is AbortReason.SHUTDOWN:
        return Interrupted()
    if ctx.signal.aborted:
        return Abandoned()
    return Raised(error, describe_exception(error))


def timed_out(task: Task[..., Any], where: str | None = None, how: str = "") -> Outcome:
    """The outcome of an attempt that exceeded its timeout.

    What the function returned afterwards does not count: it may have returned early because it was stopped.
    """
    late = TimeoutError(f"the attempt took longer than its timeout of {task.options.timeout:g} s{how}")
    return Raised(late, ErrorInfo("TimeoutError", str(late), where))


def _outcome_of_live_answer(answer: Answer, task: Task[..., Any], ctx: Context) -> Outcome:
    if ctx.signal.reason is AbortReason.TIMEOUT and isinstance(answer, Next | Done):
        return timed_out(task)  # they carry values, like a return
    return outcome_of_answer(answer, task, ctx.job, ctx._children)


def outcome_of_decision(task: Task[..., Any], job: JobRecord) -> Outcome:
    """The outcome of a step that was completed by a program without its code."""
    assert isinstance(task, Step)
    try:
        return task._decided(job)
    except Exception as error:  # noqa: BLE001  (another attempt could not read the value either)
        return Undecodable(describe_exception(error), error)


def outcome_of_answer(
    answer: Answer, task: Task[..., Any], job: JobRecord, children: tuple[NewJob, ...] = ()
) -> Outcome:
    """The outcome for an answer of this task; `Raised` if the answer is invalid."""
    try:
        answer = task._answered(answer)
        match answer:
            case Next() | Done():
                return task._succeeded(job, answer, children)
            case Retry() | Fail():
                answer.why = bounded(str(answer.why))
            case Wait():
                task._check_answer(answer.on_timeout)
    except Exception as error:  # noqa: BLE001  (any error becomes the outcome of the job)
        return Raised(error, describe_exception(error))
    return answer  # type: ignore[return-value]  # every other Answer is an Outcome
