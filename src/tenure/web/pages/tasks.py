"""The tasks: how often each runs, how long, and how often it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tenure.jobs.snapshot import Snapshot
from tenure.web.histories import hour_of_tasks, known_pairs
from tenure.web.page import Address, Page, Region
from tenure.web.paging import Pager, paged
from tenure.web.task_figures import TaskFigures, figures_by_task

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["tasks"]

ERRORS = 2
"""Types of errors that a row names."""


class TaskRow(msgspec.Struct, frozen=True):
    figures: TaskFigures
    errors: tuple[tuple[str, int], ...]
    more_errors: int
    workers: int
    """Live workers that know the task."""

    level: str
    """`warn` or `bad` if it needs attention."""


class TasksView(msgspec.Struct, frozen=True):
    rows: tuple[TaskRow, ...]
    pager: Pager
    number: int


async def tasks(site: Site, at: Address) -> Page:
    """Every task that a live worker knows or the history has; those that need attention first, then those that ran lately."""
    snapshot = await site.snapshot()
    figures = figures_by_task(await hour_of_tasks(site, snapshot.now), snapshot.now)
    known = _known_by(snapshot)
    levels = {each.task: each.level.value for each in snapshot.attention or () if each.task is not None}
    names = {*figures, *known, *(task for _, task in await known_pairs(site))}
    ordered = sorted(names, key=lambda name: (name not in levels, name not in figures, name))
    shown, pager = paged(ordered, at)
    rows = tuple(
        _row(figures.get(name) or TaskFigures(name=name), known.get(name, 0), levels.get(name, "")) for name in shown
    )
    view = TasksView(rows, pager, len(ordered))
    return Page(title="Tasks", kind="tasks", every=2.0, regions=(Region("tasks", "places/tasks.html", view),))


def _known_by(snapshot: Snapshot) -> dict[str, int]:
    """By task, how many live workers know it."""
    found: dict[str, int] = {}
    for worker in snapshot.workers:
        if not worker.missing:
            for task in worker.tasks:
                found[task] = found.get(task, 0) + 1
    return found


def _row(figures: TaskFigures, workers: int, level: str) -> TaskRow:
    return TaskRow(figures, figures.errors[:ERRORS], max(len(figures.errors) - ERRORS, 0), workers, level)
