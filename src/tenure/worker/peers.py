"""Jobs that a worker leaves to other workers, because those know the task and it does not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from time import monotonic

from tenure.core.patterns import serves
from tenure.stores.base import BATCH, Store
from tenure.stores.values import WorkerInfo
from tenure.worker.settings import SettingsOf

__all__ = ["Peers"]

FRESH = 2.0
"""Seconds for which a look at the registry is good."""

UNKNOWN = 0.1
"""Seconds for which it is believed that no worker knows a task: one that does may have come since."""

NUDGED = 3
"""Workers that are nudged for one task, at most."""


class Peers:
    """Knows which tasks to leave to other workers, and which workers know them.

    The registry is read when a job of an unknown task has come, and from then on every two seconds while tasks are left to others.
    Where all workers know the same tasks it is never read.
    """

    def __init__(self, store: Store, settings: SettingsOf) -> None:
        self._store = store
        self._settings = settings
        self._known: set[str] = set()
        """Tasks that this worker does not know and another live one does."""

        self._some = asyncio.Event()
        self._read_at = -FRESH
        self.workers: list[WorkerInfo] = []
        """The registry, as last read."""

        self.skipped: tuple[str, ...] = ()
        """Tasks whose jobs this worker passes over: those that `tasks=` leaves out, and those that other live workers know."""

        self._skip()

    async def know(self, task: str, queue: str) -> bool:
        """Whether jobs of this task, which this worker does not run, are to be left to others; then they are from now on.

        So it is if a live worker that serves the queue knows the task, or if `tasks=` leaves it out. Raises what the store raises.
        """
        if task in self.skipped:
            return True
        if task not in self._settings.left_out:
            await self._read(UNKNOWN)
            if not any(serves(worker.queues, queue) for worker in self._knowing(task)):
                return False
            self._known.add(task)
            self._some.set()
        self._skip()
        return True

    async def refresh(self) -> float:
        """Take back the tasks that no live worker knows any more, or this one does by now; seconds until the next look."""
        await self._some.wait()
        await self._read()
        self._known = {task for task in self._known if self._knowing(task)}.difference(self._settings.known)
        self._skip()
        if not self._known:
            self._some.clear()
        return FRESH

    async def pass_on(self, tasks: Iterable[str]) -> None:
        """Nudge workers that know these tasks: their jobs have woken this worker in vain. Raises what the store raises."""
        await self._read()
        nudged: set[str] = set()
        for task in tasks:
            able = self._knowing(task)
            random.shuffle(able)
            able.sort(key=lambda worker: worker.held >= worker.concurrency)
            nudged.update(worker.id for worker in able[:NUDGED])
        if nudged:
            await self._store.nudge(sorted(nudged))

    def _knowing(self, task: str) -> list[WorkerInfo]:
        return [worker for worker in self.workers if task in worker.tasks and not worker.missing]

    async def _read(self, good_for: float | None = None) -> None:
        if monotonic() - self._read_at >= (FRESH if good_for is None else good_for):
            self.workers, self._read_at = await self._store.workers(), monotonic()

    def _skip(self) -> None:
        self.skipped = tuple(sorted(self._known.union(self._settings.left_out)))[:BATCH]
