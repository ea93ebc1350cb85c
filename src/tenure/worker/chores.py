"""`Chores`: what a worker does periodically beside running jobs (reap, prune, examine the store, …)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tenure.core.checks import seconds
from tenure.core.options import WorkerOptions
from tenure.errors import StoreError
from tenure.stores.values import Health
from tenure.worker import recycling
from tenure.worker.pruner import Pruner
from tenure.worker.reaper import Reaper
from tenure.worker.registry_pruner import RegistryPruner
from tenure.worker.scheduler import Scheduler

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.worker.loop import Loop

__all__ = ["Chore", "Chores"]

Chore = Callable[[], Awaitable[float]]
"""Does the chore once and returns the seconds until the next time."""

EXAMINE_INTERVAL = 86400.0
"""Seconds between examinations of the store: a disk may fill up."""

log = logging.getLogger("tenure.worker")


class Chores(dict[str, Chore]):
    """The chores of one worker, by name. `Outage.repeat` runs each in its own task."""

    def __init__(
        self,
        app: App,
        options: WorkerOptions,
        loop: Loop,
        recycle: Callable[[], None] | None,
        advise: Callable[[str, str], None],
    ) -> None:
        """`advise` is called with a problem that the operator should fix: a key, and a sentence for the log."""
        self._loop = loop
        self._advise = advise
        self._recycle = recycle
        super().__init__(
            {"inbox": loop.inbox.take_in, "examination": self._examine, "list of workers": loop.peers.refresh}
        )
        if recycle is not None:
            self["recycling"] = self._check_limits
        if options.reap:
            interval = seconds(options.prune_interval, "prune_interval")
            self["registry"] = RegistryPruner(loop.store, lambda: loop.queues.patterns, interval).prune
            self["reaper"] = Reaper(loop.store, loop.queues).reap
            self["schedules"] = Scheduler(app, loop.store).fire
            self["pruner"] = Pruner(loop.store, app.options, interval, lambda: loop.finished).prune
        else:
            self["queue list"] = loop.queues.refresh  # with a reaper this is not needed: it looks for new queues too
        self.update(loop.sources.chores())

    async def run_early(self, name: str) -> None:
        """Do one chore now, if this worker has it. If it fails it is only logged: its own task will do it again."""
        if name in self:
            try:
                await self[name]()
            except StoreError as error:
                self._loop.outage.failed(name, error, chore=True)
            except Exception:
                log.warning("worker %s: %s failed and will be tried again", self._loop.stem, name, exc_info=True)

    async def _check_limits(self) -> float:
        assert self._recycle is not None
        self._recycle()
        return recycling.INTERVAL

    async def _examine(self) -> float:
        """Report what is wrong with the store."""
        for fact in await self._loop.store.examine():
            if fact.health is not Health.OK:
                self._advise(f"store {fact.name}", f"the store's {fact.name}: {fact.value}; {fact.advice}")
        return EXAMINE_INTERVAL
