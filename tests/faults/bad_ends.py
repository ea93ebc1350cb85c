"""The worst ways for a job to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tenure import App

__all__ = ["ENDS", "register"]


class Rude(BaseException):
    """Not even an Exception."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message for you")

    __repr__ = __str__


class Lying:
    """Says that it can be written, and cannot."""

    def model_dump(self, mode: str) -> Any:
        raise RuntimeError("not me")


def raising(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def function() -> Any:
        raise error()

    return function


def recursion() -> Any:
    return recursion()


def circular() -> Any:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def memory() -> Any:
    return bytearray(1 << 62)


ENDS: dict[str, Callable[[], Any]] = {
    "system_exit": raising(lambda: SystemExit(0)),
    "keyboard_interrupt": raising(KeyboardInterrupt),
    "cancelled": raising(asyncio.CancelledError),
    "generator_exit": raising(GeneratorExit),
    "recursion": recursion,
    "memory": memory,
    "base_exception": raising(Rude),
    "group": raising(lambda: ExceptionGroup("two", [ValueError("one"), KeyError("other")])),
    "unprintable": raising(Unprintable),
    "long_message": raising(lambda: ValueError("x" * 50_000_000)),
    "surrogates": raising(lambda: ValueError("half \ud800 and nul \0")),
    "timeout": raising(TimeoutError),
    "odd_result": object,
    "huge_result": lambda: "x" * (2 << 20),
    "nan_result": lambda: float("nan"),
    "circular_result": circular,
    "lying_result": Lying,
}


def register(app: App) -> None:
    """Make tasks of them all, on the event loop (`async.…`) and in threads (`thread.…`)."""
    for name, end in ENDS.items():
        # A message of 50 MB keeps the whole interpreter busy for a while: that must not cost the lease here.
        app.task(name=f"thread.{name}", retry=None, lease=20)(_plain(end))
        app.task(name=f"async.{name}", retry=None, lease=20)(_async(end))

    @app.task(name="async.cancels_itself", retry=None)
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(10)


def _plain(end: Callable[[], Any]) -> Callable[[], Any]:
    def function() -> Any:
        return end()

    return function


def _async(end: Callable[[], Any]) -> Callable[[], Coroutine[Any, Any, Any]]:
    async def function() -> Any:
        return end()

    return function
