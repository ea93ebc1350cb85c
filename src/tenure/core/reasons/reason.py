"""What a reason is, and how times and errors are told in one."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from tenure.core.job import ErrorInfo

__all__ = [
    "Reason",
    "in_brackets",
    "moment",
    "span",
]


LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Later instants are told as this one: a delay may be longer than any calendar."""


def _kind(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Reason(msgspec.Struct, frozen=True, tag=_kind, tag_field="kind"):
    """One reason. Times are seconds since the epoch by the store's clock."""

    @property
    def sentence(self) -> str:
        """What is so."""
        raise NotImplementedError

    @property
    def advice(self) -> str:
        """What to do about it, as a sentence; empty if there is nothing to be done."""
        return ""


def moment(at: float) -> str:
    """An instant, for people."""
    return f"{datetime.fromtimestamp(min(at, LAST_DAY), UTC):%Y-%m-%d %H:%M:%S} UTC"


def span(seconds: float) -> str:
    """How long something takes, for people."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for limit, unit, name in ((120, 1, "s"), (2 * 3600, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86400:.0f} days"


def in_brackets(error: ErrorInfo | None) -> str:
    """What went wrong, on one line."""
    if error is None:
        return ""
    first = error.message.partition("\n")[0][:200]
    return f" ({error.type}: {first})" if first else f" ({error.type})"
