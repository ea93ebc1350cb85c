"""The overview says whether all is well, and if not, where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tenure.jobs.attention import Attention
from tenure.jobs.history import History
from tenure.jobs.snapshot import QueueFigures, Snapshot, Summary, figures_of, summary_of
from tenure.web.charts import Chart, depth_chart, finished_chart, waits_chart
from tenure.web.histories import SPANS, span_in, whole_history
from tenure.web.page import Address, Page, Region

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["overview"]

QUEUES = 50
"""Queues that the overview lists, at most: those that need attention first, then the busiest."""


class AttentionView(msgspec.Struct, frozen=True):
    entries: tuple[Attention, ...]
    empty: bool
    """Whether the store has no queue at all, so that the page says how to begin."""


class TilesView(msgspec.Struct, frozen=True):
    summary: Summary
    releases: tuple[tuple[str, int], ...]
    """Releases of live workers, each with their number."""


class ChartsView(msgspec.Struct, frozen=True):
    span: str
    spans: tuple[str, ...]
    charts: tuple[Chart, ...]


class QueuesView(msgspec.Struct, frozen=True):
    rows: tuple[QueueFigures, ...]
    more: int


async def overview(site: Site, at: Address) -> Page:
    """Attention, figures, charts and queues of the whole store."""
    span = span_in(at)
    snapshot = await site.snapshot()
    history = await whole_history(site, snapshot, span)
    entries = snapshot.attention or ()
    figures = sorted(figures_of(snapshot), key=lambda each: (each.level == "", -each.rate, -each.queue.waiting))
    return Page(
        title=f"({len(entries)}) Overview" if entries else "Overview",
        kind="overview",
        every=2.0,
        regions=(
            Region("attention", "overview/attention.html", AttentionView(entries, not snapshot.queues)),
            Region("tiles", "overview/tiles.html", TilesView(summary_of(snapshot), _releases(snapshot))),
            Region("charts", "overview/charts.html", ChartsView(span, tuple(SPANS), _charts(history))),
            Region(
                "queues",
                "overview/queues.html",
                QueuesView(tuple(figures[:QUEUES]), max(len(figures) - QUEUES, 0)),
            ),
        ),
    )


def _charts(history: History) -> tuple[Chart, ...]:
    return finished_chart(history), waits_chart(history), depth_chart(history)


def _releases(snapshot: Snapshot) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for worker in snapshot.workers:
        if worker.release and not worker.missing:
            found[worker.release] = found.get(worker.release, 0) + 1
    return tuple(sorted(found.items(), key=lambda each: -each[1]))[:3]
