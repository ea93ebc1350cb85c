"""Checks of what users hand in, shared by everything that takes a name, a duration, an instant or the options of a job."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tenure.after import blocker_policy
from tenure.errors import InvalidName, InvalidOption

__all__ = ["Duration", "instant", "job_options", "name", "priority", "seconds"]

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
    return value.timestamp()


def job_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of one job, by the names that `using` has for them, as fields of it; `InvalidOption` or `InvalidName`."""
    if "delay" in given and "run_at" in given:
        raise InvalidOption("a job has either a delay or a run_at, not both")
    fields = dict(given)
    if "delay" in given:
        fields |= {"delay": seconds(given["delay"], "delay"), "run_at": None}
    if "run_at" in given:
        fields |= {"delay": 0.0, "run_at": instant(given["run_at"], "run_at")}
    for option in ("expires", "window", "keep"):
        if given.get(option) is not None:
            fields[option] = seconds(given[option], option)
    if "priority" in given:
        fields["priority"] = priority(given["priority"])
    if "queue" in given:
        name("queue", given["queue"])
    if "tags" in given:
        if isinstance(given["tags"], str):
            raise InvalidOption(
                f"tags must be several, got the text {given['tags']!r:.80}: write [{given['tags']!r:.80}]"
            )
        fields["tags"] = tuple(name("tag", tag) for tag in given["tags"])
    if "unique" in given:
        fields["unique"] = _unique(given["unique"])
    if "max_attempts" in given:
        fields["max_attempts"] = _max_attempts(given["max_attempts"])
    if "if_blocker_fails" in given:
        fields["if_blocker_fails"] = blocker_policy(given["if_blocker_fails"])
    return fields


def priority(value: object) -> int:
    """Give the priority back if every store orders by it exactly."""
    # 32 bits: what an exact comparison holds on every store.
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise InvalidOption(f"priority must be an integer of 32 bits, got {value!r:.80}")
    return value


def _unique(value: object) -> str | bool | None:
    if value is None or value is False:
        return None
    if value is True:
        return True
    if not isinstance(value, str) or not 1 <= len(value) <= 500 or "\0" in value or not _is_utf8(value):
        raise InvalidOption(f"unique must be True or a text of 1 to 500 characters, got {value!r:.80}")
    return value


def _max_attempts(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise InvalidOption(f"max_attempts must be an integer from 1 on, or None for no limit, got {value!r:.80}")
    return value


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
