"""An app with schedules, for worker processes that die when they fire and whose clock is wrong.

The environment says where the store is (`FAULTS_URL`), what is declared (`FAULTS_SCHEDULES`, JSON of the arguments of `declare`), by how many
seconds the clock is wrong (`FAULTS_SKEW`), and how likely each fault of a firing is, from 0 to 1 (`FAULTS_CHANCE`).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Sequence
from typing import Any, cast

from tenure import App, Cron, Every, Retention
from tenure.core.schedule import Firing, TickRecord
from tenure.errors import OutcomeUnknown
from tenure.stores import open_store
from tenure.stores.base import Store

KEEP = Retention(succeeded=10 * 365 * 86400, count=1_000_000)


class FaultyStore:
    """Kills its process before or after it has fired, or loses the answer, each with this chance."""

    def __init__(self, store: Store, chance: float) -> None:
        self._store = store
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def fire(self, firings: Sequence[Firing]) -> list[tuple[TickRecord, ...] | None]:
        self._maybe_die()
        answers = await self._store.fire(firings)
        self._maybe_die()
        if random.random() < self._chance:
            raise OutcomeUnknown("the answer of fire was lost")
        return answers

    def _maybe_die(self) -> None:
        if random.random() < self._chance:
            os.kill(os.getpid(), signal.SIGKILL)


def make_app(url: str, chance: float = 0.0) -> App:
    app = App(lambda: cast("Store", FaultyStore(open_store(url), chance)), keep=KEEP)

    @app.task
    def tick() -> None: ...

    return app


def declare(
    app: App, name: str, every: float | None = None, cron: str = "", timezone: str = "UTC", **options: Any
) -> None:
    when = Cron(cron, timezone) if every is None else Every(every)
    app.schedule(name, app.tasks["tick"].bind(), when, **options)


if "FAULTS_SCHEDULES" in os.environ:
    _skew, _true = float(os.environ.get("FAULTS_SKEW") or 0), time.time
    time.time = lambda: _true() + _skew
    app = make_app(os.environ["FAULTS_URL"], float(os.environ.get("FAULTS_CHANCE") or 0))
    for arguments in json.loads(os.environ["FAULTS_SCHEDULES"]):
        declare(app, **arguments)
