"""Encodes writes, searches and marks of the history as arguments of the operations, and makes rows of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenure.core.measures import (
    ERRORS,
    EVER,
    MARKS,
    RESOLUTIONS,
    ROWS,
    HistoryRow,
    HistorySearch,
    HistoryWrite,
    Mark,
)
from tenure.stores.postgres.records import dumps

__all__ = ["history_row", "mark_arguments", "mark_of", "marks_arguments", "record_arguments", "search_arguments"]

_KEPT_FOR = {**RESOLUTIONS, EVER: float("inf")}
_decode_numbers = msgspec.json.Decoder(dict[str, float]).decode
_decode_label = msgspec.json.Decoder(str).decode


def record_arguments(writes: Sequence[HistoryWrite]) -> list[Any]:
    """The arguments of `record_history` after the time."""
    rows = [
        {
            "queue": _storable(write.queue),
            "task": _storable(write.task),
            "counts": {_storable(name): count for name, count in write.counts.items()},
            "gauges": write.gauges,
        }
        for write in writes
    ]
    return [dumps(rows), list(_KEPT_FOR), list(_KEPT_FOR.values()), ROWS, ERRORS]


def search_arguments(search: HistorySearch) -> list[Any]:
    """The arguments of `find_history` after the time."""
    names = _storable(search.queue), _storable(search.task)
    kept_for = _KEPT_FOR.get(search.resolution, 0.0)
    return [search.resolution, kept_for, search.since, search.until, search.rows, *names]


def history_row(slot: float, queue: str, task: str, counts: str, gauges: str) -> HistoryRow:
    return HistoryRow(slot, queue, task, _decode_numbers(counts), _decode_numbers(gauges))


def mark_arguments(label: str) -> list[Any]:
    """The arguments of `add_mark` after the time."""
    return [dumps(label), MARKS]


def marks_arguments(since: float) -> list[Any]:
    """The arguments of `find_marks`."""
    return [since, MARKS]


def mark_of(at: float, label: str) -> Mark:
    return Mark(at, _decode_label(label))


def _storable(name: str) -> str:
    """A name without NUL, which PostgreSQL refuses."""
    return name.replace("\0", "\ufffd")
