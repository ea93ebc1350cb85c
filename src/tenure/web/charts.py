"""Charts as SVG: numbers in, coordinates out. Templates draw them; nothing here writes markup."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from tenure.core.units import duration
from tenure.jobs.history import History, HistoryPoint

__all__ = ["Chart", "Column", "Line", "Tick", "depth_chart", "finished_chart", "run_chart", "spark", "waits_chart"]

WIDTH, HEIGHT = 560, 160
"""Size of a chart in its own units; the page scales it."""

LEFT, RIGHT, TOP, BOTTOM = 40, 4, 8, 20
"""Margins around what is drawn."""


class Column(msgspec.Struct, frozen=True):
    """One rectangle."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    """What it counts, which decides its colour."""


class Line(msgspec.Struct, frozen=True):
    """One path, with gaps where there are no values."""

    path: str
    kind: str


class Tick(msgspec.Struct, frozen=True):
    """A value on an axis."""

    at: float
    label: str


class Slot(msgspec.Struct, frozen=True):
    """One slot, for the hover: where it is, when it was, and what it shows."""

    x: float
    at: float
    """Seconds since the epoch."""

    text: str


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart, ready to be drawn."""

    name: str
    heading: str
    latest: str
    """The value to read at a glance."""

    unit: str = ""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    floor: int = HEIGHT - BOTTOM
    columns: tuple[Column, ...] = ()
    areas: tuple[Line, ...] = ()
    lines: tuple[Line, ...] = ()
    values: tuple[Tick, ...] = ()
    """Ticks of the vertical axis; `at` is y."""

    times: tuple[Tick, ...] = ()
    """Ticks of the horizontal axis; `at` is x, `label` the instant in seconds since the epoch."""

    marks: tuple[Tick, ...] = ()
    slots: tuple[Slot, ...] = ()
    legend: tuple[str, ...] = ()
    empty: bool = False


def finished_chart(history: History) -> Chart:
    """Jobs that ended a second, as stacked columns by how they ended, the successes at the base."""
    kinds = ("succeeded", "cancelled", "failed", "broken")
    rates = [[getattr(point, kind) / point.seconds for kind in kinds] for point in history.points]
    top = _top(max((sum(each) for each in rates), default=0.0))
    scale = _linear(top)
    columns = []
    width = _slot_width(history)
    for number, each in enumerate(rates):
        base = 0.0
        for kind, value in zip(kinds, each, strict=True):
            if value > 0:
                y0, y1 = scale(base), scale(base + value)
                columns.append(
                    Column(
                        _x(history, number),
                        round(y1, 1),
                        round(max(width - 1, 1), 1),
                        round(max(y0 - y1, 0.6), 1),
                        kind,
                    )
                )
                base += value
    texts = [_rates_text(point) for point in history.points]
    return _chart(
        history,
        name="finished",
        heading="Finished",
        unit="a second",
        latest=_rate(history.total.rate),
        columns=tuple(columns),
        values=_value_ticks(top, scale, _rate),
        texts=texts,
        legend=kinds,
        empty=not any(sum(each) for each in rates),
    )


def waits_chart(history: History) -> Chart:
    """How long jobs waited: the middle as a line, the band to 95 %, a thin line at 99 %; logarithmic."""
    return _quantiles(history, "wait", "Waits", "from being due to the start")


def run_chart(history: History) -> Chart:
    """How long attempts ran, likewise."""
    return _quantiles(history, "run", "Run times", "of attempts")


def depth_chart(history: History) -> Chart:
    """Jobs in line at the end of each slot, as an area."""
    depths: list[float | None] = [None if point.in_line is None else float(point.in_line) for point in history.points]
    top = _top(max((each for each in depths if each is not None), default=0.0))
    scale = _linear(top)
    floor = scale(0.0)
    line = _path(history, depths, scale)
    latest = next((each for each in reversed(depths) if each is not None), None)
    return _chart(
        history,
        name="depth",
        heading="In line",
        latest="–" if latest is None else _count(latest),
        areas=(Line(_area(history, depths, scale, floor), "depth"),),
        lines=(Line(line, "depth"),),
        values=_value_ticks(top, scale, _count),
        texts=["" if each is None else f"{_count(each)} in line" for each in depths],
        legend=("in line",),
        empty=all(each is None for each in depths),
    )


def spark(values: Sequence[float], width: int = 96, height: int = 20) -> tuple[Column, ...]:
    """A row of small columns."""
    top = max(values, default=0.0) or 1.0
    each = width / max(len(values), 1)
    return tuple(
        Column(
            round(number * each, 1),
            round(height - value / top * height, 1),
            round(each - 1, 1),
            round(value / top * height, 1),
            "spark",
        )
        for number, value in enumerate(values)
        if value > 0
    )


def _quantiles(history: History, which: str, heading: str, unit: str) -> Chart:
    found: dict[str, list[float | None]] = {
        name: [getattr(point, which).get(name) for point in history.points] for name in ("p50", "p95", "p99")
    }
    known = [value for values in found.values() for value in values if value is not None and value > 0]
    scale, ticks = _logarithmic(known)
    total = getattr(history.total, which)
    texts = [
        ", ".join(
            f"{name} {duration(value)}" for name in found if (value := getattr(point, which).get(name)) is not None
        )
        for point in history.points
    ]
    band = _band(history, found["p50"], found["p95"], scale)
    return _chart(
        history,
        name=which,
        heading=heading,
        unit=unit,
        latest=f"p95 {duration(total['p95'])}" if "p95" in total else "–",
        areas=(Line(band, which),),
        lines=(Line(_path(history, found["p99"], scale), "p99"), Line(_path(history, found["p50"], scale), which)),
        values=ticks,
        texts=texts,
        legend=("p50", "p95", "p99"),
        empty=not known,
    )


# Scales: from a value to y.

Scale = Callable[[float], float]


def _linear(top: float) -> Scale:
    room = HEIGHT - TOP - BOTTOM
    return lambda value: HEIGHT - BOTTOM - value / top * room


def _logarithmic(values: Sequence[float]) -> tuple[Scale, tuple[Tick, ...]]:
    low = math.floor(math.log10(max(min(values, default=0.001), 1e-6)))
    high = max(math.ceil(math.log10(max(max(values, default=1.0), 1e-6))), low + 1)
    room = HEIGHT - TOP - BOTTOM

    def scale(value: float) -> float:
        part = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return HEIGHT - BOTTOM - part * room

    step = max((high - low) // 3, 1)
    return scale, tuple(
        Tick(round(scale(10.0**power), 1), duration(10.0**power)) for power in range(low, high + 1, step)
    )


def _top(most: float) -> float:
    """A round number that is not below this one: 1, 2 or 5 times a power of ten."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= most)


def _value_ticks(top: float, scale: Scale, label: Callable[[float], str]) -> tuple[Tick, ...]:
    return tuple(Tick(round(scale(part * top), 1), label(part * top)) for part in (0.0, 0.5, 1.0))


# Positions along the time.


def _slot_width(history: History) -> float:
    return (WIDTH - LEFT - RIGHT) / max(len(history.points), 1)


def _x(history: History, number: float) -> float:
    return round(LEFT + number * _slot_width(history), 1)


def _path(history: History, values: Sequence[float | None], scale: Scale) -> str:
    parts, drawing = [], False
    for number, value in enumerate(values):
        if value is None:
            drawing = False
            continue
        parts.append(f"{'L' if drawing else 'M'}{_x(history, number + 0.5)} {scale(value):.1f}")
        drawing = True
    return "".join(parts)


def _area(history: History, values: Sequence[float | None], scale: Scale, floor: float) -> str:
    return _band(
        history,
        [None if each is None else 0.0 for each in values],
        values,
        lambda value: scale(value) if value else floor,
    )


def _band(history: History, low: Sequence[float | None], high: Sequence[float | None], scale: Scale) -> str:
    """Closed shapes between two rows of values, one for each stretch without a gap."""
    parts: list[str] = []
    stretch: list[tuple[float, float, float]] = []
    for number, (below, above) in enumerate([*zip(low, high, strict=True), (None, None)]):
        if below is not None and above is not None:
            stretch.append((_x(history, number + 0.5), scale(below), scale(above)))
            continue
        if len(stretch) > 1:
            over = "L".join(f"{x} {y:.1f}" for x, _, y in stretch)
            under = "L".join(f"{x} {y:.1f}" for x, y, _ in reversed(stretch))
            parts.append(f"M{over}L{under}Z")
        stretch = []
    return "".join(parts)


def _chart(history: History, *, texts: Sequence[str], **values: object) -> Chart:
    points = history.points
    step = max(len(points) // 4, 1)
    times = tuple(
        Tick(_x(history, number), str(points[number].at.timestamp())) for number in range(0, len(points), step)
    )
    first = points[0].at.timestamp() if points else 0.0
    span = len(points) * history.resolution or 1
    marks = tuple(
        Tick(round(LEFT + (mark.at - first) / span * (WIDTH - LEFT - RIGHT), 1), mark.label)
        for mark in history.marks
        if mark.at >= first
    )
    slots = tuple(
        Slot(_x(history, number + 0.5), point.at.timestamp(), text)
        for number, (point, text) in enumerate(zip(points, texts, strict=True))
        if text
    )
    return Chart(times=times, marks=marks[-12:], slots=slots, **values)  # type: ignore[arg-type]


def _rates_text(point: HistoryPoint) -> str:
    if not point.finished:
        return ""
    rest = ", ".join(
        f"{number:,} {kind}" for kind in ("failed", "cancelled", "broken") if (number := getattr(point, kind))
    )
    return f"{_rate(point.rate)} a second, {point.succeeded:,} succeeded{f', {rest}' if rest else ''}"


def _rate(value: float) -> str:
    if value >= 10 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"


def _count(value: float) -> str:
    for limit, sign in ((1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e6 if sign == 'M' else 1e3):.3g}{sign}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.1f}"
