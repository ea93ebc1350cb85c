"""`function_of`: the function that a worker calls for a task of Django, with context, signals and connections."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.db import connections
from django.utils import timezone

from tenure.core.failure import describe_exception, since_the_job
from tenure.core.job import State
from tenure.core.outcome import Answer
from tenure.django.framework import (
    Task,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from tenure.django.results import result_of
from tenure.errors import InvalidResult
from tenure.tasks.context import Context, current

__all__ = ["failure_hook_of", "function_of"]


def function_of(task: Task[..., Any]) -> Callable[..., Any]:
    """A function with the parameters of the task's, but no annotations, so that it gets plain JSON as with other backends."""
    attempt = _async_attempt(task) if inspect.iscoroutinefunction(task.func) else _attempt(task)
    attempt.__name__, attempt.__qualname__ = task.func.__name__, task.func.__qualname__
    attempt.__module__, attempt.__doc__ = task.func.__module__, task.func.__doc__
    whole = inspect.signature(task.func)
    taken = list(whole.parameters.values())[1 if task.takes_context else 0 :]
    attempt.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(annotation=inspect.Parameter.empty) for parameter in taken]
    )
    return attempt


def _attempt(task: Task[..., Any]) -> Callable[..., Any]:
    def attempt(*args: Any, **kwargs: Any) -> Any:
        _close_old_connections()
        try:
            result = _started(task)
            task_started.send_robust(_sender(task), task_result=result)
            value = _value(task.func(*_context(task, result), *args, **kwargs))
            if _counts(value):
                task_finished.send_robust(_sender(task), task_result=_succeeded(result, value))
            return value
        finally:
            _close_old_connections()

    return attempt


def _async_attempt(task: Task[..., Any]) -> Callable[..., Any]:
    async def attempt(*args: Any, **kwargs: Any) -> Any:
        close = sync_to_async(_close_old_connections)  # in the thread where async code of Django uses its connections
        await close()
        value, error = None, None
        try:
            result = _started(task)
            await task_started.asend_robust(_sender(task), task_result=result)
            value = _value(await task.func(*_context(task, result), *args, **kwargs))
            if _counts(value):
                await task_finished.asend_robust(_sender(task), task_result=_succeeded(result, value))
        except BaseException as raised:  # noqa: BLE001
            error = raised
        # Outside of the handler: asgiref raises the exception that is being handled again, in its thread, and changes its traceback.
        await close()
        if error is not None:
            raise error
        return value

    return attempt


def failure_hook_of(task: Task[..., Any]) -> Callable[[Context, BaseException, bool], Any]:
    """A hook `on_failure` that sends `task_finished` once a job of this task has failed for good.

    Only there is it known whether another attempt follows.
    """

    def report(ctx: Context, error: BaseException, final: bool) -> None:
        if final:
            _send_failure(task, ctx, error)

    async def report_from_loop(ctx: Context, error: BaseException, final: bool) -> None:
        if final:
            await sync_to_async(_send_failure)(task, ctx, error)  # receivers may use the database, and block

    return report_from_loop if inspect.iscoroutinefunction(task.func) else report


def _send_failure(task: Task[..., Any], ctx: Context, error: BaseException) -> None:
    job = msgspec.structs.replace(ctx.job, state=State.FAILED, error=describe_exception(error))
    result = _finish(result_of(task, job, task.backend), TaskResultStatus.FAILED)
    frames = error.__traceback__
    try:
        # Receivers, such as Django's log, look for the exception that is being handled.
        raise error.with_traceback(since_the_job(frames))
    except BaseException:  # noqa: BLE001
        task_finished.send_robust(_sender(task), task_result=result)
    finally:
        error.__traceback__ = frames


def _close_old_connections() -> None:
    """Close the connections of this thread that are too old or unusable, as Django does around requests.

    Not one that is in a transaction, as that of a test in whose thread the task runs.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _counts(value: Any) -> bool:
    """Whether a function that has returned this has succeeded: not with an answer, nor after its attempt was given up."""
    return not isinstance(value, Answer) and not current().signal.aborted


def _sender(task: Task[..., Any]) -> Any:
    return type(task.get_backend())


def _context(task: Task[..., Any], result: TaskResult[Any]) -> tuple[TaskContext, ...]:
    return (TaskContext(task_result=result),) if task.takes_context else ()


def _value(value: Any) -> Any:
    """What the function returned, as JSON; an answer such as `Retry` as it is."""
    if isinstance(value, Answer):
        return value
    try:
        plain = normalize_json(value)
    except (TypeError, ValueError) as error:
        raise InvalidResult(f"the result has no JSON form: {error}") from error
    if (task := current()._task) is not None:
        task._encode_result(plain, returned=True)  # raises what would fail the job after it was said to have succeeded
    return plain


def _started(task: Task[..., Any]) -> TaskResult[Any]:
    ctx = current()
    job = msgspec.structs.replace(ctx.job, state=State.RUNNING, worker=ctx.worker_id)
    result = result_of(task, job, task.backend)
    if result.last_attempted_at is None:
        object.__setattr__(result, "last_attempted_at", timezone.now())
    if result.started_at is None:
        object.__setattr__(result, "started_at", result.last_attempted_at)
    return result


def _succeeded(result: TaskResult[Any], value: Any) -> TaskResult[Any]:
    object.__setattr__(result, "_return_value", value)
    return _finish(result, TaskResultStatus.SUCCESSFUL)


def _finish(result: TaskResult[Any], status: Any) -> TaskResult[Any]:
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", timezone.now())
    return result
