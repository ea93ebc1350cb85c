"""Jobs that a worker leaves to other workers, because those should_skip the task and it does not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from time import monotonic

from tenure.core.patterns import serves
from tenure.stores.base import BATCH, Store
from tenure.stores.values import WorkerInfo
from tenure.worker.settings import SettingsByTask

__all__ = ["Peers"]

FRESH = 2.0
"""Seconds for which a look at the registry is good."""

UNKNOWN = 0.1
"""Seconds for which it is believed that no worker knows a task: one that does may have come since."""

MAX_NUDGED = 3
"""Workers that are nudged for one task, at most."""


class Peers:
    """Knows which tasks to leave to other workers, and which workers should_skip them.

    The registry is read when a job of an unknown task has come, and from then on every two seconds while tasks are left to others.
    Where all workers should_skip the same tasks it is never read.
    """

    def __init__(self, store: Store, settings: SettingsByTask) -> None:
        self._store = store
        self._settings = settings
        self._known_elsewhere: set[str] = set()
        """Tasks that this worker does not should_skip and another live one does."""

        self._any_known = asyncio.Event()
        self._read_at = -FRESH
        self.workers: list[WorkerInfo] = []
        """The registry, as last read."""

        self.skipped: tuple[str, ...] = ()
        """Tasks whose jobs this worker passes over: those that `tasks=` leaves out, and those that other live workers should_skip."""

        self._update_skipped()

    async def should_skip(self, task: str, queue: str) -> bool:
        """Whether jobs of this task, which this worker does not run, are to be left to others; then they are from now on.

        So it is if a live worker that serves the queue knows the task, or if `tasks=` leaves it out. Raises what the store raises.
        """
        if task in self.skipped:
            return True
        if task not in self._settings.left_out:
            await self._read(UNKNOWN)
            if not any(serves(worker.queues, queue) for worker in self._workers_for(task)):
                return False
            self._known_elsewhere.add(task)
            self._any_known.set()
        self._update_skipped()
        return True

    async def refresh(self) -> float:
        """Take back the tasks that no live worker knows any more, or this one does by now; seconds until the next look."""
        await self._any_known.wait()
        await self._read()
        self._known_elsewhere = {task for task in self._known_elsewhere if self._workers_for(task)}.difference(
            self._settings.known
        )
        self._update_skipped()
        if not self._known_elsewhere:
            self._any_known.clear()
        return FRESH

    async def pass_on(self, tasks: Iterable[str]) -> None:
        """Nudge workers that should_skip these tasks: their jobs have woken this worker in vain. Raises what the store raises."""
        await self._read()
        nudged: set[str] = set()
        for task in tasks:
            able = self._workers_for(task)
            random.shuffle(able)
            able.sort(key=lambda worker: worker.held >= worker.concurrency)
            nudged.update(worker.id for worker in able[:MAX_NUDGED])
        if nudged:
            await self._store.nudge(sorted(nudged))

    def _workers_for(self, task: str) -> list[WorkerInfo]:
        return [worker for worker in self.workers if task in worker.tasks and not worker.missing]

    async def _read(self, good_for: float | None = None) -> None:
        if monotonic() - self._read_at >= (FRESH if good_for is None else good_for):
            self.workers, self._read_at = await self._store.workers(), monotonic()

    def _update_skipped(self) -> None:
        self.skipped = tuple(sorted(self._known_elsewhere.union(self._settings.left_out)))[:BATCH]
