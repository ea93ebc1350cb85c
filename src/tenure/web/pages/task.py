"""One task: how often it runs, how long it waits and runs, and how it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tenure.core.checks import name as checked_name
from tenure.core.job import State
from tenure.core.measures import quantile
from tenure.jobs.attention import Attention
from tenure.jobs.history import HistoryPoint
from tenure.stores.values import Search, WorkerInfo
from tenure.web.charts import Chart, Distribution, distribution, finished_chart, run_chart, waits_chart
from tenure.web.histories import SPANS, TaskHistory, span_in, task_history
from tenure.web.page import Address, Page, Region
from tenure.web.pages.queue import FAILURES, WORKERS, JobsHere, latest_jobs
from tenure.web.task_figures import errors_in

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["task"]


class TaskHead(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    span: str
    total: HistoryPoint
    """The whole span as one slot."""

    failed_share: float | None
    workers: tuple[str, ...]
    """Live workers that know it."""

    more_workers: int
    attention: tuple[Attention, ...]
    known: bool
    """Whether a live worker or the history knows it."""


class TaskCharts(msgspec.Struct, frozen=True):
    span: str
    spans: tuple[str, ...]
    charts: tuple[Chart, ...]
    runs: Distribution


class QueueOfTask(msgspec.Struct, frozen=True):
    """A queue in which the task has run."""

    name: str
    finished: int
    failed: int
    run: float | None
    wait: float | None


class TaskDetail(msgspec.Struct, frozen=True):
    task: str
    span: str
    errors: tuple[tuple[str, int], ...]
    queues: tuple[QueueOfTask, ...]


async def task(site: Site, at: Address) -> Page:
    """The task with this name, whether or not anything is known of it."""
    name, span = checked_name("task", at.names["name"]), span_in(at)
    snapshot = await site.snapshot()
    found = await task_history(site, snapshot.now, name, span)
    failed = await latest_jobs(site, Search(state=State.FAILED, task=name), FAILURES)
    attention = tuple(each for each in snapshot.attention or () if each.task == name)
    charts = finished_chart(found.history), waits_chart(found.history), run_chart(found.history)
    runs = distribution(found.counts, "run", "Run times by length")
    return Page(
        title=name,
        kind="task",
        every=2.0,
        regions=(
            Region("head", "places/task_head.html", _head(name, span, found, snapshot.workers, attention)),
            Region("charts", "places/task_charts.html", TaskCharts(span, tuple(SPANS), charts, runs)),
            Region("detail", "places/task_detail.html", _detail(name, span, found)),
            Region(
                "failures",
                "places/jobs_here.html",
                JobsHere(
                    "Latest failures",
                    failed,
                    {"state": "failed", "task": name},
                    "None of the latest failed jobs is one of this task.",
                    with_queue=True,
                ),
            ),
        ),
    )


def _head(
    name: str, span: str, found: TaskHistory, workers: tuple[WorkerInfo, ...], attention: tuple[Attention, ...]
) -> TaskHead:
    live = [worker.id for worker in workers if name in worker.tasks and not worker.missing]
    total = found.history.total
    return TaskHead(
        name=name,
        span=span,
        total=total,
        failed_share=(total.failed + total.broken) / total.finished if total.finished else None,
        workers=tuple(live[:WORKERS]),
        more_workers=max(len(live) - WORKERS, 0),
        attention=attention,
        known=bool(live or found.queues),
    )


def _detail(name: str, span: str, found: TaskHistory) -> TaskDetail:
    queues = tuple(
        QueueOfTask(
            queue,
            round(sum(counts.get(end, 0) for end in ("succeeded", "failed", "broken"))),
            round(counts.get("failed", 0) + counts.get("broken", 0)),
            quantile(counts, "run", 0.95),
            quantile(counts, "wait", 0.95),
        )
        for queue, counts in found.queues.items()
    )
    return TaskDetail(name, span, errors_in(found.counts), queues)
