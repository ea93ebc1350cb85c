"""The life of a job in a worker, top to bottom: from the lease in hand to what becomes of the job."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tenure.core.failure import bounded, describe_exception, remote_exception
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
from tenure.errors import STORE_OUTAGE, JobError, PayloadTooLarge, UnknownTask
from tenure.hooks.around import Blocking, PerformHooks, error_of, has_failed, tell_failure
from tenure.hooks.calling import awaiting
from tenure.hooks.registry import name_of
from tenure.jobs.enqueue_hooks import allowed
from tenure.stores.base import Store
from tenure.stores.callers import collided
from tenure.tasks.completion.completion import Completion, Stage, Transactions, to_the_end
from tenure.tasks.context import Context, Middleware
from tenure.tasks.step import Step
from tenure.tasks.task import Task
from tenure.worker.attempt import Attempt
from tenure.worker.inbox import read_again
from tenure.worker.peers import Peers
from tenure.worker.settings import SettingsOf
from tenure.worker.settler import Settler
from tenure.worker.threads import Threads

if TYPE_CHECKING:
    from tenure.worker.isolation.lane import Isolation

__all__ = ["Executor", "after_completion", "answered", "decided", "perform", "timed_out"]

LIVE = 60.0
"""Seconds of silence up to which a worker counts as somebody who knows a task."""

STRAY = 5.0
"""Seconds that a function in a thread has to stop after its time is over, before its slot goes on without it."""

log = logging.getLogger("tenure.worker")


class Executor:
    """Runs attempts, and hands what becomes of their jobs to the settler."""

    def __init__(
        self,
        store: Store,
        settings: SettingsOf,
        peers: Peers,
        settler: Settler,
        threads: Threads,
        transactions: Transactions,
        middleware: Sequence[Middleware],
        payload_limit: int,
        raw_inboxes: Mapping[str, NewJob],
        isolation: Isolation | None = None,
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
        self._isolation = isolation

    async def execute(self, attempt: Attempt) -> None:
        """Run one attempt. Raises nothing: whatever happens is the job's outcome, or is dropped with a lost lease."""
        job, settings = attempt.lease.job, attempt.settings
        failed: BaseException | None = None
        raised: BaseException | None = None
        try:
            outcome = await self._outcome(attempt)
            if isinstance(outcome, Finish | Requeue | Park):
                step: Transition = outcome  # a child has run it, decided, and called the hooks
                if not isinstance(step, Park) and has_failed(step):
                    raised = remote_exception(step.error)
            else:
                if attempt.completion is not None and not settings.isolated:
                    outcome = await after_completion(attempt.completion, outcome)
                step = next_transition(job, outcome, settings.policy)
                if type(outcome) is not Success and has_failed(step):
                    raised = error_of(outcome)
                    failed = raised if settings.failing else None
            if attempt.output is not None:
                step = _with_output(attempt, step)
        except Exception as error:
            log.exception("job %s of task %s could not be judged, it fails", job.id, job.task)
            step, failed = Finish(State.FAILED, error=describe_exception(error)), error
        if failed is not None:
            await self._tell(attempt, failed, step)
        if attempt.lost and attempt.completed is None:
            self._settler.lost(attempt)
        else:
            self._settler.add(attempt, step, raised)

    async def _tell(self, attempt: Attempt, error: BaseException, step: Transition) -> None:
        """Let hooks know that it has failed, unless it is no longer the worker's, or had ended before by itself."""
        settings, context = attempt.settings, attempt.context
        if attempt.ended or attempt.lost or attempt.completed is not None or context is None or settings.task is None:
            return
        attempt.told = True
        await tell_failure(settings.task, settings.failing, context, error, step, self._threads)

    async def _outcome(self, attempt: Attempt) -> Outcome | Transition:
        job, settings = attempt.lease.job, attempt.settings
        if attempt.signal.aborted:
            return Abandoned()  # it was lost in the buffer
        if settings.task is None:
            return await self._unknown(attempt)
        attempt.context = context = Context(
            attempt.lease, job.worker or "", attempt.signal, settings.task, self._transactions
        )
        if len(job.payload) > self._payload_limit:
            too_large = PayloadTooLarge(len(job.payload), self._payload_limit)
            return Undecodable(describe_exception(too_large), too_large)
        if settings.task._is_step and (
            job.on_timeout is not None or job.reads != settings.task._reads or is_decision(job)
        ):
            outcome = await self._before_step(attempt)
            if outcome is not None:
                return outcome
        if settings.isolated and self._isolation is not None:
            return await self._isolation.run(attempt)
        if settings.timeout is None:
            return await perform(settings.task, context, self._middleware, self._threads, settings.performing)
        timer = asyncio.get_running_loop().call_later(settings.timeout, self._time_is_over, attempt)
        try:
            return await perform(settings.task, context, self._middleware, self._threads, settings.performing)
        finally:
            timer.cancel()

    async def _before_step(self, attempt: Attempt) -> Outcome | None:
        """What becomes of a step that is not to run; else None, and it has all the attributes that its function takes."""
        job, step = attempt.lease.job, attempt.settings.task
        assert isinstance(step, Step)
        if is_decision(job):
            return decided(step, job)
        if job.on_timeout is not None:
            return answered(Next(job.on_timeout), step, job)
        # Whoever enqueued it may have had other code, whose function took others.
        missing = [name for name in step._reads if name not in job.reads]
        if missing and job.attributes is not None and job.run_id is not None:
            try:
                job.attributes.update(await self._store.attributes(job.run_id, missing))
            except STORE_OUTAGE:
                return Abandoned()
        return None

    def _time_is_over(self, attempt: Attempt) -> None:
        if attempt.signal.abort(AbortReason.TIMEOUT):
            attempt.interrupt()
            asyncio.get_running_loop().call_later(STRAY, self._go_on_without, attempt)

    def _go_on_without(self, attempt: Attempt) -> None:
        """Take the slot back from a thread that does not stop; cancel a coroutine that caught its cancellation once more."""
        if attempt.running and not attempt.told:
            job = attempt.lease.job
            log.warning(
                "job %s of task %s has not stopped %g s after its timeout: going on without it", job.id, job.task, STRAY
            )
            attempt.give_up()
            asyncio.get_running_loop().call_later(STRAY, self._go_on_without, attempt)

    async def _unknown(self, attempt: Attempt) -> Outcome:
        job = attempt.lease.job
        if job.task == UNREAD:
            return read_again(job, self._payload_limit, self._raw_inboxes)
        error = describe_exception(UnknownTask(job.task, self._settings.known))
        try:
            if await self._peers.know(job.task, job.queue):
                return Abandoned()
        except STORE_OUTAGE:
            return Unknown(error, known_elsewhere=True)
        # One that has been silent for a while, or serves other queues, is no reason to wait for it; but none is broken meanwhile.
        known = any(job.task in worker.tasks for worker in self._peers.workers if worker.silent_for < LIVE)
        return Unknown(error, known_elsewhere=known)


def _with_output(attempt: Attempt, step: Transition) -> Transition:
    """What an attempt wrote stays with it, if the worker's settle is what ends it and it is remembered; else it goes to the log."""
    if not attempt.lost and not attempt.completing:
        if isinstance(step, Finish) and step.state is State.SUCCEEDED:
            return msgspec.structs.replace(step, output=attempt.output)
        if not isinstance(step, Park) and step.error is not None:
            return msgspec.structs.replace(step, error=msgspec.structs.replace(step.error, output=attempt.output))
    for line in (attempt.output or "").splitlines():
        log.info("job %s of task %s wrote %r", attempt.lease.job.id, attempt.lease.job.task, line)
    return step


async def after_completion(completion: Completion, outcome: Outcome) -> Outcome:
    """What the end of the function means for a job that may have ended in a transaction of its own."""
    joined = completion.stage is Stage.JOINED
    with contextlib.suppress(asyncio.CancelledError):  # meant for the function, which has ended
        await to_the_end(completion.resolve())
    job = completion.lease.job
    if completion.stage is Stage.FINAL:
        if (late := _late(outcome, completion.step)) is not None:
            log.warning("job %s of task %s is complete all the same: %s", job.id, job.task, late)
    elif joined and isinstance(outcome, Success):
        forgot = JobError(
            "the function returned, and the transaction of ctx.complete(connection=…) was not committed: commit it before"
        )
        return Raised(forgot, ErrorInfo("JobError", str(forgot)))
    elif isinstance(outcome, Raised) and completion.stage is Stage.RUNNING and collided(outcome.exception):
        return Collided(outcome)
    return outcome


def _late(outcome: Outcome, step: Finish) -> str | None:
    """What a function has said after its job was complete in this way, if it was anything new."""
    match outcome:
        case Success(value, _, _, writes) if value in ("null", step.result) and writes in (None, step.writes):
            return None
        case Abandoned() | Interrupted():
            return None
        case Success():
            return "what it returned afterwards is dropped, set tx.result instead"
        case Raised(_, error):
            return f"afterwards it raised {phrase(error)}"
        case _:
            return f"its answer {type(outcome).__name__} came afterwards"


async def perform(
    task: Task[..., Any],
    ctx: Context,
    middleware: Sequence[Middleware],
    threads: Blocking,
    hooks: PerformHooks | None = None,
) -> Outcome:
    """Call a task, its hooks around it and the middleware around those, and turn whatever happens into an outcome. Raises nothing.

    A cancellation that nobody has announced by the signal is the job's own doing: it may cancel the task that it runs in.
    """
    try:
        args, kwargs = task._call_arguments(ctx.job.payload, ctx)
    except Exception as error:  # noqa: BLE001  (a PayloadError, or whatever a converter of the user's raises)
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
            return await _allowed(_answer(value, task, ctx), task, ctx)
        if ctx.signal.reason is AbortReason.TIMEOUT:
            return timed_out(task)
        return task._succeeded(ctx.job, value, ctx._children, returned=returned is None or returned.value is value)
    except BaseException as error:  # noqa: BLE001  (nothing that a job raises may end the worker)
        outcome = _outcome_of(error, task, ctx)
        return await _allowed(outcome, task, ctx) if isinstance(error, Answer) else outcome
    finally:
        running.reset(outside)


class Returned:
    """Remembers what a function returned: hooks and middleware may put something else in its place, which need not fit its annotation."""

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


async def _allowed(outcome: Outcome, task: Task[..., Any], ctx: Context) -> Outcome:
    """The same, if hooks have nothing against the jobs that come to exist because the next step is to wait for them."""
    if isinstance(outcome, Success) and task.app.internals.hooks.enqueues:
        try:
            await awaiting(allowed(task.app, outcome.children[len(ctx._children) :]))
        except BaseException as error:  # noqa: BLE001  (the outcome of the job, whatever it is)
            return _outcome_of(error, task, ctx)
    return outcome


async def _through(middleware: Sequence[Middleware], ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    for layer in reversed(middleware):
        call = functools.partial(_wrapped, layer, ctx, call)
    return await call()


async def _wrapped(layer: Middleware, ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    given = layer(ctx, call)
    if not inspect.isawaitable(given):
        raise TypeError(f"middleware {name_of(layer)} has given what cannot be awaited: write it as async def")
    return await given


def _outcome_of(error: BaseException, task: Task[..., Any], ctx: Context) -> Outcome:
    """What an exception means, which depends on whether the job had been told to stop."""
    if isinstance(error, Answer):
        return _answer(error, task, ctx)
    if ctx.signal.reason is AbortReason.TIMEOUT:
        return timed_out(task, describe_exception(error).traceback)
    if ctx.signal.reason is AbortReason.SHUTDOWN:
        return Interrupted()
    if ctx.signal.aborted:
        return Abandoned()
    return Raised(error, describe_exception(error))


def timed_out(task: Task[..., Any], where: str | None = None, how: str = "") -> Outcome:
    """Too late is too late, whatever the function gave in the end: it may have given it because its time was over."""
    late = TimeoutError(f"the attempt took longer than its timeout of {task.options.timeout:g} s{how}")
    return Raised(late, ErrorInfo("TimeoutError", str(late), where))


def _answer(answer: Answer, task: Task[..., Any], ctx: Context) -> Outcome:
    if ctx.signal.reason is AbortReason.TIMEOUT and isinstance(answer, Next | Done):
        return timed_out(task)  # they are values
    return answered(answer, task, ctx.job, ctx._children)


def decided(task: Task[..., Any], job: JobRecord) -> Outcome:
    """What becomes of a step that was completed by a program without its code."""
    assert isinstance(task, Step)
    try:
        return task._decided(job)
    except Exception as error:  # noqa: BLE001  (whatever makes no sense of the value, another attempt would not either)
        return Undecodable(describe_exception(error), error)


def answered(answer: Answer, task: Task[..., Any], job: JobRecord, children: tuple[NewJob, ...] = ()) -> Outcome:
    """What an answer of this task means, which may be that it was none."""
    try:
        match answer:
            case Next() | Done():
                return task._succeeded(job, answer, children)
            case Retry() | Fail():
                answer.why = bounded(str(answer.why))
            case Wait():
                task._check_answer(answer.on_timeout)
    except Exception as error:  # noqa: BLE001  (the outcome of the job, whatever it is)
        return Raised(error, describe_exception(error))
    return answer  # type: ignore[return-value]  # every other Answer is an Outcome
