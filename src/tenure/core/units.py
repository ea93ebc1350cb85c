"""`duration` and `size` write seconds and bytes in their largest fitting unit; `LAST_DAY` is the last time shown."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["LAST_DAY", "duration", "size"]

LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Later times are shown as this one, because a delay may reach beyond the last year that datetime knows."""


def duration(seconds: float) -> str:
    """A time span in its largest fitting unit: 250ms, 12s, 3m, 2h, 5d."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    for limit, unit, sign in ((100, 1, "s"), (100 * 60, 60, "m"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f}{sign}"
    return f"{seconds / 86400:.0f}d"


def size(number: int) -> str:
    """Bytes in their largest fitting unit: 900 B, 45 MB, 2.1 GB."""
    for limit, sign in ((1e3, "B"), (1e6, "kB"), (1e9, "MB")):
        if number < limit:
            return f"{number / limit * 1e3:.0f} {sign}"
    return f"{number / 1e9:.1f} GB"
