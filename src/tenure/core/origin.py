"""The origin of a job: `origin_of` reads from its tags which schedule and tick it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

__all__ = ["RESERVED_TAG", "kept_origin", "origin_of", "origin_tags", "schedule_tag", "user_tags"]

_SCHEDULE, _TICK = "tenure:schedule:", "tenure:tick:"
RESERVED_TAG = "tenure:"
"""Tags that begin with this are Tenure's."""


def origin_tags(name: str, tick: float) -> tuple[str, str]:
    """The tags of a job that this schedule enqueues for this tick."""
    return schedule_tag(name), f"{_TICK}{tick!r}"


def schedule_tag(name: str) -> str:
    """The tag of all jobs of this schedule."""
    return _SCHEDULE + name


def kept_origin(tags: Iterable[str], before: Iterable[str]) -> tuple[str, ...]:
    """These tags, and the origin of a job that had the tags `before`."""
    return (*user_tags(tags), *(tag for tag in before if tag.startswith(RESERVED_TAG)))


def origin_of(tags: Iterable[str]) -> tuple[str | None, float | None]:
    """The schedule and the tick that a job with these tags comes from; None for both if it comes from none."""
    name = tick = None
    for tag in tags:
        if tag.startswith(_SCHEDULE):
            name = tag.removeprefix(_SCHEDULE)
        elif tag.startswith(_TICK):
            try:
                tick = float(tag.removeprefix(_TICK))
                datetime.fromtimestamp(tick, UTC)
            except (ValueError, OverflowError, OSError):
                tick = None
    return (name, tick) if name is not None and tick is not None else (None, None)


def user_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """These tags without those that say where a job comes from."""
    return tuple(tag for tag in tags if not tag.startswith(RESERVED_TAG))
