"""`history_of` reads the history in the store as points: rates, lengths, ages, waits and runs over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec

from tenure.core.checks import refused
from tenure.core.measures import (
    HistoryRow,
    HistorySearch,
    HistoryWrite,
    Mark,
    merge_gauges,
    quantile,
    slot_of,
    sum_counts,
)
from tenure.core.schedule import ScheduleSearch
from tenure.stores.base import Store
from tenure.stores.values import QueueInfo, Totals

__all__ = [
    "SPANS",
    "History",
    "HistoryPoint",
    "Window",
    "assembled",
    "checked_span",
    "coarser",
    "gauges_of",
    "history_of",
    "sample",
    "window_of",
    "with_current",
]

SPANS: Mapping[str, tuple[int, float]] = {
    "10m": (10, 600.0),
    "1h": (10, 3600.0),
    "6h": (300, 6 * 3600.0),
    "24h": (300, 86400.0),
    "2d": (300, 2 * 86400.0),
    "7d": (3600, 7 * 86400.0),
    "30d": (3600, 30 * 86400.0),
}
"""Resolution and seconds of each span that can be asked for."""

QUEUES = 100
"""Queues whose lengths and ages are written, the first ones by name. Also how many are read at a time."""

QUEUES_READ = 2000
"""Queues that are read for the sum of all, at most."""

SAMPLE_INTERVAL = 9.5
"""Seconds between two samples of the queues, by one of all processes; a little less than the shortest slot."""

TOTALS = Totals.__struct_fields__
EXACT = ("succeeded", "failed", "retried", "broken", "lost", "cancelled")
"""The counts that are known from totals, whatever workers have counted."""


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One slot of the history. Counts are those of the slot; lengths are those at its end."""

    at: datetime
    """Begin of the slot, in UTC."""

    seconds: float
    """Length of the slot; of the last one, the part that has passed. Then its rate is rough, because workers write what they
    have counted every ten seconds."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    broken: int = 0
    lost: int = 0
    """Leases that ended because their workers died or went silent."""

    cancelled: int = 0
    stale: int = 0
    """Ends that the store refused because the lease was lost."""

    in_line: int | None = None
    """None if no process has looked at the queues in this slot; as for the next four."""

    scheduled: int | None = None
    blocked: int | None = None
    running: int | None = None
    oldest: float | None = None
    """Age in seconds of the oldest job in line, the greatest of the slot."""

    wait: dict[str, float] = {}
    """Seconds from being due to the start, by quantile: `p50`, `p95`, `p99`; empty if nothing was started."""

    run: dict[str, float] = {}
    """Seconds that attempts ran, by quantile; as `wait`."""

    errors: dict[str, int] = {}
    """Attempts that failed, by the type of their error."""

    @property
    def finished(self) -> int:
        """Jobs that became final."""
        return self.succeeded + self.failed + self.broken + self.cancelled

    @property
    def rate(self) -> float:
        """Jobs that became final, a second."""
        return self.finished / self.seconds if self.seconds else 0.0


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What happened over a time, in slots of equal length, and as a whole."""

    queue: str | None
    task: str | None
    resolution: int
    """Seconds of a slot."""

    points: list[HistoryPoint]
    """Oldest first. A slot in which nothing was recorded is there too, empty."""

    total: HistoryPoint
    """The whole time as one slot; lengths are the latest."""

    marks: list[Mark]
    """Deploys and other marks in this time."""


def checked_span(span: object) -> str:
    """The span, if there is such a one; else `InvalidOption`."""
    if not isinstance(span, str) or span not in SPANS:
        raise refused("span", f"one of {', '.join(SPANS)}", span)
    return span


class Window(NamedTuple):
    """The slots of a span that ends now."""

    resolution: int
    """Seconds of a slot."""

    first: float
    """Begin of the first slot, and of the last one, in seconds since the epoch."""

    last: float
    now: float
    """The time of the store."""

    @property
    def since(self) -> float:
        """Begin of the slot before the first one. Its totals are those with which the first one begins."""
        return self.first - self.resolution


def window_of(span: str, now: float, resolution: int | None = None) -> Window:
    """The slots of one of `SPANS`; `now` is the time of the store, which decides what the slots are.

    `resolution`: a multiple of the span's own, for rows that are made `coarser`.
    """
    own, length = SPANS[span]
    each = own if resolution is None else resolution
    return Window(each, slot_of(each, now - length) + each, slot_of(each, now), now)


def coarser(rows: Iterable[HistoryRow], resolution: int) -> list[HistoryRow]:
    """The same rows of one queue or task in longer slots: counts are added, and lengths are those at the end."""
    merged: dict[float, HistoryRow] = {}
    for row in sorted(rows, key=lambda row: row.slot):
        slot = slot_of(resolution, row.slot)
        before = merged.get(slot) or HistoryRow(slot, row.queue, row.task, {})
        counts, gauges = sum_counts([before.counts, row.counts]), merge_gauges(before.gauges, row.gauges)
        merged[slot] = HistoryRow(slot, row.queue, row.task, counts, gauges)
    return list(merged.values())


async def history_of(store: Store, queue: str | None, task: str | None, span: str) -> History:
    """The history of all jobs, of a queue, of a task, or of a task in one queue, over one of `SPANS`."""
    window = window_of(span, (await store.schedules(ScheduleSearch(limit=0))).now)
    rows = await _rows(store, window.resolution, window.since, queue, task)
    if task is None:
        rows = with_current(rows, window.last, await _sampled(store), queue or "")
    return assembled(queue, task, window, rows, await store.marks(window.first))


async def _rows(store: Store, resolution: int, since: float, queue: str | None, task: str | None) -> list[HistoryRow]:
    """One row for each slot; of a task in all queues, the sum of its rows."""
    if queue is None and task is not None:
        found = await store.history(HistorySearch(resolution=resolution, since=since, rows="tasks"))
        return _by_slot([row for row in found if row.task == task])
    return await store.history(HistorySearch(resolution=resolution, since=since, queue=queue or "", task=task or ""))


def with_current(
    rows: Sequence[HistoryRow], last: float, current: Sequence[HistoryWrite], queue: str
) -> list[HistoryRow]:
    """These rows, of which the last has the lengths and totals of this moment."""
    gauges = next((each.gauges for each in current if each.queue == queue), {})
    before = next((row for row in rows if row.slot == last), HistoryRow(last, queue, "", {}))
    newest = HistoryRow(last, queue, "", before.counts, merge_gauges(before.gauges, gauges))
    return [*(row for row in rows if row.slot != last), newest]


def _by_slot(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    """One row for each slot: the sum of the rows of a task in several queues."""
    slots: dict[float, list[HistoryRow]] = {}
    for row in rows:
        slots.setdefault(row.slot, []).append(row)
    return [HistoryRow(slot, "", all_[0].task, sum_counts(row.counts for row in all_)) for slot, all_ in slots.items()]


def assembled(
    queue: str | None, task: str | None, window: Window, rows: Iterable[HistoryRow], marks: list[Mark]
) -> History:
    """The history that these rows make, over the slots of `window`. A row of the slot before is of use too."""
    resolution, first, last, now = window
    by_slot = {row.slot: row for row in rows}
    slots = [first + number * resolution for number in range(-1, int((last - first) // resolution) + 1)]
    each = [by_slot.get(slot) or HistoryRow(slot, "", "", {}) for slot in slots]
    counts = _exact(each)[1:]
    points = [
        _point(row.slot, min(resolution, max(now - row.slot, 1.0)), counted, row.gauges)
        for row, counted in zip(each[1:], counts, strict=True)
    ]
    latest = next((row.gauges for row in reversed(each[1:]) if "in_line" in row.gauges), {})
    total = _point(first, max(now - first, 1.0), sum_counts(counts), latest)
    return History(queue=queue, task=task, resolution=resolution, points=points, total=total, marks=marks)


def _exact(rows: Sequence[HistoryRow]) -> list[dict[str, float]]:
    """The counts of each of these rows, the oldest first.

    Where the totals of a queue are known at the end of two slots, their difference counts, because it misses nothing though
    workers were killed; otherwise what workers have counted does. If no process has looked at the totals at the end of some
    slots, the difference goes first to those, as far as workers have counted it there. What workers wrote
    after the first total of a new store, in the same slot, is part of the next difference: it shows by being more than that.
    """
    counts = [dict(row.counts) for row in rows]
    known: Mapping[str, float] | None = None
    first = 0
    for number, row in enumerate(rows):
        if not any(f"total_{name}" in row.gauges for name in EXACT):
            continue
        for name in EXACT:
            total = row.gauges.get(f"total_{name}", 0)
            if known is None:
                if name in row.counts:
                    counts[number][name] = min(row.counts[name], total)
            elif not _fell(known, row.gauges):
                left = total - known.get(f"total_{name}", 0)
                for between in counts[first:number]:
                    if name in between:
                        between[name] = min(between[name], left)
                        left -= between[name]
                counts[number][name] = left
        known, first = row.gauges, number + 1
    return counts


def _fell(before: Mapping[str, float], later: Mapping[str, float]) -> bool:
    """Whether a queue was forgotten between two looks at the totals, so that their difference says nothing."""
    return any(later.get(name, 0) < before.get(name, 0) for name in ("queues", *(f"total_{name}" for name in EXACT)))


def _point(slot: float, seconds: float, counts: Mapping[str, float], gauges: Mapping[str, float]) -> HistoryPoint:
    def count(name: str) -> int:
        return round(counts.get(name, 0))

    def gauge(name: str) -> int | None:
        return round(gauges[name]) if name in gauges else None

    return HistoryPoint(
        at=datetime.fromtimestamp(slot, UTC),
        seconds=seconds,
        succeeded=count("succeeded"),
        failed=count("failed"),
        retried=count("retried"),
        broken=count("broken"),
        lost=count("lost"),
        cancelled=count("cancelled"),
        stale=count("stale"),
        in_line=gauge("in_line"),
        scheduled=gauge("scheduled"),
        blocked=gauge("blocked"),
        running=gauge("running"),
        oldest=gauges.get("oldest"),
        wait=_quantiles(counts, "wait"),
        run=_quantiles(counts, "run"),
        errors={
            name.removeprefix("error:"): round(number)
            for name, number in sorted(counts.items(), key=lambda each: -each[1])
            if name.startswith("error:")
        },
    )


def _quantiles(counts: Mapping[str, float], what: Literal["wait", "run"]) -> dict[str, float]:
    found = {f"p{share}": quantile(counts, what, share / 100) for share in (50, 95, 99)}
    return {name: value for name, value in found.items() if value is not None}


# Lengths and ages of queues.


async def sample(store: Store) -> list[HistoryWrite]:
    """The lengths and ages of the queues, if no other process has written them in this slot; else nothing."""
    if not await store.claim_chore("history", SAMPLE_INTERVAL):
        return []
    return (await _sampled(store))[: QUEUES + 1]


async def _sampled(store: Store) -> list[HistoryWrite]:
    found: list[QueueInfo] = []
    page = await store.queues(limit=QUEUES)
    while page and len(found) < QUEUES_READ:
        found += page
        page = await store.queues(after=page[-1].name, limit=QUEUES) if len(page) == QUEUES else []
    return gauges_of(found, complete=not page)


def gauges_of(queues: Sequence[QueueInfo], *, complete: bool = True) -> list[HistoryWrite]:
    """What is written about these queues: all together, and each of them.

    All together have totals only if they are `complete`, that is, if there are no other queues.
    """
    each = {queue.name: _gauges(queue) for queue in queues}
    whole = sum_counts([_gauges(QueueInfo(name="")), *each.values()])
    ages = [gauges["oldest"] for gauges in each.values() if "oldest" in gauges]
    if ages:
        whole["oldest"] = max(ages)
    whole["queues"] = len(each)
    if not complete:
        whole = {name: value for name, value in whole.items() if not name.startswith("total_")}
    return [HistoryWrite("", "", {}, whole), *(HistoryWrite(name, "", {}, gauges) for name, gauges in each.items())]


def _gauges(queue: QueueInfo) -> dict[str, float]:
    gauges: dict[str, float] = {
        "in_line": queue.waiting,
        "scheduled": queue.scheduled,
        "blocked": queue.blocked,
        "running": queue.running,
    }
    gauges |= {f"total_{name}": getattr(queue.totals, name) for name in TOTALS}
    if queue.oldest is not None:
        gauges["oldest"] = queue.oldest
    return gauges
