"""Measures of jobs over time: counters that are merged by adding, `bucket` for durations, `quantile` of many of them.

A row of the history is a map of counters by name:

| name | what is added |
|---|---|
| `succeeded`, `failed`, `retried`, `broken` | attempts that ended like this |
| `stale` | ends that the store refused because the lease was lost |
| `wait`, `run` | seconds, in all, that jobs waited from being due to their start, and that attempts ran |
| `wait:I`, `run:I` | number of those durations in bucket I |
| `error:TYPE` | attempts that failed with an error of this type |

Buckets are logarithmic with base √2: bucket i holds durations from 2^((i-1)/2) to 2^(i/2) seconds, so a quantile is off by
19 % at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

__all__ = [
    "ERRORS",
    "EVER",
    "MARKS",
    "OTHERS",
    "RESOLUTIONS",
    "ROWS",
    "HistoryRow",
    "HistorySearch",
    "HistoryWrite",
    "Mark",
    "bucket",
    "buckets",
    "lower_bound",
    "merge_counts",
    "merge_gauges",
    "quantile",
    "slot_of",
    "sum_counts",
    "upper_bound",
]

LOWEST, HIGHEST = -40, 42
"""The first and the last bucket: below a microsecond, and above about 17 days."""

RESOLUTIONS: Mapping[int, float] = {10: 3600.0, 300: 2 * 86400.0, 3600: 30 * 86400.0}
"""Seconds of a slot, and seconds for which such slots are kept."""

EVER = 0
"""The resolution of the one slot since ever."""

ROWS = 200
"""Rows of one slot, at most; what comes beyond is added to one row named `OTHERS`."""

ERRORS = 32
"""Types of errors in one row, at most; further ones are added to `error:…`."""

OTHERS = "…"
MARKS = 500
"""Marks that are kept, the latest ones."""


class HistoryWrite(msgspec.Struct, frozen=True):
    """What is added to one row of the current slots. An empty queue means all queues, an empty task all tasks of the queue."""

    queue: str
    task: str
    counts: dict[str, float]
    gauges: dict[str, float] = {}
    """Values of this moment; they replace those of the slot, but of `oldest` the greatest stays."""


class HistoryRow(msgspec.Struct, frozen=True):
    """One row of a slot."""

    slot: float
    """Begin of the slot, in seconds since the epoch."""

    queue: str
    task: str
    counts: dict[str, float]
    gauges: dict[str, float] = {}


class HistorySearch(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows to read: those of the slots of a resolution that begin in a time."""

    resolution: int
    since: float = 0.0
    """The begin of the first slot is not earlier."""

    until: float = float("inf")
    """The begin of the last slot is earlier."""

    rows: Literal["one", "queues", "tasks"] = "one"
    """`one`: of `queue` and `task`. `queues`: of every queue, without tasks. `tasks`: of every pair of queue and task."""

    queue: str = ""
    task: str = ""


class Mark(msgspec.Struct, frozen=True):
    """A moment with a name, such as a deploy."""

    at: float
    label: str


def slot_of(resolution: int, now: float) -> float:
    """The begin of the slot of this resolution that contains `now`."""
    return now // resolution * resolution if resolution else 0.0


def bucket(seconds: float) -> int:
    """The bucket of a duration."""
    return min(max(int(seconds * seconds * 2**40).bit_length() - 40, LOWEST), HIGHEST)


def lower_bound(number: int) -> float:
    """The shortest duration in a bucket, in seconds."""
    return 0.0 if number <= LOWEST else float(2.0 ** ((number - 1) / 2))


def upper_bound(number: int) -> float:
    """The duration at which the next bucket begins, in seconds."""
    return float(2.0 ** (number / 2))


def buckets(counts: Mapping[str, float], what: Literal["wait", "run"]) -> dict[int, float]:
    """The filled buckets of waits or runs, by number, in order."""
    prefix = f"{what}:"
    found = {int(name.removeprefix(prefix)): count for name, count in counts.items() if name.startswith(prefix)}
    return dict(sorted(found.items()))


def quantile(counts: Mapping[str, float], what: Literal["wait", "run"], share: float) -> float | None:
    """The duration that this share of all waits or runs does not exceed, about; None if there were none."""
    filled = buckets(counts, what)
    left = sum(filled.values()) * share
    for number, count in filled.items():
        left -= count
        if left <= 0:
            return (lower_bound(number) * upper_bound(number)) ** 0.5 if number > LOWEST else upper_bound(number)
    return None


def merge_counts(before: Mapping[str, float], added: Mapping[str, float]) -> dict[str, float]:
    """The sum of two maps of counters, with at most `ERRORS` types of errors."""
    merged = dict(before)
    errors = sum(name.startswith("error:") for name in merged)
    for name, count in added.items():
        key = name
        if name.startswith("error:") and name not in merged:
            if errors >= ERRORS:
                key = f"error:{OTHERS}"
            errors += key not in merged
        merged[key] = merged.get(key, 0) + count
    return merged


def merge_gauges(before: Mapping[str, float], later: Mapping[str, float]) -> dict[str, float]:
    """The later values, and of `oldest` the greater one."""
    merged = {**before, **later}
    if "oldest" in before and "oldest" in later:
        merged["oldest"] = max(before["oldest"], later["oldest"])
    return merged


def sum_counts(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sum of many maps of counters."""
    total: dict[str, float] = {}
    for row in rows:
        for name, count in row.items():
            total[name] = total.get(name, 0) + count
    return total
