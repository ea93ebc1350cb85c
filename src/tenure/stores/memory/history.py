"""The history of measures: adds to its rows, reads them, and remembers marks."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core.measures import (
    EVER,
    MARKS,
    OTHERS,
    RESOLUTIONS,
    ROWS,
    HistoryRow,
    HistorySearch,
    HistoryWrite,
    Mark,
    merge_counts,
    merge_gauges,
    slot_of,
)
from tenure.stores.memory.data import Data

__all__ = ["mark", "marks", "record_history", "search"]


def record_history(data: Data, writes: Sequence[HistoryWrite]) -> None:
    """Add to the rows of the current slots, and drop the slots that are no longer kept."""
    now = data.clock.wall()
    for resolution in (*RESOLUTIONS, EVER):
        slot = slot_of(resolution, now)
        rows = data.history.setdefault((resolution, slot), {})
        for write in writes:
            _add(rows, slot, write)
    data.history = {key: rows for key, rows in data.history.items() if _kept(*key, now)}


def _add(rows: dict[tuple[str, str], HistoryRow], slot: float, write: HistoryWrite) -> None:
    key, gauges = (write.queue, write.task), write.gauges
    if key not in rows and len(rows) >= ROWS:
        key, gauges = (OTHERS, OTHERS), {}
    before = rows.get(key) or HistoryRow(slot, *key, {})
    rows[key] = HistoryRow(slot, *key, merge_counts(before.counts, write.counts), merge_gauges(before.gauges, gauges))


def _kept(resolution: int, slot: float, now: float) -> bool:
    return resolution == EVER or slot > now - RESOLUTIONS[resolution]


def search(data: Data, wanted: HistorySearch) -> list[HistoryRow]:
    """The rows of a search, by slot, queue and task."""
    now = data.clock.wall()
    found = [
        row
        for (resolution, slot), rows in data.history.items()
        if resolution == wanted.resolution and wanted.since <= slot < wanted.until and _kept(resolution, slot, now)
        for row in rows.values()
        if _matches(row, wanted)
    ]
    return sorted(found, key=lambda row: (row.slot, row.queue, row.task))


def _matches(row: HistoryRow, wanted: HistorySearch) -> bool:
    match wanted.rows:
        case "one":
            return (row.queue, row.task) == (wanted.queue, wanted.task)
        case "queues":
            return row.queue != "" and row.task == ""
        case "tasks":
            return row.task != ""


def mark(data: Data, label: str) -> None:
    """Remember this moment."""
    data.marks = [*data.marks, Mark(data.clock.wall(), label)][-MARKS:]


def marks(data: Data, since: float) -> list[Mark]:
    """The marks from a time on."""
    return [each for each in data.marks if each.at >= since]
