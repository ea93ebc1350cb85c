"""What charts are drawn of: what came in, distributions, and slots that are merged."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tenure.core.measures import HistoryRow
from tenure.jobs.history import History, HistoryPoint, Window, assembled, coarser, window_of
from tenure.web.charts import came_in_chart, distribution, run_chart

GAUGES = {"scheduled": 0.0, "blocked": 0.0, "running": 0.0}


def history(*points: tuple[int, int | None]) -> History:
    """Slots of ten seconds, each with jobs that ended and jobs in line at its end; None: it was not looked at."""
    found = [
        HistoryPoint(
            at=datetime.fromtimestamp(number * 10, UTC),
            seconds=10.0,
            succeeded=ended,
            in_line=line,
            scheduled=None if line is None else 0,
            blocked=None if line is None else 0,
            running=None if line is None else 0,
        )
        for number, (ended, line) in enumerate(points)
    ]
    return History(queue="mail", task=None, resolution=10, points=found, total=found[-1], marks=[])


def texts(found: History) -> list[str]:
    return [slot.text for slot in came_in_chart(found).slots]


def test_what_came_in_is_what_ended_and_by_how_much_the_line_grew() -> None:
    assert texts(history((10, 5), (10, 25), (40, 5), (0, 0))) == [
        "3.0 a second came in, 1.0 finished",
        "2.0 a second came in, 4.0 finished",
    ], "the first slot has no slot before it, and the last has hardly begun"


def test_what_came_in_is_spread_over_a_short_time_without_a_look_and_unknown_over_a_long_one() -> None:
    assert texts(history((0, 0), (0, None), (10, 10), (0, 10))) == [
        "1.0 a second came in, 0 finished",
        "1.0 a second came in, 1.0 finished",
    ]
    assert texts(history((0, 0), *[(1, None)] * 3, (10, 10), (0, 10))) == []


def test_a_purge_does_not_make_what_came_in_negative() -> None:
    assert texts(history((0, 100), (10, 0), (0, 0))) == ["0 a second came in, 1.0 finished"]


def test_a_distribution_has_a_column_for_each_filled_bucket() -> None:
    found = distribution({"run:-6": 10.0, "run:-3": 5.0, "wait:1": 9.0}, "run", "Run times")
    assert [(each.between, each.number) for each in found.buckets] == [("88ms to 125ms", 10), ("250ms to 354ms", 5)]
    assert found.buckets[0].height > found.buckets[1].height
    assert found.latest == "p50 105ms, p95 297ms"
    empty = distribution({}, "run", "Run times")
    assert (empty.buckets, empty.labels, empty.latest) == ((), (), "–")


def test_a_value_between_two_gaps_is_a_dot() -> None:
    window = Window(10, 0.0, 50.0, 55.0)
    found = assembled("mail", None, window, [HistoryRow(20.0, "mail", "", {"run:-6": 3.0})], [])
    assert all(line.path.endswith("h0") for line in run_chart(found).lines)


@pytest.mark.parametrize(("span", "resolution"), [("1h", 60), ("24h", 1800), ("30d", 43200)])
def test_merged_slots_are_few_and_lose_nothing(span: str, resolution: int) -> None:
    now = 1_700_000_000.0
    fine, coarse = window_of(span, now), window_of(span, now, resolution)
    slots = [
        fine.first + number * fine.resolution for number in range(int((fine.last - fine.first) / fine.resolution) + 1)
    ]
    rows = [
        HistoryRow(slot, "mail", "", {"succeeded": 2.0, "run:-6": 2.0}, {"in_line": float(number), **GAUGES})
        for number, slot in enumerate(slots)
    ]
    found = assembled("mail", None, coarse, coarser(rows, resolution), [])
    assert 48 <= len(found.points) <= 60
    inside = [row for row in rows if row.slot >= coarse.first]
    assert sum(point.succeeded for point in found.points) == 2 * len(inside)
    assert found.points[-1].in_line == len(rows) - 1
    assert found.points[-1].run["p50"] == pytest.approx(0.105, rel=0.01)
