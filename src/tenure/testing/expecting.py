"""`Expectation`: which enqueued jobs a test expects, and the message about those that come nearest. No I/O."""

from __future__ import annotations

import difflib
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tenure.core.checks import instant, seconds
from tenure.core.options import UNSET
from tenure.errors import InvalidOption
from tenure.jobs.handle import Job
from tenure.jobs.run import FlowRun

__all__ = ["EnqueuedJob", "Expectation", "named_arguments", "options_of", "timespan"]

NEAREST = 3
"""Jobs that a message shows, at most."""

EXACT = 0.001
"""Seconds by which a delay may differ from the expected one."""

BY_THE_CLOCK = 1.0
"""Seconds by which it may differ if the code has given a time, because it has read the clock of the machine for that."""


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """One job that was enqueued in a test, as it was enqueued."""

    job: Job[Any] | FlowRun
    """The handle of the job, or of the run that it has started."""

    task: str
    arguments: Mapping[str, Any]
    """Its arguments by name, defaults included; of the first step of a run, the attributes."""

    queue: str
    priority: int
    tags: tuple[str, ...]
    unique: str | None
    headers: Mapping[str, str]
    delay: float
    """Seconds from the enqueue until it was due; 0: at once."""

    due: float
    """When it was due, in seconds since the epoch."""

    place: str
    """The line of code that has enqueued it, or what else has."""

    by_the_clock: bool = False
    """Whether the code has given a time, and not a delay."""

    def __repr__(self) -> str:
        return f"<EnqueuedJob {_call(self)} in {self.queue!r}, due {_due(self.delay)}, {self.place}>"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing that is expected of a job."""

    text: str
    """What is expected, for the first line of a message."""

    fits: Callable[[EnqueuedJob], bool]
    shown: Callable[[EnqueuedJob], str]
    """What the job has instead, for a message."""

    expected: str
    """What stands in brackets behind what the job has."""

    def cell(self, job: EnqueuedJob) -> str:
        return self.shown(job) if self.fits(job) else f"{self.shown(job)} (not {self.expected})"


class Expectation:
    """Jobs of one task, with certain arguments and options."""

    def __init__(self, task: str, wanted: Sequence[Wanted], is_of: Callable[[EnqueuedJob], bool]) -> None:
        self._task = task
        self._wanted = wanted
        self._is_of = is_of

    def fitting(self, jobs: Sequence[EnqueuedJob]) -> list[EnqueuedJob]:
        """Those of these jobs that are expected, in their order."""
        return [job for job in jobs if self._is_of(job) and all(each.fits(job) for each in self._wanted)]

    def __str__(self) -> str:
        return self._task + (f" with {', '.join(each.text for each in self._wanted)}" if self._wanted else "")

    def missing(self, jobs: Sequence[EnqueuedJob]) -> str:
        """The message if none of these jobs fits."""
        lines = [f"no job of {self} was enqueued."]
        nearest = sorted((job for job in jobs if self._is_of(job)), key=self._misses)[:NEAREST]
        lines += self._table("nearest:", nearest)
        others = Counter(job.task for job in jobs if not self._is_of(job))
        if others:
            shown = ", ".join(f"{task} ×{times}" for task, times in others.items())
            meant = difflib.get_close_matches(self._task, others, n=1) if not nearest else []
            lines.append(f"  others:   {shown}" + (f"; did you mean {meant[0]}?" if meant else ""))
        elif not nearest:
            lines.append("  Nothing was enqueued at all.")
        return "\n".join(lines)

    def miscounted(self, jobs: Sequence[EnqueuedJob], count: int) -> str:
        """The message if another number of jobs fits."""
        fitting = self.fitting(jobs)
        were = "1 job" if len(fitting) == 1 else f"{len(fitting)} jobs"
        first = f"{were} of {self} {'was' if len(fitting) == 1 else 'were'} enqueued, not {count}."
        return "\n".join([first, *self._table("found:", fitting), "  count=None accepts any number."])

    def unexpected(self, jobs: Sequence[EnqueuedJob]) -> str:
        """The message if some of these jobs fit and none should."""
        fitting = self.fitting(jobs)
        were = "a job" if len(fitting) == 1 else f"{len(fitting)} jobs"
        first = f"{were} of {self} {'was' if len(fitting) == 1 else 'were'} enqueued, and none should be."
        return "\n".join([first, *self._table("found:", fitting)])

    def _misses(self, job: EnqueuedJob) -> int:
        return sum(not each.fits(job) for each in self._wanted)

    def _table(self, label: str, jobs: Sequence[EnqueuedJob]) -> list[str]:
        """One line for each job: what was asked for, as the job has it, and where it was enqueued."""
        rows = ["   ".join(each.cell(job) for each in self._wanted) or _call(job) for job in jobs[:10]]
        width = max((len(row) for row in rows), default=0)
        lines = [
            f"  {label if not number else '':<10}{row:<{width}}   {job.place}"
            for number, (row, job) in enumerate(zip(rows, jobs, strict=False))
        ]
        return [*lines, f"            and {len(jobs) - 10} more"] if len(jobs) > 10 else lines


def named_arguments(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters, with defaults; those of `**kwargs` under their own names."""
    bound = signature.bind_partial(*args, **kwargs)
    bound.apply_defaults()
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        elif signature.parameters[name].kind is not inspect.Parameter.VAR_POSITIONAL or value:
            named[name] = value
    return named


def argument(name: str, expected: Any) -> Wanted:
    """An argument has this value, or one for which this function is true."""

    def fits(job: EnqueuedJob) -> bool:
        return name in job.arguments and _matches(job.arguments[name], expected)

    def shown(job: EnqueuedJob) -> str:
        return f"{name}={job.arguments[name]!r:.60}" if name in job.arguments else f"no {name}"

    return Wanted(f"{name}={_text(expected)}", fits, shown, _text(expected))


def options_of(given: Mapping[str, Any]) -> list[Wanted]:
    """What is expected of the options of a job. An option that is `UNSET` is not looked at."""
    return [_OPTIONS[name](value) for name, value in given.items() if value is not UNSET]


def timespan(span: float) -> str:
    """A time span exactly, in days, hours, minutes and seconds: 1h, 1h 30m, 2.5s."""
    parts: list[str] = []
    for unit, sign in ((86400, "d"), (3600, "h"), (60, "m")):
        whole, span = divmod(span, unit)
        if whole:
            parts.append(f"{whole:.0f}{sign}")
    if span >= EXACT or not parts:
        parts.append(f"{span:.3f}".rstrip("0").rstrip(".") + "s")
    return " ".join(parts)


def _simple(name: str) -> Callable[[Any], Wanted]:
    def wanted(expected: Any) -> Wanted:
        return Wanted(
            f"{name}={_text(expected)}",
            lambda job: _matches(getattr(job, name), expected),
            lambda job: f"{name}={getattr(job, name)!r:.60}",
            _text(expected),
        )

    return wanted


def _unique(expected: Any) -> Wanted:
    if expected is True:
        return Wanted("a unique key", lambda job: job.unique is not None, _shown_unique, "unique")
    return Wanted(
        f"unique={_text(expected)}", lambda job: _matches(job.unique, expected), _shown_unique, _text(expected)
    )


def _shown_unique(job: EnqueuedJob) -> str:
    return f"unique={job.unique!r:.60}"


def _tags(expected: Any) -> Wanted:
    if callable(expected):
        return _simple("tags")(expected)
    wanted = [expected] if isinstance(expected, str) else list(expected)
    return Wanted(
        f"tags={wanted}", lambda job: set(wanted) <= set(job.tags), lambda job: f"tags={list(job.tags)}", f"{wanted}"
    )


def _headers(expected: Any) -> Wanted:
    if callable(expected):
        return _simple("headers")(expected)

    def fits(job: EnqueuedJob) -> bool:
        return all(name in job.headers and _matches(job.headers[name], value) for name, value in expected.items())

    return Wanted(f"headers={expected}", fits, lambda job: f"headers={dict(job.headers)}", f"{expected}")


def _delay(expected: Any) -> Wanted:
    if callable(expected):
        return Wanted(
            f"delay={_text(expected)}", lambda job: bool(expected(job.delay)), _shown_due, f"delay {_text(expected)}"
        )
    span = seconds(expected, "delay")
    text = _due(span)
    return Wanted(
        f"due {text}",
        lambda job: abs(job.delay - span) <= (BY_THE_CLOCK if job.by_the_clock else EXACT),
        _shown_due,
        text,
    )


def _shown_due(job: EnqueuedJob) -> str:
    return f"due {_due(job.delay)}"


def _run_at(expected: Any) -> Wanted:
    def shown(job: EnqueuedJob) -> str:
        return f"due at {_time(job.due)}"

    if callable(expected):
        return Wanted(
            f"run_at={_text(expected)}",
            lambda job: bool(expected(datetime.fromtimestamp(job.due, UTC))),
            shown,
            _text(expected),
        )
    at = instant(expected, "run_at")
    return Wanted(f"due at {_time(at)}", lambda job: abs(job.due - at) <= BY_THE_CLOCK, shown, _time(at))


_OPTIONS: Mapping[str, Callable[[Any], Wanted]] = {
    "queue": _simple("queue"),
    "delay": _delay,
    "run_at": _run_at,
    "priority": _simple("priority"),
    "tags": _tags,
    "unique": _unique,
    "headers": _headers,
}


def checked_names(task: str, names: Sequence[str], parameters: Sequence[str] | None) -> None:
    """Raise `InvalidOption` if an expected argument is no parameter of the task. None: any name may be one."""
    for name in names:
        if parameters is not None and name not in parameters:
            near = difflib.get_close_matches(name, [*parameters, *_OPTIONS, "count"], n=1)
            hint = f"; did you mean {near[0]}=?" if near else ""
            takes = ", ".join(parameters) or "nothing"
            raise InvalidOption(f"{task} has no parameter {name!r}, it takes {takes}{hint}")


def _matches(value: Any, expected: Any) -> bool:
    """Whether a value is the expected one, or one for which the expected function is true."""
    if callable(expected) and not isinstance(expected, type):
        return bool(expected(value))
    return bool(value == expected)


def _text(expected: Any) -> str:
    if callable(expected) and not isinstance(expected, type):
        name = getattr(expected, "__name__", "")
        return f"<{name}>" if name and name != "<lambda>" else "<a predicate>"
    return f"{expected!r:.60}"


def _due(delay: float) -> str:
    return "now" if delay < EXACT else f"in {timespan(delay)}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def _call(job: EnqueuedJob) -> str:
    return f"{job.task}({', '.join(f'{name}={value!r:.40}' for name, value in job.arguments.items())})"


def span_of(span: timedelta | float | None, *, days: float, hours: float, minutes: float, seconds: float) -> float:
    """A time span in seconds, given as one value or in parts."""
    first = span.total_seconds() if isinstance(span, timedelta) else span or 0.0
    return first + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
