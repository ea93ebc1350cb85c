"""`Crashes`: says at which moments of which attempts the worker of a test kit dies, and what replaces functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tenure.core.checks import refused
from tenure.tasks.task import Task

__all__ = ["Crashes", "Moment", "replaced_function"]

Moment = Literal["before_start", "before_settle", "after_settle"]
"""When a worker dies: before it calls the function; after that, before the store hears of it; or after the store has."""


@dataclass(slots=True)
class _Crash:
    task: str
    at: Moment
    left: int
    happened: int = 0


class Crashes:
    """The crashes that are still to come, by task and moment."""

    def __init__(self) -> None:
        self._coming: list[_Crash] = []

    @contextmanager
    def expect(self, task: str, at: Moment, times: int) -> Iterator[None]:
        """Have the worker die in the next `times` attempts of a task that begin inside the block.

        `AssertionError` at the end of the block if no attempt has begun in it, because then the test has tested nothing.
        """
        if at not in get_args(Moment):
            raise refused("at", f"one of {', '.join(get_args(Moment))}", at)
        crash = _Crash(task, at, times)
        self._coming.append(crash)
        try:
            yield
        finally:
            self._coming.remove(crash)
        if not crash.happened:
            raise AssertionError(
                f"no worker crashed: no job of {task} reached {at} inside the block. "
                "Run the jobs inside it, for example with run_until_idle(skip=True)."
            )

    def strikes(self, tasks: tuple[str, ...], at: Moment) -> bool:
        """Whether the worker dies now, at this moment of an attempt of a task with these names."""
        for crash in self._coming:
            if crash.at == at and crash.left and crash.task in tasks:
                crash.left -= 1
                crash.happened += 1
                return True
        return False


@contextmanager
def replaced_function(task: Task[..., Any], make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Have jobs of a task call another function inside the block. `make` gets the function that it replaces.

    What `make` returns is a plain function. A coroutine function calls it if the task is `async def`.
    """
    before = task.function
    instead = make(before)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        value = instead(*args, **kwargs)
        return await value if hasattr(value, "__await__") else value

    task.function = awaited if task._is_async else instead
    try:
        yield
    finally:
        task.function = before
