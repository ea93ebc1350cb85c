"""Hooks that are on the other side of an event loop than what they wrap: async ones beside a thread, blocking ones beside a coroutine."""

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
    """Wait, in a thread, for something on a loop elsewhere; context variables that were set there are set here."""

    async def there() -> tuple[Any, Variables]:
        value = await awaitable
        return value, copy_context()

    asked = asyncio.run_coroutine_threadsafe(there(), loop)
    try:
        value, variables = asked.result()
    except BaseException:
        asked.cancel()  # nobody waits for it any more, if it is not what has raised this
        raise
    _copy_variables(variables)
    return value


def around_function(
    hook: Callable[..., Awaitable[Any]],
    ctx: Context,
    call_next: Callable[[], Any],
    loop: asyncio.AbstractEventLoop,
) -> Any:
    """Run an async hook on a loop elsewhere around a blocking function, which runs on this thread."""
    calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def next_there() -> Any:
        ended: asyncio.Future[Captured] = loop.create_future()
        variables = copy_context()

        def here() -> None:
            result = _captured(variables.run, call_next)
            loop.call_soon_threadsafe(_resolve, ended, result)

        calls.put(here)
        return _unwrap(await ended)

    asked = asyncio.run_coroutine_threadsafe(coroutine_of(hook(ctx, next_there)), loop)
    asked.add_done_callback(lambda _: calls.put(None))
    try:
        while (here := calls.get()) is not None:
            here()
        return asked.result()
    except BaseException:
        asked.cancel()
        raise


async def around_coroutine(hook: Callable[..., Any], ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """Run a blocking hook in a thread of its own around a coroutine, which runs here; it sees the variables that the hook has set.

    If whoever waits here is cancelled, the hook is told by `Aborted` where it calls next; before that it goes on alone.
    """
    loop = asyncio.get_running_loop()
    asked: asyncio.Queue[tuple[SimpleQueue[Captured], Variables] | Captured] = asyncio.Queue()
    left = False

    def ask(answer: SimpleQueue[Captured], variables: Variables) -> None:
        if left:
            answer.put((None, Aborted(ctx.signal.reason or "error")))
        else:
            asked.put_nowait((answer, variables))

    def next_here() -> Any:
        answer: SimpleQueue[Captured] = SimpleQueue()
        loop.call_soon_threadsafe(ask, answer, copy_context())
        return _unwrap(answer.get())

    def there() -> None:
        result = _captured(variables.run, hook, ctx, next_here)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(asked.put_nowait, result)

    variables = copy_context()
    threading.Thread(target=there, name="tenure-hook", daemon=True).start()
    try:
        while isinstance((request := await asked.get())[0], SimpleQueue):
            answer, theirs = request
            _copy_variables(theirs)  # type: ignore[arg-type]
            try:
                answer.put((await call_next(), None))
            except BaseException as error:  # noqa: BLE001  (the hook's to see, and then ours)
                answer.put((None, error))
    finally:
        left = True
    return _unwrap(request)  # type: ignore[arg-type]


def _captured(function: Callable[..., Any], *args: Any) -> Captured:
    try:
        return function(*args), None
    except BaseException as error:  # noqa: BLE001  (raised again where it belongs)
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
    """Set here what was set there."""
    ours = copy_context()
    for variable, value in variables.items():
        if ours.get(variable, _UNSET) is not value:
            variable.set(value)


_UNSET = object()
