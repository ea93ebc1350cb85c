"""`Peers`: decides which tasks a worker leaves to other workers, because they know the task and it does not."""

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

REGISTRY_MAX_AGE = 2.0
"""Seconds after which the registry is read again."""

UNKNOWN_MAX_AGE = 0.1
"""Seconds for which "no worker knows this task" holds: one that does may have started since."""

MAX_NUDGED = 3
"""Workers that are woken for one task, at most."""


class Peers:
    """Decides which tasks to leave to other workers, and knows which workers run them.

    The registry is read when a job of an unknown task arrives, and from then on every two seconds while tasks are left
    to others. Where all workers know the same tasks it is never read.
    """

    def __init__(self, store: Store, settings: SettingsByTask) -> None:
        self._store = store
        self._settings = settings
        self._known_elsewhere: set[str] = set()
        """Tasks that this worker does not know and another live one does."""

        self._newer_elsewhere: dict[str, int] = {}
        """Versions of tasks that another live worker runs and this one does not know, until the next `refresh`."""

        self._any_known = asyncio.Event()
        self._read_at = -REGISTRY_MAX_AGE
        self.workers: list[WorkerInfo] = []
        """The registry, as last read."""

        self.skipped: tuple[str, ...] = ()
        """Tasks whose jobs this worker does not lease: those that `tasks=` leaves out, and those that only other live
        workers know.
        """

        self._update_skipped()

    async def should_skip(self, task: str, queue: str) -> bool:
        """Whether to leave jobs of this unknown task to other workers. If True, the task is skipped from now on.

        True if a live worker that serves `queue` knows the task, or if `tasks=` leaves it out. Raises what the store
        raises.
        """
        if task in self.skipped:
            return True
        if task not in self._settings.left_out:
            await self._read(UNKNOWN_MAX_AGE)
            if not any(serves(worker.queues, queue) for worker in self._workers_for(task)):
                return False
            self._known_elsewhere.add(task)
            self._any_known.set()
        self._update_skipped()
        return True

    async def should_skip_for_now(self, task: str, version: int, queue: str) -> bool:
        """Whether to leave jobs of this version of a task to other workers, because this worker knows only earlier ones.

        If True, all jobs of the task are skipped until the next `refresh`. Not for longer: a store does not see the version of a
        job, and this worker can still run the earlier ones, which a few new workers could not do alone. Raises what the store
        raises.
        """
        await self._read(UNKNOWN_MAX_AGE)
        if not any(serves(worker.queues, queue) for worker in self._workers_for(task, version)):
            return False
        self._newer_elsewhere[task] = version
        self._any_known.set()
        self._update_skipped()
        return True

    async def refresh(self) -> float:
        """Stop skipping tasks that no other live worker knows any more, or that this worker knows by now.

        Tasks that are skipped for now because of their version are tried again.

        Returns the seconds until the next call.
        """
        await self._any_known.wait()
        if self._newer_elsewhere:
            await asyncio.sleep(REGISTRY_MAX_AGE)
            self._newer_elsewhere.clear()
        await self._read()
        self._known_elsewhere = {task for task in self._known_elsewhere if self._workers_for(task)}.difference(
            self._settings.known
        )
        self._update_skipped()
        if not self._known_elsewhere:
            self._any_known.clear()
        return REGISTRY_MAX_AGE

    async def pass_on(self, tasks: Iterable[str]) -> None:
        """Wake workers that know these tasks, because their jobs have woken this worker instead.

        Raises what the store raises.
        """
        await self._read()
        nudged: set[str] = set()
        for task in tasks:
            able = self._workers_for(task, self._newer_elsewhere.get(task, 1))
            random.shuffle(able)
            able.sort(key=lambda worker: worker.held >= worker.concurrency)
            nudged.update(worker.id for worker in able[:MAX_NUDGED])
        if nudged:
            await self._store.nudge(sorted(nudged))

    def _workers_for(self, task: str, version: int = 1) -> list[WorkerInfo]:
        return [worker for worker in self.workers if knows_version(worker, task, version) and not worker.missing]

    async def _read(self, good_for: float | None = None) -> None:
        if monotonic() - self._read_at >= (REGISTRY_MAX_AGE if good_for is None else good_for):
            self.workers, self._read_at = await self._store.workers(), monotonic()

    def _update_skipped(self) -> None:
        skipped = self._known_elsewhere.union(self._newer_elsewhere, self._settings.left_out)
        self.skipped = tuple(sorted(skipped))[:BATCH]


def knows_version(worker: WorkerInfo, task: str, version: int) -> bool:
    """Whether a worker runs this version of a task, or a later one. The registry has versions from 2 on as `task@version`."""
    if version == 1:
        return task in worker.tasks
    later = (name.removeprefix(f"{task}@") for name in worker.tasks if name.startswith(f"{task}@"))
    return any(number.isdecimal() and int(number) >= version for number in later)
