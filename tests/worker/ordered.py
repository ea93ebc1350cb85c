"""A worker process that notes in a file what it does, in the order in which it does it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, cast

from tenure import App
from tenure.stores import open_store
from tenure.stores.base import Store
from tests.faults.processes import say

__all__ = ["read", "work"]

NOTED = ("beat", "claim_chore", "register", "leave")
"""Calls of the store that are noted; and `settle`, if it settles something."""


class Notes:
    """Lines of a file, to which several processes append."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, what: str) -> None:
        os.write(self._file, f"{what}\n".encode())


class NotedStore:
    """A store whose calls are noted; one fails once a file is there."""

    def __init__(self, store: Store, notes: Notes, fails: dict[str, str]) -> None:
        self._store = store
        self._notes = notes
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name == "settle_and_lease":
            return self._settle_and_lease
        if name not in (*NOTED, "settle"):
            return method

        async def call(*args: Any, **options: Any) -> Any:
            if name == "beat" and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                self._notes.add("handlers")
            self._notes.add(name)
            if self._broken(name):
                raise SystemExit(1) if name == "beat" else ValueError(f"{name} is broken")
            return await method(*args, **options)

        return call

    def _broken(self, name: str) -> bool:
        return name in self._fails and Path(self._fails[name]).exists()

    async def _settle_and_lease(self, settlements: Any, request: Any) -> Any:
        if self._broken("lease"):
            return None  # as no store does: the worker has to end
        if settlements:
            self._notes.add("settle")
        return await self._store.settle_and_lease(settlements, request)


def work(url: str, path: str, fails: dict[str, str], options: dict[str, Any]) -> None:
    """Work with a job of an isolated task in hand, until stopped or until something fails."""
    notes = Notes(path)
    app = App(lambda: cast("Store", NotedStore(open_store(url), notes, fails)), lease=5)

    @app.task(isolation="process")
    def child() -> None:
        notes.add("job")
        say("started", "child", os.getpid())
        time.sleep(3600)

    @app.before_first_fork
    def before_first_fork() -> None:
        notes.add("before_first_fork")
        if "before_first_fork" in fails:
            raise ValueError("no model here")

    @app.worker_exit
    def first() -> None:
        notes.add("worker_exit")
        if "worker_exit" in fails:
            raise ValueError("no good end")

    app.worker(**options).run()


def read(path: Path) -> list[str]:
    """What was noted, without repetitions in a row."""
    lines = path.read_text().split()
    return [line for number, line in enumerate(lines) if number == 0 or line != lines[number - 1]]
