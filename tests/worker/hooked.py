"""Tasks for every lane, with notes that hooks and functions take in whatever process they run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Task
from tests.faults.processes import say

__all__ = ["LANES", "Notes", "a_task", "both", "lanes", "notes", "of_kind", "work"]

LANES = ("loop", "thread", "process of a coroutine", "process of a function")

lanes = pytest.mark.parametrize("lane", LANES)
both = pytest.mark.parametrize(
    ("lane", "kind"),
    [
        *((lane, kind) for lane in ("loop", "thread") for kind in ("def", "async def")),
        ("process of a coroutine", "def"),
        ("process of a function", "async def"),
        pytest.param("process of a coroutine", "async def", marks=pytest.mark.long),
        pytest.param("process of a function", "def", marks=pytest.mark.long),
    ],
)


class Notes:
    """Lines in a file, written whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self, *words: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(words) + "\n")

    def __call__(self) -> list[Any]:
        if not self._path.exists():
            return []
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [line[0] if len(line) == 1 else tuple(line) for line in lines]

    def here(self) -> tuple[int, int]:
        """The process and the thread."""
        return os.getpid(), threading.get_ident()


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


def a_task(app: App, lane: str, function: Callable[..., Any], **options: Any) -> Task[..., Any]:
    """A task of this function, blocking or awaited as the lane has it."""
    if lane.startswith("process"):
        options["isolation"] = "process"
    name = options.pop("name", "job")
    if lane in ("loop", "process of a coroutine"):

        async def awaited(*args: Any) -> Any:
            await asyncio.sleep(0)
            return function(*args)

        task: Task[..., Any] = app.task(name=name, **options)(awaited)
        return task

    def blocking(*args: Any) -> Any:
        return function(*args)

    plain: Task[..., Any] = app.task(name=name, **options)(blocking)
    return plain


def of_kind(kind: str, hook: Any) -> Any:
    """A hook with one or more arguments, blocking or awaited."""

    async def awaited(*args: Any) -> Any:
        await asyncio.sleep(0)
        return hook(*args)

    return awaited if kind == "async def" else lambda *args: hook(*args)


def work(url: str, fails: bool = False) -> None:
    """A worker process that says what its hooks are called for."""
    app = App(url)
    for name in ("on_start", "on_stop", "before_pause", "after_pause", "queue_empty", "worker_exit"):

        async def hook(name: str = name) -> None:
            await asyncio.sleep(0)
            say("hook", name)

        getattr(app, name)(hook)

    @app.on_start
    def failing() -> None:
        if fails:
            raise LookupError("no database here")

    @app.task
    def beep() -> None:
        say("beep", signal.SIGUSR2.name)

    raise SystemExit(app.worker(poll=0.05).run())
