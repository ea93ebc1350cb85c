"""What an import finds and what becomes of it: `Place`, `Entry`, `Call`, and the `Account` at the end."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

__all__ = ["Account", "Call", "Entry", "LeftBehind", "Part", "Place"]


class Part(StrEnum):
    """What an entry does in the other system."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    FAILED = "failed"
    RUNNING = "running"
    """A worker of the other system has it, or had it when it died."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of one kind in one place of the other system."""

    part: Part
    queue: str
    """The queue; empty if each entry says which."""

    key: str
    count: int
    """How many entries were there at the look."""

    stays: str = ""
    """Why entries of this place are never taken; empty if they are."""

    at: str = ""
    """What the place says about the time of its entries; its origin knows how to read it."""


class Entry(NamedTuple):
    """An entry of the other system, in custody or just looked at."""

    id: str
    """Its id in custody; empty if it was only looked at."""

    part: Part
    queue: str
    """The queue of its place; empty if the entry says which."""

    at: str
    """The score or second that its place has it under; empty if there is none."""

    name: str
    """What the other system calls it; empty if it has no name there."""

    body: bytes
    """As it was there; for a system that keeps jobs apart from queues, what the job's record says."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """The call that an entry stands for."""

    task: str
    """Its function, class or actor, which a task here must have as its name or alias."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    queue: str | None = None
    """The queue that the entry names; None: that of its place."""

    id: str | None = None
    """The id that it has there, which its job gets if it is a random UUID; None: it has none."""

    run_at: float | None = None
    """When it is due, in seconds since the epoch; None: at once."""

    expires_at: float | None = None
    """When it is no longer to be started, in seconds since the epoch."""

    priority: int | None = None
    """None: the task's."""


class LeftBehind(Exception):
    """An entry cannot become a job, and stays where it is; says why."""

    def __init__(self, reason: str, task: str = "", queue: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.task = task
        """The name of its call, as far as it could be read."""

        self.queue = queue
        """The queue that the entry names; None: that of its place."""


class Account:
    """Counts what was found, and what became of it."""

    def __init__(self) -> None:
        self.found = 0
        """Entries that were there when the import began; those of queues that were not asked for do not count."""

        self.moved = 0
        self.left = 0
        self.counts: dict[tuple[str, str], dict[Part, int]] = {}
        """By queue and name of the call: how many there are of each part."""

        self.reasons: dict[tuple[str, str, str], int] = {}
        """By queue, name of the call and reason: how many stay."""

    def count(self, queue: str, task: str, part: Part, number: int = 1) -> None:
        """Count entries that were found."""
        parts = self.counts.setdefault((queue, task), dict.fromkeys(Part, 0))
        parts[part] += number

    def leave(self, queue: str, task: str, reason: str, number: int = 1) -> None:
        """Count entries that stay, and why."""
        key = queue, task, reason
        self.reasons[key] = self.reasons.get(key, 0) + number

    @property
    def difference(self) -> str | None:
        """Why the numbers do not add up, in one sentence; None if they do."""
        missing = self.found - self.moved - self.left
        if missing > 0:
            return f"{_entries(missing)} could no longer be found: workers of the other system may have taken what is missing"
        if missing < 0:
            return f"{_entries(-missing)} came while the import ran, and {'is' if missing == -1 else 'are'} among those moved or left"
        return None

    def document(self) -> Mapping[str, Any]:
        """The account as values for a JSON document."""
        return {
            "queues": [
                {"queue": queue, "name": task, **{part.value: number for part, number in parts.items()}}
                for (queue, task), parts in sorted(self.counts.items())
            ],
            "reasons": [
                {"queue": queue, "name": task, "reason": reason, "count": number}
                for (queue, task, reason), number in sorted(self.reasons.items())
            ],
            "found": self.found,
            "moved": self.moved,
            "left": self.left,
            "difference": self.difference,
        }


def _entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number:,} entries"
