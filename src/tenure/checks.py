"""Checks of what users hand in, shared by everything that takes a name, a duration or an instant."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from tenure.errors import InvalidName, InvalidOption

__all__ = ["Duration", "instant", "name", "seconds"]

Duration = float | int | timedelta
"""Seconds, or a timedelta."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}", re.ASCII)


def name(kind: str, value: object) -> str:
    """Give the name back if every store accepts it, else raise `InvalidName`."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidName(kind, value)
    return value


def seconds(value: Duration, option: str, *, least: float = 0.0) -> float:
    """Turn a duration into seconds; one that is negative, too small or no number raises `InvalidOption`, naming the option."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
        raise InvalidOption(f"{option} must be a finite number of seconds or a timedelta, got {value!r}")
    if number < least:
        raise InvalidOption(f"{option} must be at least {least:g} s, got {number:g}")
    return float(number)


def instant(value: datetime, option: str) -> float:
    """Turn an aware datetime into seconds since the epoch; a naive one raises `InvalidOption`."""
    if not isinstance(value, datetime):
        raise InvalidOption(f"{option} must be a datetime, got {value!r}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidOption(
            f"{option} must say its time zone, got the naive {value.isoformat()}: add tzinfo=datetime.UTC or your own"
        )
    return value.astimezone(UTC).timestamp()
