"""Calls hooks, which may be `def` or `async def`.

Each place that calls hooks is written once, as a generator that yields what is to be awaited. `acall_hooks` drives it on an event
loop, `call_hooks` on a thread without one.
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
"""What calls hooks, and yields whatever is to be awaited."""


def in_turn(hooks: Iterable[Callable[..., Any]], *args: Any) -> HookCalls[None]:
    """Call these one after the other; the first error ends it."""
    for hook in hooks:
        answer = hook(*args)
        if inspect.isawaitable(answer):
            yield answer


async def acall_hooks(calls: HookCalls[T]) -> T:
    """Call hooks on the running loop: async ones are awaited, the others called here and now."""
    try:
        awaitable = calls.send(None)
        while True:
            try:
                value = await awaitable
            except BaseException as error:  # noqa: BLE001  (for the calls to decide about)
                awaitable = calls.throw(error)
            else:
                awaitable = calls.send(value)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]


def call_hooks(calls: HookCalls[T], wait: Callable[[Awaitable[Any]], Any] | None = None) -> T:
    """Call hooks on this thread; async ones where `wait` waits for them, else on the private loop of blocking code."""
    wait = wait or _on_the_private_loop
    try:
        awaitable = calls.send(None)
        while True:
            try:
                value = wait(awaitable)
            except BaseException as error:  # noqa: BLE001  (for the calls to decide about)
                awaitable = calls.throw(error)
            else:
                awaitable = calls.send(value)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]


def call_hooks_without_loop(hooks: Iterable[Callable[..., Any]]) -> None:
    """Call these in a process without a loop or a thread; an async one has a loop to itself, for as long as it takes."""
    call_hooks(in_turn(hooks), lambda awaitable: asyncio.run(coroutine_of(awaitable)))


async def coroutine_of(awaitable: Awaitable[T]) -> T:
    """The same, for those who can only run a coroutine."""
    return await awaitable


def _on_the_private_loop(awaitable: Awaitable[T]) -> T:
    coroutine: Coroutine[Any, Any, T] = coroutine_of(awaitable)
    return run(coroutine)
