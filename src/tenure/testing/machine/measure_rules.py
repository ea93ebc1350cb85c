"""`MeasureRules`: calls that write and read the history and its marks."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tenure.core.measures import EVER, RESOLUTIONS, HistorySearch, HistoryWrite
from tenure.testing.machine.builders import Builders
from tenure.testing.machine.strategies import QUEUES, TASKS

__all__ = ["MeasureRules"]

PAIRS = (("", ""), (QUEUES[0], ""), (QUEUES[1], ""), (QUEUES[0], TASKS[0]), (QUEUES[1], TASKS[0]))

counts = st.dictionaries(
    st.sampled_from(["succeeded", "failed", "run:-3", "run", "error:E"]), st.sampled_from([1.0, 2.0, 0.5]), max_size=3
)
gauges = st.dictionaries(st.sampled_from(["in_line", "oldest", "total_failed"]), st.sampled_from([0.0, 3.0, 7.5]))


@st.composite
def writes(draw: st.DrawFn) -> HistoryWrite:
    queue, task = draw(st.sampled_from(PAIRS))
    return HistoryWrite(queue, task, draw(counts), {} if task else draw(gauges))


class MeasureRules(Builders):
    """A machine that writes to the history, and compares all of it after that."""

    @rule(written=st.lists(writes(), max_size=4), label=st.sampled_from(["", "", "v1", "v2"]), ago=st.integers(0, 2))
    def measure(self, written: list[HistoryWrite], label: str, ago: int) -> None:
        self.model.record_history(written)
        assert self.ask(lambda store: store.record_history(written)) is None
        if label:
            self.model.mark(label)
            assert self.ask(lambda store: store.mark(label)) is None
        for resolution in (*RESOLUTIONS, EVER):
            since = max(self.clock.wall() - resolution * ago, 0.0) if resolution and ago else 0.0
            for search in (
                *(
                    HistorySearch(resolution=resolution, since=since, queue=queue, task=task)
                    for queue, task in PAIRS[:4]
                ),
                HistorySearch(resolution=resolution, since=since, rows="queues"),
                HistorySearch(resolution=resolution, until=since, rows="tasks"),
                HistorySearch(resolution=resolution, rows="tasks"),
            ):
                self._read(search)
        marks = [(round(mark.at, 2), mark.label) for mark in self.model.marks]
        found = self.ask(lambda store: store.marks(), lambda each: [(round(mark.at, 2), mark.label) for mark in each])
        assert found == marks, f"{found}, not {marks}"

    def _read(self, search: HistorySearch) -> None:
        expected = self.model.history(search)
        for name, rows in self.ask_each(lambda _, store: store.history(search)).items():
            assert rows == expected, f"{search} of {name}: {rows}, not {expected}"
