"""Calls the hooks around attempts of a task (`PerformHooks`), and its `on_failure` hooks."""

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
from tenure.hooks.across_loops import around_coroutine, around_function, wait_on_loop
from tenure.hooks.calling import HookCalls, acall_hooks, call_hooks, in_turn
from tenure.hooks.registry import name_of
from tenure.sync import private_loop

if TYPE_CHECKING:
    from tenure.tasks.context import Context
    from tenure.tasks.task import Task

__all__ = [
    "FailureHooks",
    "PerformHooks",
    "call_failure_hooks",
    "call_failure_hooks_blocking",
    "error_of",
    "failure_hooks_of",
    "has_failed",
    "perform_hooks_of",
]

FailureHooks = Sequence[Callable[["Context", BaseException, bool], object]]
"""The `on_failure` hooks of a task and of its app."""

log = logging.getLogger("tenure.worker")


class PerformHooks:
    """The hooks of a task and its app before, around and after its function, looked up once.

    Hooks of a coroutine are called on the loop that it runs on. Hooks of a blocking function are called on its thread;
    async ones are awaited on the worker's loop meanwhile, or in a child process on the private loop. `around_perform` may
    be of either kind in either case.
    """

    def __init__(self, task: Task[..., Any]) -> None:
        self._task = task
        self._before = task._hooks.of("before_perform")
        self._around = [(hook, _is_async(hook)) for hook in reversed(task._hooks.of("around_perform"))]
        self._after = task._hooks.of("after_perform")

    def __bool__(self) -> bool:
        return bool(self._before or self._around or self._after)

    async def on_loop(self, ctx: Context, function: Callable[[], Awaitable[Any]]) -> Any:
        """Run a coroutine function with its hooks. Returns the value."""
        if (answer := await acall_hooks(self._before_calls(ctx))) is not PROCEED:
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
            await acall_hooks(in_turn(self._after, ctx, value))
        return value

    def in_thread(self, ctx: Context, function: Callable[[], Any], loop: asyncio.AbstractEventLoop | None) -> Any:
        """Run a blocking function with its hooks on this thread. Async hooks are awaited on `loop`. Returns the value."""
        wait = functools.partial(_wait_on, loop)
        if (answer := call_hooks(self._before_calls(ctx), wait)) is not PROCEED:
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
            call_hooks(in_turn(self._after, ctx, value), wait)
        return value

    def _before_calls(self, ctx: Context) -> HookCalls[Any]:
        """PROCEED if every hook lets the attempt go on; else the value that the attempt has instead."""
        for hook in self._before:
            answer = hook(ctx)
            if inspect.isawaitable(answer):
                answer = yield answer
            if answer is False:
                return None
            if isinstance(answer, Answer):
                return answer
        return PROCEED

    def _succeeded(self, ctx: Context, value: Any, *, returned: bool) -> bool:
        """Whether to call the `after_perform` hooks. Raises if the value cannot be stored: the attempt has then failed."""
        if not self._after or ctx.signal.reason is AbortReason.TIMEOUT:
            return False
        if isinstance(value, Answer) and not isinstance(value, Next | Done):
            return False
        self._task._succeeded(ctx.job, value, returned=returned)
        return True


PROCEED = object()
"""The answer of `before_perform` hooks that let the attempt go on. No hook can return it."""


def perform_hooks_of(task: Task[..., Any]) -> PerformHooks | None:
    """The hooks around attempts of this task; None if there are none, so that its attempts do not pay for them."""
    return PerformHooks(task) or None


def failure_hooks_of(task: Task[..., Any]) -> FailureHooks:
    """The hooks to call for failed attempts of this task."""
    return tuple(task._hooks.of("on_failure"))


# Failures.


class Blocking(Protocol):
    """Where blocking functions are called."""

    async def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any: ...


def has_failed(transition: Transition) -> bool:
    """Whether the attempt behind this transition has failed: by an error, or because its arguments cannot be decoded."""
    match transition:
        case Finish(state):
            return state is State.FAILED or state is State.BROKEN
        case Requeue(error=error, counts=counts):
            return counts and error is not None
        case _:
            return False


def error_of(outcome: Outcome) -> BaseException:
    """The exception to give to `on_failure` hooks for an attempt with this outcome."""
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
            return RuntimeError(f"the attempt ended with {type(outcome).__name__}")


async def call_failure_hooks(
    task: Task[..., Any],
    hooks: FailureHooks,
    ctx: Context,
    error: BaseException,
    transition: Transition,
    threads: Blocking,
) -> None:
    """Call the `on_failure` hooks where attempts of the task run: on the loop, or in a thread.

    Raises nothing, not even a cancellation: the failure of the job must be recorded in any case.
    """
    outside = running.set(ctx)
    try:
        calls = _failure_calls(hooks, ctx, error, isinstance(transition, Finish))
        if task._is_async:
            await acall_hooks(calls)
        else:
            wait = functools.partial(_wait_on, asyncio.get_running_loop())
            await threads.run(call_hooks, (calls, wait), {})
    except BaseException as hook_error:  # noqa: BLE001  (a cancellation: a worker that stops does not wait for hooks)
        _log(hooks[0], ctx, error, hook_error)
    finally:
        running.reset(outside)


def call_failure_hooks_blocking(
    hooks: FailureHooks, ctx: Context, error: BaseException, transition: Transition
) -> None:
    """Call the `on_failure` hooks on this thread, which has no loop."""
    call_hooks(_failure_calls(hooks, ctx, error, isinstance(transition, Finish)), functools.partial(_wait_on, None))


def _failure_calls(hooks: FailureHooks, ctx: Context, error: BaseException, final: bool) -> HookCalls[None]:
    for hook in hooks:
        try:
            answer = hook(ctx, error, final)
            if inspect.isawaitable(answer):
                yield answer
        except Exception as hook_error:  # noqa: BLE001  (logged, with the error of the job)
            _log(hook, ctx, error, hook_error)


def _log(hook: Callable[..., Any], ctx: Context, error: BaseException, hook_error: BaseException) -> None:
    log.error(
        "job %s of task %s failed with %s, and its on_failure hook %s with %s; the failure of the job is recorded anyway",
        ctx.job.id, ctx.job.task, error_summary(error), name_of(hook), error_summary(hook_error),
        exc_info=hook_error,
    )  # fmt: skip


# Awaiting on either side.


def _is_async(hook: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(hook, "__call__", None))  # noqa: B004


async def _awaited(hook: Callable[..., Any], ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    return await hook(ctx, call)


def _around_on(
    hook: Callable[..., Any], ctx: Context, call: Callable[[], Any], loop: asyncio.AbstractEventLoop | None
) -> Any:
    return around_function(hook, ctx, call, loop or private_loop())


def _wait_on(loop: asyncio.AbstractEventLoop | None, awaitable: Awaitable[Any]) -> Any:
    return wait_on_loop(awaitable, loop or private_loop())
