"""Calls hooks, which may be `def` or `async def`.

Each place that calls hooks is written once, as a generator that yields what is to be awaited. `awaiting` drives it on an event
loop, `waiting` on a thread without one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar

from tenure.sync import run

__all__ = ["HookCalls", "awaiting", "call", "coroutine_of", "moment", "waiting"]

T = TypeVar("T")

HookCalls = Generator[Awaitable[Any], Any, T]
"""What calls hooks, and yields whatever is to be awaited."""


def moment(hooks: Iterable[Callable[..., Any]], *args: Any) -> HookCalls[None]:
    """Call these one after the other; the first error ends it."""
    for hook in hooks:
        said = hook(*args)
        if inspect.isawaitable(said):
            yield said


async def awaiting(steps: HookCalls[T]) -> T:
    """Call hooks on the running loop: async ones are awaited, the others called here and now."""
    try:
        waited = steps.send(None)
        while True:
            try:
                value = await waited
            except BaseException as error:  # noqa: BLE001  (for the steps to decide about)
                waited = steps.throw(error)
            else:
                waited = steps.send(value)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]


def waiting(steps: HookCalls[T], wait: Callable[[Awaitable[Any]], Any] | None = None) -> T:
    """Call hooks on this thread; async ones where `wait` waits for them, else on the private loop of blocking code."""
    wait = wait or _on_the_private_loop
    try:
        waited = steps.send(None)
        while True:
            try:
                value = wait(waited)
            except BaseException as error:  # noqa: BLE001  (for the steps to decide about)
                waited = steps.throw(error)
            else:
                waited = steps.send(value)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]


def call(hooks: Iterable[Callable[..., Any]]) -> None:
    """Call these in a process without a loop or a thread; an async one has a loop to itself, for as long as it takes."""
    waiting(moment(hooks), lambda awaitable: asyncio.run(coroutine_of(awaitable)))


async def coroutine_of(awaitable: Awaitable[T]) -> T:
    """The same, for those who can only run a coroutine."""
    return await awaitable


def _on_the_private_loop(awaitable: Awaitable[T]) -> T:
    coroutine: Coroutine[Any, Any, T] = coroutine_of(awaitable)
    return run(coroutine)
