"""Charts as SVG: numbers in, coordinates out. Templates draw them; nothing here writes markup."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from tenure.core.measures import buckets, lower_bound, quantile, upper_bound
from tenure.core.units import duration
from tenure.jobs.history import History, HistoryPoint

__all__ = [
    "Chart",
    "Column",
    "Distribution",
    "Line",
    "Tick",
    "came_in_chart",
    "depth_chart",
    "distribution",
    "finished_chart",
    "run_chart",
    "spark",
    "waits_chart",
]

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


def came_in_chart(history: History) -> Chart:
    """Jobs that came in a second and jobs that ended a second, as two lines. Where they part, the queue grows or shrinks."""
    came = _came_in(history.points)
    came[-1:] = [None] * len(came[-1:])  # it has hardly begun, so its rates are rough
    ended = [None if each is None else point.rate for each, point in zip(came, history.points, strict=True)]
    top = _top(max((each for each in (*came, *ended) if each is not None), default=0.0))
    scale = _linear(top)
    known = [each for each in came if each is not None]
    finished = [each for each in ended if each is not None]
    return _chart(
        history,
        name="came-in",
        heading="Came in, finished",
        unit="a second",
        latest=f"{_rate(sum(known) / len(known))}, {_rate(sum(finished) / len(finished))}" if known else "–",
        lines=(Line(_path(history, came, scale), "came-in"), Line(_path(history, ended, scale), "ended")),
        values=_value_ticks(top, scale, _rate),
        texts=[
            "" if one is None or other is None else f"{_rate(one)} a second came in, {_rate(other)} finished"
            for one, other in zip(came, ended, strict=True)
        ],
        legend=("came in", "finished"),
        empty=not any(known) and not any(finished),
    )


SPREAD = 3
"""Slots without a look at the queue over which what came in is spread; a longer time without a look is a gap."""


def _came_in(points: Sequence[HistoryPoint]) -> list[float | None]:
    """Jobs that came in a second in each slot: those that ended, and by how many more there are. None where it is not known.

    What was purged or deleted meanwhile counts as if it had not come in.
    """
    found: list[float | None] = [None] * len(points)
    before, begin = None, 0
    for number, point in enumerate(points):
        depth = _depth(point)
        if depth is None:
            continue
        passed = points[begin : number + 1]
        if before is not None and len(passed) <= SPREAD:
            came = max(sum(each.finished for each in passed) + depth - before, 0)
            rate = came / sum(each.seconds for each in passed)
            found[begin : number + 1] = [rate] * len(passed)
        before, begin = depth, number + 1
    return found


def _depth(point: HistoryPoint) -> int | None:
    """Jobs that have not ended, at the end of a slot."""
    lengths = (point.in_line, point.scheduled, point.blocked, point.running)
    return None if None in lengths else sum(each or 0 for each in lengths)


class Bucket(msgspec.Struct, frozen=True):
    """One column of a distribution."""

    x: float
    y: float
    width: float
    height: float
    between: str
    """The durations that it counts, such as `11ms to 16ms`."""

    number: int


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """How long attempts ran, as columns by bucket."""

    heading: str
    latest: str
    buckets: tuple[Bucket, ...]
    labels: tuple[Tick, ...]
    values: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT


def distribution(counts: Mapping[str, float], what: Literal["wait", "run"], heading: str) -> Distribution:
    """The distribution of waits or runs in the counts of a history row."""
    filled = buckets(counts, what)
    first, last = min(filled, default=0), max(filled, default=0)
    number = max(last - first + 1, 8)
    width = (WIDTH - LEFT - RIGHT) / number
    top = _top(max(filled.values(), default=0.0))
    scale = _linear(top)
    columns = tuple(
        Bucket(
            round(LEFT + (each - first) * width, 1),
            round(min(scale(count), HEIGHT - BOTTOM - 1.0), 1),
            round(max(width - 2, 1), 1),
            round(max(HEIGHT - BOTTOM - scale(count), 1.0), 1),
            f"{_brief(lower_bound(each))} to {_brief(upper_bound(each))}",
            round(count),
        )
        for each, count in filled.items()
    )
    step = max(math.ceil(number / 8), 1)
    labels = tuple(
        Tick(round(LEFT + each * width, 1), _brief(lower_bound(first + each))) for each in range(0, number, step)
    )
    p50, p95 = quantile(counts, what, 0.5), quantile(counts, what, 0.95)
    return Distribution(
        heading=heading,
        latest="–" if p50 is None or p95 is None else f"p50 {duration(p50)}, p95 {duration(p95)}",
        buckets=columns,
        labels=labels if columns else (),
        values=_value_ticks(top, scale, _count),
    )


def _brief(seconds: float) -> str:
    """A duration with two digits, also below a millisecond and between seconds."""
    if 0 < seconds < 0.001:
        return f"{seconds * 1e6:.0f}µs"
    if 1 < seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f}s"
    return f"{seconds * 1000:.2g}ms" if 0.001 <= seconds < 0.01 else duration(seconds)


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
    return scale, tuple(Tick(round(scale(10.0**power), 1), _brief(10.0**power)) for power in range(low, high + 1, step))


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
    """A line with a gap where a value is not known. A value between two gaps is a dot."""
    parts: list[str] = []
    stretch: list[str] = []
    for number, value in enumerate([*values, None]):
        if value is not None:
            stretch.append(f"{_x(history, number + 0.5)} {scale(value):.1f}")
        elif stretch:
            parts.append("M" + "L".join(stretch) + ("h0" if len(stretch) == 1 else ""))
            stretch = []
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
