"""Which queues a list of names and patterns serves, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from tenure.checks import name
from tenure.errors import InvalidName

__all__ = ["checked", "expand", "has_patterns", "serves"]

_WILD = frozenset("*?[")


def has_patterns(patterns: Iterable[str]) -> bool:
    """Whether the list has to be compared with the queues that exist."""
    return any(_is_wild(pattern) for pattern in patterns)


def serves(patterns: Sequence[str], queue: str) -> bool:
    """Whether a list serves this queue: some entry matches it and no exclusion does."""
    return any(not entry.startswith("!") and fnmatchcase(queue, entry) for entry in patterns) and not any(
        entry.startswith("!") and fnmatchcase(queue, entry[1:]) for entry in patterns
    )


def expand(patterns: Sequence[str], existing: Iterable[str]) -> tuple[str, ...]:
    """The queues to serve, the first first: names as they stand, each pattern's queues in alphabetical order, no queue twice.

    A name is served although it does not exist yet; `!` excludes wherever it stands in the list.
    """
    ordered = sorted(existing)
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        matches = [queue for queue in ordered if fnmatchcase(queue, pattern)] if _is_wild(pattern) else [pattern]
        found.update(dict.fromkeys(queue for queue in matches if serves(patterns, queue)))
    return tuple(found)


def checked(patterns: Iterable[str]) -> tuple[str, ...]:
    """The list without blanks around its entries; `InvalidName` for an entry that is neither a name nor a pattern of one."""
    entries = tuple(pattern.strip() for pattern in patterns)
    for entry in entries:
        bare = entry.removeprefix("!")
        if not _is_wild(bare):
            name("queue", bare)
        elif not all(each.isascii() and (each.isalnum() or each in "*?[]!-_.:") for each in bare):
            raise InvalidName("queue", entry)
    return entries


def _is_wild(pattern: str) -> bool:
    return not _WILD.isdisjoint(pattern)
