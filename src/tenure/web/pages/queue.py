"""One queue: how long its line is, who serves it, how it goes, and what fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tenure.core.checks import name as checked_name
from tenure.core.job import State
from tenure.jobs.attention import Attention, Fleet
from tenure.jobs.snapshot import Snapshot
from tenure.stores.values import QueueInfo, Search
from tenure.web.charts import Chart, came_in_chart, run_chart, waits_chart
from tenure.web.histories import SPANS, hour_of_tasks, queue_history, span_in
from tenure.web.page import Address, Page, Region
from tenure.web.pages.jobs import BRIEF, LOOK, JobRow, row_of
from tenure.web.task_figures import TaskFigures, errors_in, figures_by_task

if TYPE_CHECKING:
    from tenure.core.measures import HistoryRow
    from tenure.web.site import Site

__all__ = ["latest_jobs", "queue"]

NEXT, FAILURES = 5, 10
"""Jobs next in line, and latest failures, that are shown."""

WORKERS = 12
"""Workers that are named, at most."""

KEPT = 5.0
"""Seconds for which lists of jobs are shown again."""


class QueueHead(msgspec.Struct, frozen=True, kw_only=True):
    queue: QueueInfo
    workers: tuple[str, ...]
    """Live workers that serve it."""

    more_workers: int
    attention: tuple[Attention, ...]


class PlaceCharts(msgspec.Struct, frozen=True):
    span: str
    spans: tuple[str, ...]
    charts: tuple[Chart, ...]


class TasksHere(msgspec.Struct, frozen=True):
    queue: str
    tasks: tuple[TaskFigures, ...]
    errors: tuple[tuple[str, int], ...]


class JobsHere(msgspec.Struct, frozen=True):
    heading: str
    rows: tuple[JobRow, ...]
    all: dict[str, str]
    """Query of the listing that has all of them."""

    none: str
    """What is said if there are none."""

    with_queue: bool = False
    """Whether the rows name the queue instead of the task."""


async def queue(site: Site, at: Address) -> Page:
    """The queue with this name."""
    name, span = checked_name("queue", at.names["name"]), span_in(at)
    snapshot = await site.snapshot()
    info = await _queue_named(site, name)
    if info is None:
        return Page(
            title="No such queue", kind="queue", regions=(Region("head", "places/no_queue.html", name),), status=404
        )
    history = await queue_history(site, snapshot.now, info, span)
    rows = [row for row in await hour_of_tasks(site, snapshot.now) if row.queue == name]
    charts = came_in_chart(history), waits_chart(history), run_chart(history)
    line = Search(state=State.WAITING, scheduled=False, queue=name)
    failed = Search(state=State.FAILED, queue=name)
    return Page(
        title=f"{name} ({info.waiting:,} in line)",
        kind="queue",
        every=1.5,
        regions=(
            Region("head", "places/queue_head.html", _head(info, snapshot)),
            Region("charts", "places/charts.html", PlaceCharts(span, tuple(SPANS), charts)),
            Region("tasks", "places/tasks_here.html", _tasks(name, rows, snapshot.now)),
            Region(
                "line",
                "places/jobs_here.html",
                JobsHere(
                    "Next in line",
                    await latest_jobs(site, line, NEXT),
                    {"state": "waiting", "queue": name},
                    "No job is in line.",
                ),
            ),
            Region(
                "failures",
                "places/jobs_here.html",
                JobsHere(
                    "Latest failures",
                    await latest_jobs(site, failed, FAILURES),
                    {"state": "failed", "queue": name},
                    "No failed job is kept.",
                ),
            ),
        ),
    )


async def _queue_named(site: Site, name: str) -> QueueInfo | None:
    """The queue with this name, by one call; it need not be among those of the snapshot."""
    # Names are ASCII, so every one that comes before `name` also comes before this text, or is equal to it.
    before = name[:-1] + chr(ord(name[-1]) - 1) + "\x7f"
    found = await site.read(site.store.queues(after=before, limit=1))
    return found[0] if found and found[0].name == name else None


async def latest_jobs(site: Site, search: Search, limit: int) -> tuple[JobRow, ...]:
    """The first jobs that a search finds in one call, as rows; kept for some seconds."""
    wanted = msgspec.structs.replace(search, limit=limit, look=LOOK, brief=BRIEF)
    page = await site.recent.get(wanted, KEPT, lambda: site.read(site.store.search(wanted)))
    return tuple(row_of(job, site.show, site.naming(job.task)) for job in page.jobs)


def _head(info: QueueInfo, snapshot: Snapshot) -> QueueHead:
    live = [worker.id for worker in Fleet(snapshot.workers).live(info.name)]
    return QueueHead(
        queue=info,
        workers=tuple(live[:WORKERS]),
        more_workers=max(len(live) - WORKERS, 0),
        attention=tuple(each for each in snapshot.attention or () if each.queue == info.name),
    )


def _tasks(queue: str, rows: list[HistoryRow], now: float) -> TasksHere:
    figures = sorted(figures_by_task(rows, now).values(), key=lambda each: (-each.finished, each.name))
    errors: dict[str, float] = {}
    for row in rows:
        for error, number in errors_in(row.counts):
            errors[f"error:{error}"] = errors.get(f"error:{error}", 0) + number
    return TasksHere(queue, tuple(figures), errors_in(errors))
