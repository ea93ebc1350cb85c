"""`instant_of` reads a time in the address of a page: an instant, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tenure.core.checks import refused

__all__ = ["instant_of"]

_AGO = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def instant_of(text: str) -> datetime:
    """The instant that `2h` (ago) or `2026-03-01T09:30:00Z` means; without a zone, UTC. `InvalidOption` for anything else."""
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise refused("before", "a time such as 2026-03-01T09:30Z, or how long ago, such as 2h", text) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
