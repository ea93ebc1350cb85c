"""Checks values that users pass: names, durations, instants, and the options of jobs.

A check takes a value and the name of its option. It returns the value in the form that the rest of Tenure uses, or raises
`InvalidOption` (for a name: `InvalidName`) with one sentence that says what the option must be and what was given.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tenure.core.after import blocker_policy
from tenure.core.origin import RESERVED_TAG
from tenure.errors import InvalidName, InvalidOption

__all__ = [
    "HEADERS",
    "HEADER_BYTES",
    "JOB_OPTIONS",
    "Check",
    "Duration",
    "attempts",
    "duration",
    "flag",
    "headers",
    "instant",
    "integer",
    "job_options",
    "name",
    "named",
    "number",
    "or_none",
    "priority",
    "refused",
    "seconds",
    "several",
    "shown",
]

Duration = float | int | timedelta
"""Seconds, or a timedelta."""

Check = Callable[[Any, str], Any]
"""Takes a value and the name of its option."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}", re.ASCII)
_LARGEST = 2**31 - 1


def shown(value: object) -> str:
    """A value as error messages show it: 80 characters of its repr at most; classes and functions by their names."""
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if inspect.isroutine(value):
        return f"the function {getattr(value, '__qualname__', value)}"
    return f"{value!r:.80}"


def refused(option: str, must_be: str, value: object, instead: str = "") -> InvalidOption:
    """The error for an option with a wrong value; `instead` is advice on what to write."""
    return InvalidOption(f"{option} must be {must_be}, not {shown(value)}{f': {instead}' if instead else ''}")


def named(error: InvalidOption | InvalidName, whose: str) -> InvalidOption | InvalidName:
    """The same error with the owner of the option, such as a task, in front."""
    if isinstance(error, InvalidName):
        return InvalidName(error.kind, error.name, whose)
    return InvalidOption(f"{whose}: {error}")


# Checks.


def name(kind: str, value: object) -> str:
    """Return the name if every store accepts it, else raise `InvalidName`."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidName(kind, value)
    return value


def seconds(value: Duration, option: str, *, least: float = 0.0) -> float:
    """Convert a duration to seconds; `InvalidOption` if it is shorter than `least` or not a finite number."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
        raise refused(option, "a finite number of seconds or a timedelta", value)
    if number < least:
        raise InvalidOption(f"{option} must be at least {least:g} s, not {number:g}")
    return float(number)


def duration(least: float = 0.0) -> Check:
    """A check of durations of at least `least` seconds."""
    return lambda value, option: seconds(value, option, least=least)


def instant(value: datetime, option: str) -> float:
    """Convert an aware datetime to seconds since the epoch; a naive one raises `InvalidOption`."""
    if not isinstance(value, datetime):
        raise refused(option, "a datetime", value)
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidOption(
            f"{option} must have a time zone, got the naive {value.isoformat()}: add tzinfo=datetime.UTC or your own"
        )
    return value.timestamp()


def flag(value: object, option: str) -> bool:
    """Return a bool. Anything else is refused, because Python takes strings such as "no" for true."""
    if not isinstance(value, bool):
        raise refused(option, "True or False", value)
    return value


def integer(least: int, most: int | None = None, unit: str = "") -> Check:
    """A check of integers in this range, both ends included."""
    bounds = f"an integer{unit}, at least {least:,}" if most is None else f"an integer{unit} from {least:,} to {most:,}"

    def check(value: object, option: str) -> int:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < least
            or (most is not None and value > most)
        ):
            raise refused(option, bounds, value)
        return value

    return check


def number(least: float, most: float | None = None) -> Check:
    """A check of numbers in this range, both ends included."""
    bounds = f"a number, at least {least:g}" if most is None else f"a number from {least:g} to {most:g}"

    def check(value: object, option: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise refused(option, bounds, value)
        if value < least or (most is not None and value > most):
            raise refused(option, bounds, value)
        return value

    return check


def or_none(check: Check, means: str) -> Check:
    """The same check for an option that may be None; `means` says in error messages what None means."""

    def checked(value: object, option: str) -> Any:
        if value is None:
            return None
        try:
            return check(value, option)
        except InvalidOption as error:
            raise InvalidOption(f"{error} (None: {means})") from None

    return checked


def several(value: object, option: str) -> tuple[Any, ...]:
    """Return the members of an iterable; a string is refused, because its letters would be the members."""
    if isinstance(value, str | bytes):
        raise InvalidOption(f"{option} must be a list, not the text {value!r:.80}: write [{value!r:.80}]")
    if not isinstance(value, Iterable):
        raise refused(option, "a list or another iterable", value)
    return tuple(value)


def attempts(value: object, option: str) -> int | None:
    """Return a limit of attempts; None: no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
        raise refused(option, "an integer, at least 1, or None for no limit", value)
    return value


def priority(value: object, option: str = "priority") -> int:
    """Return the priority if every store can order by it exactly."""
    # 32 bits: the widest integer that every store compares exactly.
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value <= _LARGEST:
        raise refused(option, "an integer of 32 bits", value)
    return value


def _unique(value: object, option: str) -> str | bool | None:
    if value is None or value is False:
        return None
    if value is True:
        return True
    if not isinstance(value, str) or not 1 <= len(value) <= 500 or "\0" in value or not _is_utf8(value):
        raise refused(option, "True or a text of 1 to 500 characters", value)
    return value


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tag(value: object, option: str) -> str:
    tag = name("tag", value)
    if tag.startswith(RESERVED_TAG):
        raise refused(option, f"names that do not begin with {RESERVED_TAG!r}, which Tenure uses itself", tag)
    return tag


_HEADER = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
HEADERS = 16
"""Headers that a job may have, at most."""

HEADER_BYTES = 2_000
"""Bytes of UTF-8 that the names and values of all headers of a job may have, at most."""


def headers(value: object, option: str = "headers") -> dict[str, str] | None:
    """Return the headers of a job, None if there are none; `InvalidOption` if a store might not keep them."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise refused(option, "a mapping of names to texts", value)
    for header, text in value.items():
        if not isinstance(header, str) or not _HEADER.fullmatch(header):
            raise refused(f"a name in {option}", "1 to 64 of a-z, 0-9 and -", header)
        if not isinstance(text, str) or "\0" in text or not _is_utf8(text):
            raise refused(f"{option}[{header!r}]", "a text", text)
    size = sum(len(header) + len(text.encode()) for header, text in value.items())
    if len(value) > HEADERS or size > HEADER_BYTES:
        raise InvalidOption(
            f"{option} must be at most {HEADERS} with {HEADER_BYTES:,} bytes in all, not {len(value)} with {size:,}: "
            "store what is larger elsewhere, and send where to find it"
        )
    return dict(value) or None


# The options of jobs.

JOB_OPTIONS: Mapping[str, Check] = {
    "delay": seconds,
    "run_at": instant,
    "expires": or_none(seconds, "never"),
    "priority": priority,
    "unique": _unique,
    "window": or_none(seconds, "until the job is final"),
    "unique_raises": flag,
    "queue": lambda value, _: name("queue", value),
    "tags": lambda value, option: tuple(_tag(tag, option) for tag in several(value, option)),
    "keep": or_none(seconds, "as long as the queue keeps its jobs"),
    "max_attempts": lambda value, option: attempts(value, option) or 0,
    "if_blocker_fails": lambda value, _: blocker_policy(value),
    "headers": headers,
}
"""The check of each option of `using`, by its name."""


def job_options(given: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Check the options that `using` takes and return them as fields of a `NewJob`; `InvalidOption` or `InvalidName`.

    `before`: the fields that the job has already.
    """
    if "delay" in given and "run_at" in given:
        raise InvalidOption("a job has either a delay or a run_at, not both")
    fields = {option: JOB_OPTIONS[option](value, option) for option, value in given.items()}
    if "delay" in given:
        fields["run_at"] = None
    elif "run_at" in given:
        fields["delay"] = 0.0
    for option in ("window", "unique_raises"):
        if given.get(option) in (None, False) or option not in given:
            continue
        if (fields if "unique" in fields else before or {}).get("unique") is None:
            raise InvalidOption(f"{option} applies to the unique key of a job, and this job has none: give unique= too")
    return fields
