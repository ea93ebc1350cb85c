"""The history of measures: adds to its rows, reads them, and remembers marks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

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
from tenure.stores.base import BATCH
from tenure.stores.sqlite.bulk_insert import BulkInsert
from tenure.stores.sqlite.rows import dumps
from tenure.stores.sqlite.transaction import Row, Transaction

__all__ = ["mark", "marks", "record_history", "search"]

_Key = tuple[str, str]
"""Queue and task."""

_numbers = msgspec.json.Decoder(dict[str, float]).decode
_rows = BulkInsert("write_measures", 6)


class _Measures(NamedTuple):
    """The numbers of one row."""

    counts: dict[str, float]
    gauges: dict[str, float]


def record_history(tx: Transaction, writes: Sequence[HistoryWrite]) -> None:
    """Add to the rows of the current slots, and delete slots that are no longer kept.

    The numbers of a row are merged here, not by SQL, because SQLite does not write every REAL to JSON exactly.
    """
    slots = [(resolution, slot_of(resolution, tx.wall)) for resolution in (*RESOLUTIONS, EVER)]
    stored: list[dict[_Key, _Measures]] = [{} for _ in slots]
    wanted = {(write.queue, write.task) for write in writes} | {(OTHERS, OTHERS)}
    for at, queue, task, counts, gauges in tx.array("measures_to_merge", dumps(slots), dumps(wanted)):
        stored[at][queue, task] = _Measures(_numbers(counts), _numbers(gauges))
    numbers = tx.array("count_measures", dumps(slots))
    _rows.insert(
        tx,
        [
            (*slot, *key, dumps(row.counts), dumps(row.gauges))
            for slot, before, number in zip(slots, stored, numbers, strict=True)
            for key, row in _merge(before, number, writes).items()
        ],
    )
    for resolution, kept in RESOLUTIONS.items():
        tx.run("delete_old_measures", resolution, tx.wall - kept, BATCH)


def _merge(stored: Mapping[_Key, _Measures], number: int, writes: Sequence[HistoryWrite]) -> dict[_Key, _Measures]:
    """The rows of a slot that these writes change. It has `number` rows, of which `stored` are those that may change."""
    changed: dict[_Key, _Measures] = {}
    for write in writes:
        key, gauges = (write.queue, write.task), write.gauges
        before = changed.get(key) or stored.get(key)
        if before is None and number >= ROWS:
            key, gauges = (OTHERS, OTHERS), {}
            before = changed.get(key) or stored.get(key)
        if before is None:
            before = _Measures({}, {})
            number += 1
        changed[key] = _Measures(merge_counts(before.counts, write.counts), merge_gauges(before.gauges, gauges))
    return changed


def search(tx: Transaction, wanted: HistorySearch) -> list[HistoryRow]:
    """The rows of a search, by slot, queue and task."""
    since = wanted.since
    if wanted.resolution in RESOLUTIONS:
        # A slot is no longer kept at the end of that time, so the bound is the next float.
        since = max(since, math.nextafter(tx.wall - RESOLUTIONS[wanted.resolution], math.inf))
    values = (wanted.resolution, since, wanted.until)
    match wanted.rows:
        case "one":
            found = tx.all("measures_of_one", *values, wanted.queue, wanted.task)
        case "queues":
            found = tx.all("measures_of_queues", *values)
        case "tasks":
            found = tx.all("measures_of_tasks", *values)
    return [_row(row) for row in found]


def _row(row: Row) -> HistoryRow:
    slot, queue, task, counts, gauges = row
    return HistoryRow(slot, queue, task, _numbers(counts), _numbers(gauges))


def mark(tx: Transaction, label: str) -> None:
    """Remember this moment."""
    tx.run("add_mark", tx.wall, label)
    tx.run("delete_old_marks", MARKS)


def marks(tx: Transaction, since: float) -> list[Mark]:
    """The marks from a time on."""
    return [Mark(at, label) for at, label in tx.all("list_marks", since)]
