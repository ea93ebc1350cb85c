"""`Seconds`, `Instant` and `Ago`: durations and times as users type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tenure.cli.messages import CommandError

__all__ = ["NEVER", "Ago", "Instant", "Seconds"]

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

NEVER = "none"
"""What users type to remove a bound."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII | re.IGNORECASE)


class Seconds(click.ParamType[Any]):
    """A duration in seconds, or with a unit: 90, 90s, 15m, 2h, 1d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ARG002
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            raise CommandError(
                f"{_option(param)} needs a duration, got {value!r:.80}: write seconds, or 90s, 15m, 2h or 1d"
            )
        return float(found[1]) * UNITS[found[2].lower()]


class Instant(click.ParamType[Any]):
    """A time in ISO 8601 with its offset from UTC; if `removable`, also `NEVER`."""

    name = "time"

    example = "such as 2027-03-01T09:00Z"

    def __init__(self, *, removable: bool = False) -> None:
        self._removable = removable

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        if self._removable and value == NEVER:
            return value
        try:
            at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
        except ValueError:
            raise CommandError(
                f"{_option(param)} needs a time in ISO 8601, {self.example}, got {value!r:.80}"
            ) from None
        if at.utcoffset() is None:
            raise CommandError(
                f"{_option(param)} needs a time with its offset from UTC, got {value!r:.80}: write "
                f"{at.isoformat(timespec='minutes')}Z for UTC, or for example {at.isoformat(timespec='minutes')}+02:00"
            )
        return at


class Ago(Instant):
    """A time in the past: in ISO 8601 with its offset from UTC, or as a duration before now: 90s, 15m, 2h, 1d."""

    example = "such as 2027-03-01T09:00Z, or how long ago it was, such as 2h"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not _DURATION.fullmatch(str(value).strip()):
            return super().convert(value, param, ctx)
        try:
            return datetime.now(UTC) - timedelta(seconds=Seconds().convert(value, param, ctx))
        except OverflowError:
            raise CommandError(f"{_option(param)} is longer ago than any calendar goes: {value!r:.80}") from None


def _option(param: click.Parameter | None) -> str:
    return "it" if param is None else param.opts[0]
