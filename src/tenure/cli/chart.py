"""`drawn` draws a history for people: bars of the rate, lines of what else there was, and a summary below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from tenure.cli.display import duration, text

if TYPE_CHECKING:
    from rich.text import Text

    from tenure.jobs.history import History, HistoryPoint

__all__ = ["drawn"]

MARGIN = 8
"""Columns to the left of a chart, for its numbers."""

HEIGHT = 5
"""Rows of the chart of the rate."""

LISTED = 5
"""Errors and marks that are listed, at most."""

EIGHTHS = " ▁▂▃▄▅▆▇█"
PER = ((1, "second"), (60, "minute"), (3600, "hour"))


class Column(NamedTuple):
    """The slots that share one column of a chart."""

    begin: datetime
    points: Sequence[HistoryPoint]

    @property
    def rate(self) -> float:
        """Jobs that ended, a second."""
        return sum(point.finished for point in self.points) / sum(point.seconds for point in self.points)

    @property
    def failed(self) -> float:
        return sum(point.failed + point.broken for point in self.points)

    def most(self, gauge: str) -> float | None:
        """The greatest value; None if none is known."""
        return max((value for point in self.points if (value := getattr(point, gauge)) is not None), default=None)


def drawn(history: History, width: int) -> Iterator[Text]:
    """The lines of a picture that is at most `width` columns wide."""
    points, total = history.points, history.total
    room = max(width - MARGIN, 10)
    columns = _columns(points, room)
    wide = max(room // len(columns), 1)
    end = points[-1].at + timedelta(seconds=points[-1].seconds)
    days = (end - points[0].at).total_seconds() > 86400

    yield text(_title(history), "bold").append(f"   {_clock(points[0].at, days)} to {_clock(end, days)}", "dim")
    yield text("")
    yield from _rate(columns, wide, total)
    yield from _line(
        "failed", [column.failed for column in columns], wide, "red", _count, f"{total.failed + total.broken:,} in all"
    )
    for name, gauge, style, shown in (("in line", "in_line", "cyan", _count), ("oldest", "oldest", "yellow", _span)):
        values = [column.most(gauge) for column in columns]
        if any(value is not None for value in values):
            now = getattr(total, gauge)
            yield from _line(name, values, wide, style, shown, f"now {shown(now)}" if now is not None else "now none")
    yield from _axis(columns, wide, days)
    if history.marks:
        yield _markers(history, columns, wide)
    yield text("")
    yield from _summary(history, width, days)


def _columns(points: Sequence[HistoryPoint], room: int) -> list[Column]:
    """The slots in as many columns as there is room for.

    The last slot, which is not over, shares one with the slot before: what ended earlier may have been written in it.
    """
    over = len(points) - 1
    number = min(over, room)
    parts = [points[over * at // number : over * (at + 1) // number] for at in range(number)]
    parts[-1] = [*parts[-1], points[-1]]
    return [Column(part[0].at, part) for part in parts]


def _title(history: History) -> str:
    queue = "all queues" if history.queue is None else f"queue {history.queue}"
    return queue if history.task is None else f"task {history.task} in {queue}"


def _rate(columns: Sequence[Column], wide: int, total: HistoryPoint) -> Iterator[Text]:
    """Bars of the jobs that ended, in the shortest unit of time in which at least one did."""
    rates = [column.rate for column in columns]
    most = max(rates)
    seconds, unit = next((each for each in PER if most * each[0] >= 1), PER[-1])
    yield text(f"{'jobs':>{MARGIN - 1}} ", "bold").append(
        f" ended a {unit}: most {_count(most * seconds)}, mean {_count(total.rate * seconds)}, {total.finished:,} in all",
        "dim",
    )
    for row in reversed(range(HEIGHT)):
        label = _count(most * seconds) if row == HEIGHT - 1 else "0" if row == 0 else ""
        yield _row(label, [_block(rate, most, row, HEIGHT) for rate in rates], wide, "green")


def _line(
    name: str, values: Sequence[float | None], wide: int, style: str, shown: Callable[[float], str], remark: str
) -> Iterator[Text]:
    """One row of bars, with its greatest value on the left."""
    most = max((value for value in values if value is not None), default=0.0)
    yield text(f"{name:>{MARGIN - 1}} ", "bold").append(f" most {shown(most)}, {remark}" if most else " none", "dim")
    if most:
        yield _row(shown(most), [" " if value is None else _block(value, most, 0, 1) for value in values], wide, style)


def _row(label: str, blocks: Sequence[str], wide: int, style: str) -> Text:
    drawing = "".join(block * wide for block in blocks).rstrip()
    return text(f"{label:>{MARGIN - 2}} ┤", "dim").append(drawing, style)


def _block(value: float, most: float, row: int, height: int) -> str:
    """The part of a bar that is in this row. What is not nothing can be seen."""
    eighths = round(value / most * height * 8) if most else 0
    if value > 0:
        eighths = max(eighths, 1)
    return EIGHTHS[min(max(eighths - row * 8, 0), 8)]


def _axis(columns: Sequence[Column], wide: int, days: bool) -> Iterator[Text]:
    """The times below the charts, as many as there is room for."""
    line, length = "", len(columns) * wide
    for number, column in enumerate(columns):
        at, label = number * wide, _clock(column.begin, days)
        if (not line or at >= len(line) + 6) and at + len(label) <= length:
            line = f"{line:<{at}}{label}"
    yield text(f"{'':>{MARGIN}}{line}", "dim")


def _markers(history: History, columns: Sequence[Column], wide: int) -> Text:
    line = [" "] * (len(columns) * wide)
    for mark in history.marks:
        at = sum(column.begin.timestamp() <= mark.at for column in columns) - 1
        line[max(at, 0) * wide] = "▲"
    return text(f"{'marks':>{MARGIN - 1}} ", "bold").append("".join(line).rstrip(), "magenta")


def _summary(history: History, width: int, days: bool) -> Iterator[Text]:
    total = history.total
    ends = ("succeeded", "failed", "broken", "cancelled", "retried", "lost", "stale")
    parts = [f"{getattr(total, end):,} {end}" for end in ends if getattr(total, end) or end in ("succeeded", "failed")]
    yield from _facts("ends", parts, width)
    for name, quantiles in (("waited", total.wait), ("ran", total.run)):
        if quantiles:
            yield from _facts(name, [f"{share} {_span(value)}" for share, value in quantiles.items()], width)
    if total.errors:
        shown = [f"{number:,} {type_}" for type_, number in list(total.errors.items())[:LISTED]]
        more = len(total.errors) - LISTED
        yield from _facts("errors", [*shown, f"{more} more types"] if more > 0 else shown, width)
    for mark in history.marks[-LISTED:]:
        at = datetime.fromtimestamp(mark.at).astimezone()
        yield from _facts("mark", [f"{_clock(at, days, seconds=True)} {mark.label}"], width)
    if len(history.marks) > LISTED:
        yield from _facts("mark", [f"and {len(history.marks) - LISTED} before these"], width)


def _facts(name: str, parts: Sequence[str], width: int) -> Iterator[Text]:
    """A name and its parts, in as many lines as they need."""
    line = ""
    label = f"{name:>{MARGIN - 1}}  "
    for part in parts:
        if line and len(label) + len(line) + 2 + len(part) > width:
            yield text(label, "bold").append(text(line + ","))
            label, line = " " * len(label), part
        else:
            line = f"{line}, {part}" if line else part
    yield text(label, "bold").append(text(line))


def _clock(at: datetime, days: bool, *, seconds: bool = False) -> str:
    """A time of day here; with the day if the history is of several `days`."""
    local = at.astimezone()
    clock = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
    return f"{local:%b %d} {clock}" if days else clock


def _count(value: float) -> str:
    """A number in at most five characters: 0, 0.3, 7.5, 340, 1.2k, 15k, 3.1M."""
    for limit, unit, sign in ((1e3, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M")):
        if value < limit * 0.9995:
            scaled = value / unit
            return (f"{scaled:.1f}".removesuffix(".0") if scaled < 9.95 else f"{scaled:.0f}") + sign
    return f"{value / 1e9:.0f}G"


def _span(seconds: float) -> str:
    """A duration, below ten milliseconds with more digits."""
    if seconds < 0.00095:
        return f"{seconds * 1e6:.0f}µs" if seconds else "0s"
    return f"{seconds * 1000:.1f}ms" if seconds < 0.00995 else duration(seconds)
