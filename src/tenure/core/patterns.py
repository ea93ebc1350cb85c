"""Which queues a list of names and patterns serves, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from tenure.core.checks import name
from tenure.errors import InvalidName, InvalidOption

__all__ = ["checked", "covers", "expand", "has_patterns", "joined", "literal_prefix", "serves", "without"]

_WILD = frozenset("*?[")


def has_patterns(patterns: Iterable[str]) -> bool:
    """Whether the list has to be compared with the queues that exist."""
    return any(_is_wild(pattern) for pattern in patterns)


def serves(patterns: Sequence[str], queue: str) -> bool:
    """Whether a list serves this queue: some entry matches it and no exclusion does."""
    return any(not entry.startswith("!") and fnmatchcase(queue, entry) for entry in patterns) and not any(
        entry.startswith("!") and fnmatchcase(queue, entry[1:]) for entry in patterns
    )


def covers(patterns: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a list serves every queue that another one does, as far as the two lists tell."""
    exclusions = {entry for entry in patterns if entry.startswith("!")}
    return all(
        serves(patterns, entry) and (not _is_wild(entry) or exclusions.issubset(others))
        for entry in others
        if not entry.startswith("!")
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


def literal_prefix(pattern: str) -> str:
    """What the names that this entry of a list matches begin with."""
    return re.split(r"[*?[]", pattern, maxsplit=1)[0]


def joined(patterns: Sequence[str], queue: str) -> tuple[str, ...]:
    """The list that serves this queue, or pattern of queues, too: at its end. `InvalidOption` if a pattern excludes it."""
    entries = tuple(entry for entry in patterns if entry != f"!{queue}")
    if queue not in entries:
        entries += (queue,)
    if not _is_wild(queue) and not serves(entries, queue):
        excluding = next(entry for entry in entries if entry.startswith("!") and fnmatchcase(queue, entry[1:]))
        raise InvalidOption(f"queue {queue!r} cannot be served: the worker's list excludes {excluding!r}")
    return entries


def without(patterns: Sequence[str], queue: str) -> tuple[str, ...]:
    """The list that does not serve this queue, or pattern of queues: without it, and with an exclusion if others match it."""
    entries = tuple(entry for entry in patterns if entry != queue)
    overlapping = any(
        fnmatchcase(entry, queue) or (_is_wild(entry) and (_is_wild(queue) or fnmatchcase(queue, entry)))
        for entry in entries
        if not entry.startswith("!")
    )
    excluded = f"!{queue}"
    return (*entries, excluded) if overlapping and excluded not in entries else entries


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
