"""Calls hooks, which may be `def` or `async def`.

Each place that calls hooks is written once, as a generator that yields what must be awaited. `acall_hooks` drives it on an
event loop, `call_hooks` on a thread without one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar

from tenure.sync import run

__all__ = ["HookCalls", "acall_hooks", "call_hooks", "call_hooks_without_loop", "coroutine_of", "in_turn"]

T = TypeVar("T")

HookCalls = Generator[Awaitable[Any], Any, T]
"""A generator that calls hooks and yields each awaitable that they return."""


def in_turn(hooks: Iterable[Callable[..., Any]], *args: Any) -> HookCalls[None]:
    """Call these hooks one after the other. The first error ends it."""
    for hook in hooks:
        answer = hook(*args)
        if inspect.isawaitable(answer):
            yield answer


async def acall_hooks(calls: HookCalls[T]) -> T:
    """Drive the calls on the running loop: async hooks are awaited, the others are called on the loop itself."""
    try:
        awaitable = calls.send(None)
        while True:
            try:
                value = await awaitable
            except BaseException as error:  # noqa: BLE001  (the generator decides about it)
                awaitable = calls.throw(error)
            else:
                awaitable = calls.send(value)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]


def call_hooks(calls: HookCalls[T], wait: Callable[[Awaitable[Any]], Any] | None = None) -> T:
    """Drive the calls on this thread. `wait` waits for async hooks; by default they run on the private loop of blocking code."""
    wait = wait or _on_the_private_loop
    try:
        awaitable = calls.send(None)
        while True:
            try:
                value = wait(awaitable)
            except BaseException as error:  # noqa: BLE001  (the generator decides about it)
                awaitable = calls.throw(error)
            else:
                awaitable = calls.send(value)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]


def call_hooks_without_loop(hooks: Iterable[Callable[..., Any]]) -> None:
    """Call these hooks in a process without a running loop. An async hook gets a temporary loop."""
    call_hooks(in_turn(hooks), lambda awaitable: asyncio.run(coroutine_of(awaitable)))


async def coroutine_of(awaitable: Awaitable[T]) -> T:
    """A coroutine that awaits `awaitable`, for functions that accept only coroutines."""
    return await awaitable


def _on_the_private_loop(awaitable: Awaitable[T]) -> T:
    coroutine: Coroutine[Any, Any, T] = coroutine_of(awaitable)
    return run(coroutine)
