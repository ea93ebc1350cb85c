"""`Measures`: the history and the marks of the model."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core.measures import MARKS, RESOLUTIONS, HistoryRow, HistorySearch, HistoryWrite, Mark
from tenure.testing.model.data import ModelData

__all__ = ["Measures"]


class Measures(ModelData):
    """Data with a history, which is added up when it is read. The model has no bound of rows and of types of errors."""

    def record_history(self, writes: Sequence[HistoryWrite]) -> None:
        self.written += [(self.now, write) for write in writes]

    def history(self, search: HistorySearch) -> list[HistoryRow]:
        rows: dict[tuple[float, str, str], HistoryRow] = {}
        for at, write in self.written:
            slot = at - at % search.resolution if search.resolution else 0.0
            kept = search.resolution == 0 or slot > self.now - RESOLUTIONS[search.resolution]
            if not kept or not search.since <= slot < search.until or not self._matches(write, search):
                continue
            row = rows.setdefault((slot, write.queue, write.task), HistoryRow(slot, write.queue, write.task, {}, {}))
            for name, number in write.counts.items():
                row.counts[name] = row.counts.get(name, 0) + number
            for name, value in write.gauges.items():
                row.gauges[name] = max(value, row.gauges.get(name, value)) if name == "oldest" else value
        return [rows[key] for key in sorted(rows)]

    def _matches(self, write: HistoryWrite, search: HistorySearch) -> bool:
        match search.rows:
            case "queues":
                return bool(write.queue and not write.task)
            case "tasks":
                return bool(write.task)
            case _:
                return (write.queue, write.task) == (search.queue, search.task)

    def mark(self, label: str) -> None:
        self.marks = [*self.marks, Mark(self.now, label)][-MARKS:]
