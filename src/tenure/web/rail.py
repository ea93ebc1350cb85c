"""`rail_of` makes the rail: a link to each page of the dashboard, some with a count."""

from __future__ import annotations

import msgspec

from tenure.jobs.snapshot import Snapshot
from tenure.web.pages import PAGES

__all__ = ["RailEntry", "rail_of"]

PLACES = (
    ("Overview", "/", ("overview",)),
    ("Jobs", "/jobs", ("jobs", "job")),
    ("Flows", "/flows", ("flows", "flow", "run")),
    ("Queues", "/queues", ("queues", "queue")),
    ("Tasks", "/tasks", ("tasks", "task")),
    ("Workers", "/workers", ("workers", "worker")),
    ("Failed", "/failed", ("failed",)),
    ("Broken", "/broken", ("broken",)),
    ("Schedules", "/schedules", ("schedules", "schedule")),
    ("Events", "/events", ("events",)),
    ("Audit", "/audit", ("audit",)),
    ("Health", "/health", ("health",)),
)
"""Label, path and kinds of pages of each entry, in order. An entry whose path is not in `PAGES` is left out."""


class RailEntry(msgspec.Struct, frozen=True):
    """One link of the rail."""

    label: str
    path: str
    kinds: tuple[str, ...]
    """Kinds of the pages on which it is marked as the current one."""

    count: int = 0
    """0: none is shown."""

    state: str = ""
    """What is counted, which decides the colour of the count."""

    unit: str = ""
    """What is counted, as a word for screen readers."""


def rail_of(snapshot: Snapshot | None) -> tuple[RailEntry, ...]:
    """The entries of the rail; None: the store has not been read, so there are no counts."""
    counts = {} if snapshot is None else _counts(snapshot)
    return tuple(
        RailEntry(label, path, kinds, *counts.get(label, ())) for label, path, kinds in PLACES if path in PAGES
    )


def _counts(snapshot: Snapshot) -> dict[str, tuple[int, str, str]]:
    return {
        "Workers": (sum(worker.missing for worker in snapshot.workers), "missing", "missing"),
        "Failed": (sum(queue.failed for queue in snapshot.queues), "failed", "jobs"),
        "Broken": (sum(queue.broken for queue in snapshot.queues), "broken", "jobs"),
    }
