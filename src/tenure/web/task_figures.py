"""`figures_by_task` sums rows of the history to what is shown of each task: rate, failures, run times, errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tenure.core.measures import HistoryRow, quantile, slot_of, sum_counts
from tenure.jobs.attention import RESOLUTION
from tenure.jobs.snapshot import HOUR
from tenure.web.charts import Column, spark

__all__ = ["TaskFigures", "errors_in", "figures_by_task"]


class TaskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A task, as it is shown."""

    name: str
    rate: float = 0.0
    """Jobs finished a second, in the last 5 to 10 minutes."""

    finished: int = 0
    """Jobs that ended in the last hour, like the next seven."""

    failed: int = 0
    retried: int = 0
    failed_share: float | None = None
    """Share of failed and broken jobs among those that ended; None if none did."""

    run50: float | None = None
    run95: float | None = None
    wait50: float | None = None
    wait95: float | None = None
    errors: tuple[tuple[str, int], ...] = ()
    """Attempts that failed by the type of their error, the most common first."""

    spark: tuple[Column, ...] = ()
    """Jobs finished in each five minutes of the last hour."""


def figures_by_task(rows: Iterable[HistoryRow], now: float) -> dict[str, TaskFigures]:
    """What these rows of the last hour, in slots of five minutes, say of each task. `now` is the time of the store."""
    by_task: dict[str, list[HistoryRow]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row)
    return {task: _figures(task, each, now) for task, each in sorted(by_task.items())}


def _figures(task: str, rows: Sequence[HistoryRow], now: float) -> TaskFigures:
    last = slot_of(RESOLUTION, now)
    slots = [last - ago * RESOLUTION for ago in reversed(range(HOUR))]
    finished = dict.fromkeys(slots, 0.0)
    for row in rows:
        if row.slot in finished:
            finished[row.slot] += _ended(row.counts)
    counts = sum_counts(row.counts for row in rows)
    ended, failed = _ended(counts), counts.get("failed", 0) + counts.get("broken", 0)
    # A task whose first rows are younger than that has a shorter time to its name.
    begun = max(slots[-2], min(row.slot for row in rows))
    return TaskFigures(
        name=task,
        rate=(finished[slots[-2]] + finished[last]) / max(now - begun, 1.0),
        finished=round(ended),
        failed=round(failed),
        retried=round(counts.get("retried", 0)),
        failed_share=failed / ended if ended else None,
        run50=quantile(counts, "run", 0.5),
        run95=quantile(counts, "run", 0.95),
        wait50=quantile(counts, "wait", 0.5),
        wait95=quantile(counts, "wait", 0.95),
        errors=errors_in(counts),
        spark=spark(list(finished.values())),
    )


def errors_in(counts: Mapping[str, float]) -> tuple[tuple[str, int], ...]:
    """The types of errors in the counts of a row, the most common first."""
    found = [(name.removeprefix("error:"), round(n)) for name, n in counts.items() if name.startswith("error:")]
    return tuple(sorted(found, key=lambda each: (-each[1], each[0])))


def _ended(counts: Mapping[str, float]) -> float:
    return sum(counts.get(end, 0) for end in ("succeeded", "failed", "broken"))
