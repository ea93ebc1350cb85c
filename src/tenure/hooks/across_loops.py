"""Runs async hooks around functions in threads, and blocking hooks around coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context as Variables
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from tenure.errors import Aborted
from tenure.hooks.calling import coroutine_of

if TYPE_CHECKING:
    from tenure.tasks.context import Context

__all__ = ["around_coroutine", "around_function", "wait_on_loop"]

Captured = tuple[Any, BaseException | None]


def wait_on_loop(awaitable: Awaitable[Any], loop: asyncio.AbstractEventLoop) -> Any:
    """Wait, in a thread, for an awaitable on another thread's loop. Context variables that were set there are set here too."""

    async def on_loop() -> tuple[Any, Variables]:
        value = await awaitable
        return value, copy_context()

    future = asyncio.run_coroutine_threadsafe(on_loop(), loop)
    try:
        value, variables = future.result()
    except BaseException:
        future.cancel()  # its result is no longer needed, unless it is what raised this
        raise
    _copy_variables(variables)
    return value


def around_function(
    hook: Callable[..., Awaitable[Any]],
    ctx: Context,
    call_next: Callable[[], Any],
    loop: asyncio.AbstractEventLoop,
) -> Any:
    """Run an async hook on another thread's loop around a blocking function, which runs on this thread."""
    calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def next_there() -> Any:
        ended: asyncio.Future[Captured] = loop.create_future()
        variables = copy_context()

        def call_here() -> None:
            result = _captured(variables.run, call_next)
            loop.call_soon_threadsafe(_resolve, ended, result)

        calls.put(call_here)
        return _unwrap(await ended)

    future = asyncio.run_coroutine_threadsafe(coroutine_of(hook(ctx, next_there)), loop)
    future.add_done_callback(lambda _: calls.put(None))
    try:
        while (call_here := calls.get()) is not None:
            call_here()
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def around_coroutine(hook: Callable[..., Any], ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """Run a blocking hook in a new thread around a coroutine, which runs here.

    The coroutine sees the context variables that the hook has set. If the caller is cancelled, the hook gets `Aborted` from
    its next `call_next()`; until then it goes on unobserved.
    """
    loop = asyncio.get_running_loop()
    requests: asyncio.Queue[tuple[SimpleQueue[Captured], Variables] | Captured] = asyncio.Queue()
    left = False

    def put(answer: SimpleQueue[Captured], variables: Variables) -> None:
        if left:
            answer.put((None, Aborted(ctx.signal.reason or "error")))
        else:
            requests.put_nowait((answer, variables))

    def next_here() -> Any:
        answer: SimpleQueue[Captured] = SimpleQueue()
        loop.call_soon_threadsafe(put, answer, copy_context())
        return _unwrap(answer.get())

    def run_hook() -> None:
        result = _captured(variables.run, hook, ctx, next_here)
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for the result
            loop.call_soon_threadsafe(requests.put_nowait, result)

    variables = copy_context()
    threading.Thread(target=run_hook, name="tenure-hook", daemon=True).start()
    try:
        while isinstance((request := await requests.get())[0], SimpleQueue):
            answer, theirs = request
            _copy_variables(theirs)  # type: ignore[arg-type]
            try:
                answer.put((await call_next(), None))
            except BaseException as error:  # noqa: BLE001  (the hook sees it first; then it is raised here)
                answer.put((None, error))
    finally:
        left = True
    return _unwrap(request)  # type: ignore[arg-type]


def _captured(function: Callable[..., Any], *args: Any) -> Captured:
    try:
        return function(*args), None
    except BaseException as error:  # noqa: BLE001  (raised again by _unwrap)
        return None, error


def _unwrap(ended: Captured) -> Any:
    value, error = ended
    if error is not None:
        raise error
    return value


def _resolve(future: asyncio.Future[Captured], result: Captured) -> None:
    if not future.done():
        future.set_result(result)


def _copy_variables(variables: Variables) -> None:
    """Set here the context variables that were set there."""
    ours = copy_context()
    for variable, value in variables.items():
        if ours.get(variable, _UNSET) is not value:
            variable.set(value)


_UNSET = object()
