"""The hooks of one task around its attempts, looked up once; and who calls them, in every lane."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tenure.core.failure import error_summary
from tenure.core.job import State
from tenure.core.lease import AbortReason
from tenure.core.lifecycle import Finish, Requeue, Transition
from tenure.core.outcome import Answer, Collided, Done, Fail, Interrupted, Next, Outcome, Raised, Retry, Undecodable
from tenure.core.running import running
from tenure.errors import Aborted, PayloadError
from tenure.hooks.across_loops import around_coroutine, around_function, wait_for
from tenure.hooks.calling import HookCalls, awaiting, moment, waiting
from tenure.hooks.registry import name_of
from tenure.sync import private_loop

if TYPE_CHECKING:
    from tenure.tasks.context import Context
    from tenure.tasks.task import Task

__all__ = [
    "Failing",
    "PerformHooks",
    "error_of",
    "failing_of",
    "has_failed",
    "performing_of",
    "tell_failure",
    "tell_failure_here",
]

Failing = Sequence[Callable[["Context", BaseException, bool], object]]
"""The `on_failure` hooks of a task and of its app."""

log = logging.getLogger("tenure.worker")


class PerformHooks:
    """What a task and its app want done before, around and after its function.

    Hooks of a coroutine are called on the loop that it runs on. Those of a blocking function are called on its thread, async ones
    awaited on the worker's loop meanwhile, or in a child process on that of blocking code. `around_perform` may be of
    either kind in either case.
    """

    def __init__(self, task: Task[..., Any]) -> None:
        self._task = task
        self._before = task._hooks.of("before_perform")
        self._around = [(hook, _is_async(hook)) for hook in reversed(task._hooks.of("around_perform"))]
        self._after = task._hooks.of("after_perform")

    def __bool__(self) -> bool:
        return bool(self._before or self._around or self._after)

    async def on_loop(self, ctx: Context, function: Callable[[], Awaitable[Any]]) -> Any:
        """Perform a coroutine; what came of it."""
        if (answer := await awaiting(self._asked(ctx))) is not GO:
            return answer
        performed, returned = False, None

        async def innermost() -> Any:
            nonlocal performed, returned
            performed = True
            returned = await function()
            return returned

        call: Callable[[], Awaitable[Any]] = innermost
        for hook, is_async in self._around:
            call = (
                functools.partial(_awaited, hook, ctx, call)
                if is_async
                else functools.partial(around_coroutine, hook, ctx, call)
            )
        value = await call()
        if performed and self._succeeded(ctx, value, returned=value is returned):
            await awaiting(moment(self._after, ctx, value))
        return value

    def in_thread(self, ctx: Context, function: Callable[[], Any], loop: asyncio.AbstractEventLoop | None) -> Any:
        """Perform a blocking function, on this thread; what came of it. Async hooks are awaited on this loop."""
        wait = functools.partial(_wait_on, loop)
        if (answer := waiting(self._asked(ctx), wait)) is not GO:
            return answer
        performed, returned = False, None

        def innermost() -> Any:
            nonlocal performed, returned
            performed = True
            returned = function()
            return returned

        call: Callable[[], Any] = innermost
        for hook, is_async in self._around:
            call = (
                functools.partial(_around_on, hook, ctx, call, loop) if is_async else functools.partial(hook, ctx, call)
            )
        value = call()
        if performed and self._succeeded(ctx, value, returned=value is returned):
            waiting(moment(self._after, ctx, value), wait)
        return value

    def _asked(self, ctx: Context) -> HookCalls[Any]:
        """GO if no hook has anything against it; else what the attempt gives instead."""
        for hook in self._before:
            said = hook(ctx)
            if inspect.isawaitable(said):
                said = yield said
            if said is False:
                return None
            if isinstance(said, Answer):
                return said
        return GO

    def _succeeded(self, ctx: Context, value: Any, *, returned: bool) -> bool:
        """Whether hooks are to be called after this; raises if the value cannot be stored, for then it has not succeeded."""
        if not self._after or ctx.signal.reason is AbortReason.TIMEOUT:
            return False
        if isinstance(value, Answer) and not isinstance(value, Next | Done):
            return False
        self._task._succeeded(ctx.job, value, returned=returned)
        return True


GO = object()
"""Said by nobody."""


def performing_of(task: Task[..., Any]) -> PerformHooks | None:
    """The hooks around attempts of this task; None if there are none, so that such attempts pay nothing."""
    return PerformHooks(task) or None


def failing_of(task: Task[..., Any]) -> Failing:
    """The hooks for attempts of it that fail."""
    return tuple(task._hooks.of("on_failure"))


# Failures.


class Blocking(Protocol):
    """Where blocking functions are called."""

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any: ...


def has_failed(step: Transition) -> bool:
    """Whether this is what becomes of a job whose attempt has failed: by an error, or because its arguments cannot be read."""
    match step:
        case Finish(state):
            return state is State.FAILED or state is State.BROKEN
        case Requeue(error=error, counts=counts):
            return counts and error is not None
        case _:
            return False


def error_of(outcome: Outcome) -> BaseException:
    """What an attempt with this outcome has failed of."""
    match outcome:
        case Raised(exception) | Collided(Raised(exception)):
            return exception
        case Retry() | Fail():
            return outcome
        case Undecodable(error, exception):
            return exception or PayloadError(error.message)
        case Interrupted():
            return Aborted(AbortReason.SHUTDOWN)
        case _:
            return RuntimeError(f"the attempt has ended with {type(outcome).__name__}")


async def tell_failure(
    task: Task[..., Any], failing: Failing, ctx: Context, error: BaseException, step: Transition, threads: Blocking
) -> None:
    """Call the `on_failure` hooks, where attempts of the task run. Raises nothing, and is not cancelled: the failure is recorded all the same."""
    outside = running.set(ctx)
    try:
        told = _told(failing, ctx, error, isinstance(step, Finish))
        if task._is_async:
            await awaiting(told)
        else:
            wait = functools.partial(_wait_on, asyncio.get_running_loop())
            await threads.run(waiting, (told, wait), {})
    except BaseException as own:  # noqa: BLE001  (a cancellation: whoever stops the worker does not wait for hooks)
        _log(failing[0], ctx, error, own)
    finally:
        running.reset(outside)


def tell_failure_here(failing: Failing, ctx: Context, error: BaseException, step: Transition) -> None:
    """Call them on this thread, which has no loop."""
    waiting(_told(failing, ctx, error, isinstance(step, Finish)), functools.partial(_wait_on, None))


def _told(failing: Failing, ctx: Context, error: BaseException, final: bool) -> HookCalls[None]:
    for hook in failing:
        try:
            said = hook(ctx, error, final)
            if inspect.isawaitable(said):
                yield said
        except Exception as own:  # noqa: BLE001  (told in the log, with what it was about)
            _log(hook, ctx, error, own)


def _log(hook: Callable[..., Any], ctx: Context, error: BaseException, own: BaseException) -> None:
    log.error(
        "job %s of task %s has failed with %s, and its on_failure hook %s with %s: the failure of the job is recorded all the same",
        ctx.job.id, ctx.job.task, error_summary(error), name_of(hook), error_summary(own),
        exc_info=own,
    )  # fmt: skip


# How.


def _is_async(hook: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(hook, "__call__", None))  # noqa: B004


async def _awaited(hook: Callable[..., Any], ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    return await hook(ctx, call)


def _around_on(
    hook: Callable[..., Any], ctx: Context, call: Callable[[], Any], loop: asyncio.AbstractEventLoop | None
) -> Any:
    return around_function(hook, ctx, call, loop or private_loop())


def _wait_on(loop: asyncio.AbstractEventLoop | None, awaitable: Awaitable[Any]) -> Any:
    return wait_for(awaitable, loop or private_loop())
