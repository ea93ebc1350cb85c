"""`whole_history`, `queue_history` and `task_history` read the history for a page, and keep it for some seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tenure.core.checks import refused
from tenure.core.measures import EVER, OTHERS, HistoryRow, HistorySearch, HistoryWrite, slot_of, sum_counts
from tenure.jobs.attention import RESOLUTION
from tenure.jobs.history import SPANS as RECORDED
from tenure.jobs.history import History, assembled, coarser, gauges_of, window_of, with_current
from tenure.jobs.snapshot import HOUR, Snapshot
from tenure.stores.values import QueueInfo

if TYPE_CHECKING:
    from tenure.web.page import Address
    from tenure.web.site import Site

__all__ = [
    "SPANS",
    "TaskHistory",
    "hour_of_tasks",
    "known_pairs",
    "queue_history",
    "span_in",
    "task_history",
    "whole_history",
]

SPANS = {"1h": 60, "24h": 1800, "30d": 43200}
"""Spans that a page can show, and seconds of a slot: about 60 slots, so that a page stays light."""

KEPT = 10.0
"""Seconds for which what was read is shown again. Workers write the history as often."""

QUEUES = 10
"""Queues of one task that are read, at most."""


class TaskHistory(NamedTuple):
    """The history of a task in all queues."""

    history: History
    counts: Mapping[str, float]
    """All of it as one row."""

    queues: dict[str, Mapping[str, float]]
    """By queue, likewise; also queues in which the task was seen only earlier."""


def span_in(at: Address) -> str:
    """The span that the address of a page asks for. `InvalidOption` if it is none of `SPANS`."""
    span = at.query.get("span", "1h")
    if span not in SPANS:
        raise refused("span", f"one of {', '.join(SPANS)}", span)
    return span


async def queue_history(site: Site, now: float, queue: QueueInfo, span: str) -> History:
    """The history of a queue over a span: two calls. `now` is the time of the store."""
    return await _history(site, now, queue.name, gauges_of([queue]), span)


async def whole_history(site: Site, snapshot: Snapshot, span: str) -> History:
    """The history of all queues over a span: two calls."""
    current = gauges_of(snapshot.queues, complete=not snapshot.more)
    return await _history(site, snapshot.now, "", current, span)


async def _history(site: Site, now: float, queue: str, current: Sequence[HistoryWrite], span: str) -> History:
    async def read() -> History:
        window = window_of(span, now, SPANS[span])
        search = HistorySearch(resolution=RECORDED[span][0], since=window.since, queue=queue)
        rows = coarser(await site.store.history(search), window.resolution)
        whole = with_current(rows, window.last, current, queue)
        return assembled(queue or None, None, window, whole, await site.store.marks(window.first))

    return await site.recent.get(("queue", queue, span), KEPT, lambda: site.read(read()))


async def task_history(site: Site, now: float, task: str, span: str) -> TaskHistory:
    """The history of a task over a span: a call for each of its queues, and one for the marks."""
    queues = [queue for queue, each in await known_pairs(site) if each == task][:QUEUES]

    async def read() -> TaskHistory:
        window = window_of(span, now, SPANS[span])
        rows: list[HistoryRow] = []
        for queue in queues:
            search = HistorySearch(resolution=RECORDED[span][0], since=window.first, queue=queue, task=task)
            rows += await site.store.history(search)
        by_queue = {queue: sum_counts(row.counts for row in rows if row.queue == queue) for queue in queues}
        history = assembled(None, task, window, coarser(rows, window.resolution), await site.store.marks(window.first))
        return TaskHistory(history, sum_counts(by_queue.values()), dict(by_queue))

    return await site.recent.get(("task", task, span), KEPT, lambda: site.read(read()))


async def known_pairs(site: Site) -> list[tuple[str, str]]:
    """Every queue and task that the history has ever counted together, at most `ROWS`: one call."""
    search = HistorySearch(resolution=EVER, rows="tasks")
    rows = await site.recent.get("pairs", KEPT, lambda: site.read(site.store.history(search)))
    return [(row.queue, row.task) for row in rows if row.task not in {"", OTHERS}]


async def hour_of_tasks(site: Site, now: float) -> list[HistoryRow]:
    """The rows of every queue and task in the last hour, in slots of five minutes: one call."""
    search = HistorySearch(
        resolution=RESOLUTION, since=slot_of(RESOLUTION, now) - (HOUR - 1) * RESOLUTION, rows="tasks"
    )
    rows = await site.recent.get("hour", KEPT, lambda: site.read(site.store.history(search)))
    return [row for row in rows if row.task not in {"", OTHERS}]
