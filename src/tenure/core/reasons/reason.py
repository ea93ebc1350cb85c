"""Reason: the base class of all reasons, and functions that format times and errors for their sentences."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from tenure.core.job import ErrorInfo
from tenure.core.units import LAST_DAY

__all__ = [
    "Reason",
    "in_brackets",
    "moment",
    "span",
]


def _kind(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Reason(msgspec.Struct, frozen=True, tag=_kind, tag_field="kind"):
    """One reason why a job does not run, runs already or has ended. Times are seconds since the epoch, by the store's clock."""

    @property
    def sentence(self) -> str:
        """The reason as a sentence, without a full stop."""
        raise NotImplementedError

    @property
    def advice(self) -> str:
        """What to do about it, as a sentence without a full stop; "" if nothing can be done."""
        return ""


def moment(at: float) -> str:
    """A time in UTC, for people."""
    return f"{datetime.fromtimestamp(min(at, LAST_DAY), UTC):%Y-%m-%d %H:%M:%S} UTC"


def span(seconds: float) -> str:
    """A duration in a fitting unit, for people."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for limit, unit, name in ((120, 1, "s"), (2 * 3600, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86400:.0f} days"


def in_brackets(error: ErrorInfo | None) -> str:
    """An error in brackets, on one line, after a space; "" for None."""
    if error is None:
        return ""
    first = error.message.partition("\n")[0][:200]
    return f" ({error.type}: {first})" if first else f" ({error.type})"
