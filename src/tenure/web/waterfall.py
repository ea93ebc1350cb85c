"""`waterfall_of` draws the steps of a run to scale: what each waited and ran, with many alike in a row as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import msgspec

from tenure.core.job import JobRecord, State
from tenure.core.units import duration
from tenure.jobs.run import step_name

__all__ = ["Bar", "Row", "Waterfall", "waterfall_of"]

ALIKE = 5
"""As many steps in a row as this, of the same name and in the same state, are shown as one."""

BARS = 100
"""Bars in a row, at most."""

SCALE = 1000
"""Width of the drawing, in its own units."""

LEAST = 3
"""Width of the shortest bar, so that it can be seen."""

UNITS = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    21600,
    43200,
    86400,
)
"""Seconds between two ticks of the axis; beyond the last, multiples of a day."""


class Bar(msgspec.Struct, frozen=True):
    """A stretch of time of a step."""

    kind: str
    """`wait` or `run`."""

    x: float
    width: float
    label: str
    state: str = ""
    """Of a run: the state of its step, which decides the colour."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A step, or several alike."""

    id: str
    """Id of the job of the step; of several, that of the last."""

    name: str
    label: str
    count: int
    bars: tuple[Bar, ...]
    waited: str
    took: str
    """How long it ran, in words; of several, all together."""

    worker: str
    says: str
    """Its error, or how often it was tried."""


class Waterfall(msgspec.Struct, frozen=True):
    """The rows in order, and the axis above them."""

    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    """X and words of each tick of the axis."""


def waterfall_of(steps: Sequence[JobRecord], flow: str, now: float) -> Waterfall:
    """The waterfall of the steps of a run, in the order of their creation; `now` is the time of the store."""
    if not steps:
        return Waterfall((), ())
    begin = steps[0].created_at
    end = max(_end(each, now) for each in steps)
    whole = max(end - begin, 1e-3)
    rows: list[Row] = []
    for _, alike in groupby(steps, key=lambda each: (each.task, each.label)):
        found = list(alike)
        groups = [found] if len(found) >= ALIKE else [[each] for each in found]
        rows += [_row(group, flow, begin, whole, now) for group in groups]
    return Waterfall(tuple(rows), _ticks(whole))


def _row(steps: Sequence[JobRecord], flow: str, begin: float, whole: float, now: float) -> Row:
    last = steps[-1]
    ran = sum(_end(each, now) - _start(each, now) for each in steps if _ran(each))
    waited = sum(_start(each, now) - each.created_at for each in steps)
    return Row(
        id=last.id,
        name=step_name(last.task, flow),
        label=last.label,
        count=len(steps),
        bars=tuple(bar for each in steps[:BARS] for bar in _bars(each, begin, whole, now)),
        waited=duration(waited) if waited > 0 else "",
        took=duration(max(ran, 0.0)) if any(_ran(each) for each in steps) else "",
        worker=(last.worker or "") if len({each.worker for each in steps}) == 1 else "",
        says=_says(last),
    )


def _says(step: JobRecord) -> str:
    if step.error is not None:
        return f"{step.error.type}: {step.error.message}".partition("\n")[0]
    if step.parked:
        return "waits to be completed"
    if step.attempt > 1:
        return f"attempt {step.attempt}"
    return f"waits for {step.blocked_by:,}" if step.blocked_by else ""


def _bars(step: JobRecord, begin: float, whole: float, now: float) -> list[Bar]:
    start, end = _start(step, now), _end(step, now)
    found = []
    if start > step.created_at:
        waited = duration(start - step.created_at)
        found.append(_bar("wait", step.created_at - begin, start - begin, whole, f"waited {waited}"))
    if _ran(step):
        found.append(_bar("run", start - begin, end - begin, whole, f"ran {duration(end - start)}", step.label))
    return found


def _bar(kind: str, begin: float, end: float, whole: float, label: str, state: str = "") -> Bar:
    width = max((end - begin) / whole * SCALE, LEAST if kind == "run" else 1)
    x = min(max(begin / whole * SCALE, 0.0), SCALE - width)
    return Bar(kind, round(x, 1), round(width, 1), label, state)


def _ran(step: JobRecord) -> bool:
    """Whether its latest attempt runs or has ended it; a step that is parked or to be retried waits again."""
    return step.started_at is not None and (step.state is State.RUNNING or step.state.final)


def _start(step: JobRecord, now: float) -> float:
    """When its latest attempt began, or until when it has waited."""
    if _ran(step):
        return max(step.started_at or 0.0, step.created_at)
    return max(now if step.ended_at is None else step.ended_at, step.created_at)


def _end(step: JobRecord, now: float) -> float:
    return max(now if step.ended_at is None else step.ended_at, _start(step, now))


def _ticks(whole: float) -> tuple[tuple[float, str], ...]:
    """Round times, at most six."""
    unit = next((each for each in UNITS if whole / each <= 5), math.ceil(whole / 5 / 86400) * 86400)
    return tuple(
        (round(number * unit / whole * SCALE, 1), _words(number * unit)) for number in range(int(whole / unit) + 1)
    )


def _words(seconds: float) -> str:
    if seconds == 0:
        return "0"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    parts = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    found = []
    for unit, sign in parts:
        if seconds >= unit:
            found.append(f"{int(seconds // unit)}{sign}")
            seconds %= unit
    return " ".join(found[:2])
