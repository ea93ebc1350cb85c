"""Jobs that have ended, seen before retention removes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from tenure import App
from tenure.core.job import FINAL, JobRecord, State

__all__ = ["Sight", "Sights", "all_jobs"]

LATE = 8.0
"""Seconds by which a job may come to light after the time of its end: whoever ended it was stopped before the commit."""


class Sight(NamedTuple):
    """A final job, and by when, on the clock of the history, it had been read."""

    job: JobRecord
    at: float


class Sights:
    """All jobs that have been seen final, by id, each as it ended last."""

    def __init__(self, app: App) -> None:
        self.all: dict[str, Sight] = {}
        self._app = app
        self._looked_at = 0.0

    def look(self) -> None:
        """Read what has ended since the last look."""
        now = time.time()
        for state in FINAL:
            for job in _jobs(self._app, state):
                if (job.ended_at or 0.0) < self._looked_at - LATE:
                    break
                self._see(job)
        self._looked_at = now

    def _see(self, job: JobRecord) -> None:
        known = self.all.get(job.id)
        if known is None or (known.job.fence, known.job.ended_at) != (job.fence, job.ended_at):
            self.all[job.id] = Sight(job, time.monotonic())


def all_jobs(app: App) -> list[JobRecord]:
    """All jobs that are there now."""
    return list(_jobs(app))


def _jobs(app: App, state: State | None = None) -> Iterator[JobRecord]:
    cursor = None
    while True:
        page = app.jobs(state=state, limit=500, cursor=cursor)
        yield from (job.record for job in page if job.record is not None)
        cursor = page.cursor
        if cursor is None:
            return
