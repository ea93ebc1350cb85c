"""`Snapshot`: what was read from the store; `figures_of` and `summary_of` compute what is shown of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tenure.core.job import JobRecord
from tenure.core.measures import HistoryRow, quantile, slot_of, sum_counts
from tenure.jobs.attention import RESOLUTION, Attention, begins_of, slots_of
from tenure.stores.values import QueueInfo, WorkerInfo

__all__ = [
    "HOUR",
    "Figures",
    "Measures",
    "QueueFigures",
    "Snapshot",
    "Summary",
    "figures_of",
    "measures_of",
    "summary_of",
]

HOUR = 12
"""Slots of five minutes in an hour."""

ENDS = ("succeeded", "failed", "cancelled", "broken")
"""Totals of jobs that became final."""

NOTHING: Mapping[str, float] = {}


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """What the history of the last hour says of the queues."""

    waits: dict[str, float] = {}
    """By queue, the seconds that 95 % of the jobs did not exceed from being due to their start, in the last 5 to 10 minutes."""

    wait: float | None = None
    """The same of all queues together."""

    rates: dict[str, float] = {}
    """By queue, jobs that workers finished a second, in the last 5 to 10 minutes."""

    totals: dict[str, dict[str, float]] = {}
    """By queue, its totals of an hour ago."""

    finished: list[float] = []
    """Jobs finished a second in each slot of the last hour, the oldest first."""

    by_slot: dict[str, list[float]] = {}
    """By queue, jobs that workers finished in each slot of the last hour, the oldest first."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What was read last. Everything on the screen is made of this."""

    store: str
    """URL of the store, without its password."""

    layout: int | None = None
    at: float = 0.0
    """Seconds since the epoch, by the clock of this machine."""

    now: float = 0.0
    """The same moment by the clock of the store, which the times of jobs and workers are from."""

    queues: tuple[QueueInfo, ...] = ()
    more: bool = False
    """Whether there are more queues, which were not read."""

    workers: tuple[WorkerInfo, ...] = ()
    rates: dict[str, float] | None = None
    """By queue, jobs that became final a second, as its totals of the last seconds say; None until they were read twice."""

    measures: Measures = Measures()
    attention: tuple[Attention, ...] | None = None
    """None until queues and workers were read; like the next three until they were."""

    running: tuple[JobRecord, ...] | None = None
    running_at: float = 0.0
    """When they were read, by the clock of the store: most of them may have ended since."""

    failed: tuple[JobRecord, ...] | None = None
    jobs: tuple[JobRecord, ...] | None = None
    """Of the queue that is looked into."""

    problem: str = ""
    """Why nothing new is read, as a sentence; empty if all is well."""


class QueueFigures(msgspec.Struct, frozen=True):
    """A queue, as it is shown."""

    queue: QueueInfo
    rate: float
    """Jobs that became final, a second."""

    failed: int
    """Jobs that failed in the last hour."""

    wait: float | None
    """Seconds that 95 % of the jobs waited at most."""

    level: str
    """`warn` or `bad` if it needs attention."""


Figures = tuple[QueueFigures, ...]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The store as a whole, as it is shown."""

    rate: float
    failed_share: float | None
    """Share of failed and broken jobs among those that became final in the last hour; None if none did."""

    wait: float | None
    oldest: float | None
    busy: int
    slots: int
    workers: int
    missing: int
    finished: list[float]


def figures_of(snapshot: Snapshot) -> Figures:
    """What is shown of each queue, in the order of the snapshot."""
    measures, rates = snapshot.measures, snapshot.measures.rates if snapshot.rates is None else snapshot.rates
    levels: dict[str, str] = {}
    for each in snapshot.attention or ():
        if each.queue is not None:
            levels.setdefault(each.queue, each.level.value)  # the bad come first
    return tuple(
        QueueFigures(
            queue,
            rates.get(queue.name, 0.0),
            _since_an_hour("failed", queue, measures),
            measures.waits.get(queue.name),
            levels.get(queue.name, ""),
        )
        for queue in snapshot.queues
    )


def _since_an_hour(total: str, queue: QueueInfo, measures: Measures) -> int:
    before = measures.totals.get(queue.name, NOTHING).get(total)
    return 0 if before is None else max(round(getattr(queue.totals, total) - before), 0)


def summary_of(snapshot: Snapshot) -> Summary:
    """What is shown of the store as a whole."""
    measures, rates = snapshot.measures, snapshot.measures.rates if snapshot.rates is None else snapshot.rates
    ended = {total: sum(_since_an_hour(total, queue, measures) for queue in snapshot.queues) for total in ENDS}
    finished = sum(ended.values())
    ages = [queue.oldest for queue in snapshot.queues if queue.oldest is not None]
    busy, slots = slots_of(snapshot.workers)
    missing = sum(worker.missing for worker in snapshot.workers)
    return Summary(
        rate=sum(rates.values()),
        failed_share=(ended["failed"] + ended["broken"]) / finished if finished else None,
        wait=measures.wait,
        oldest=max(ages, default=None),
        busy=busy,
        slots=slots,
        workers=len(snapshot.workers) - missing,
        missing=missing,
        finished=measures.finished,
    )


def measures_of(rows: Sequence[HistoryRow], now: float) -> Measures:
    """What these rows of queues in the last hour say; `now` is the time of the store."""
    last = slot_of(RESOLUTION, now)
    first = last - (HOUR - 1) * RESOLUTION
    recent: dict[str, list[Mapping[str, float]]] = {}
    finished: dict[float, float] = {}
    by_slot: dict[str, list[float]] = {}
    for row in rows:
        ended = _finished(row.counts)
        finished[row.slot] = finished.get(row.slot, 0.0) + ended
        if first <= row.slot <= last and ended:
            by_slot.setdefault(row.queue, [0.0] * HOUR)[round((row.slot - first) / RESOLUTION)] += ended
        if row.slot >= last - RESOLUTION:
            recent.setdefault(row.queue, []).append(row.counts)
    sums = {queue: sum_counts(counts) for queue, counts in recent.items()}
    waits = {queue: quantile(counts, "wait", 0.95) for queue, counts in sums.items()}
    passed = max(now - last, 1.0)
    # A store whose first rows are younger than that has a shorter time to its name.
    begun = max(last - RESOLUTION, min((row.slot for row in rows), default=last))
    begins = {total: begins_of(total, rows, first) for total in ENDS}
    return Measures(
        waits={queue: wait for queue, wait in waits.items() if wait is not None},
        wait=quantile(sum_counts(sums.values()), "wait", 0.95),
        rates={queue: _finished(counts) / max(now - begun, 1.0) for queue, counts in sums.items()},
        totals={queue: {total: begins[total].get(queue, 0.0) for total in ENDS} for queue in begins["failed"]},
        finished=[
            finished.get(last - ago * RESOLUTION, 0.0) / (RESOLUTION if ago else passed)
            for ago in reversed(range(HOUR))
        ],
        by_slot=by_slot,
    )


def _finished(counts: Mapping[str, float]) -> float:
    return sum(counts.get(end, 0) for end in ("succeeded", "failed", "broken"))
