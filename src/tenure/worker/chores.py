"""What a worker does beside its jobs, over and over."""

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

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.worker.loop import Loop

__all__ = ["Chore", "Chores"]

Chore = Callable[[], Awaitable[float]]
"""Gives the seconds until it is to be done again."""

EXAMINE_INTERVAL = 86400.0
"""Seconds between looks at the health of the store: disks fill up."""

log = logging.getLogger("tenure.worker")


class Chores(dict[str, Chore]):
    """The chores of one worker, by name; each is a loop of its own, see `Outage.repeat`."""

    def __init__(
        self,
        app: App,
        options: WorkerOptions,
        loop: Loop,
        recycle: Callable[[], None] | None,
        advise: Callable[[str, str], None],
    ) -> None:
        """`advise` is given what should be mended: what it is about, and a sentence."""
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
            self["pruner"] = Pruner(loop.store, app.options, interval, lambda: loop.finished).prune
        else:
            self["queue list"] = loop.queues.refresh  # the reaper looks for new queues too

    async def run_early(self, name: str) -> None:
        """Do one before its time, if it is to be done at all; if it fails, it will be done in time."""
        if name in self:
            try:
                await self[name]()
            except StoreError as error:
                self._loop.outage.failed(name, error, chore=True)
            except Exception:
                log.warning("worker %s: %s failed, it is tried again", self._loop.stem, name, exc_info=True)

    async def _check_limits(self) -> float:
        assert self._recycle is not None
        self._recycle()
        return recycling.INTERVAL

    async def _examine(self) -> float:
        """Tell what is not as it should be with the store."""
        for fact in await self._loop.store.examine():
            if fact.health is not Health.OK:
                self._advise(f"store {fact.name}", f"the store's {fact.name} is {fact.value}: {fact.advice}")
        return EXAMINE_INTERVAL
