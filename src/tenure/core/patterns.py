"""Patterns of queues: expands a list of names and glob patterns into the queues that it serves, in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from tenure.core.checks import name
from tenure.errors import InvalidName, InvalidOption

__all__ = ["checked", "covers", "expand", "has_patterns", "joined", "literal_prefix", "serves", "without"]

_WILD = frozenset("*?[")


def has_patterns(patterns: Iterable[str]) -> bool:
    """Whether the list has a pattern in it, so that the existing queues must be known to expand it."""
    return any(_is_wild(pattern) for pattern in patterns)


def serves(patterns: Sequence[str], queue: str) -> bool:
    """Whether a list serves this queue: an entry matches it and no exclusion does."""
    return any(not entry.startswith("!") and fnmatchcase(queue, entry) for entry in patterns) and not any(
        entry.startswith("!") and fnmatchcase(queue, entry[1:]) for entry in patterns
    )


def covers(patterns: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a list surely serves every queue that another one serves; False if the lists alone do not decide it."""
    exclusions = {entry for entry in patterns if entry.startswith("!")}
    return all(
        serves(patterns, entry) and (not _is_wild(entry) or exclusions.issubset(others))
        for entry in others
        if not entry.startswith("!")
    )


def expand(patterns: Sequence[str], existing: Iterable[str]) -> tuple[str, ...]:
    """The queues to serve, in order of preference and each once; the queues of a pattern come in alphabetical order.

    A name is served even if its queue does not exist yet. `!` excludes, at any position in the list.
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
    """The prefix of all names that this entry of a list matches."""
    return re.split(r"[*?[]", pattern, maxsplit=1)[0]


def joined(patterns: Sequence[str], queue: str) -> tuple[str, ...]:
    """The list with this queue or pattern added at its end; `InvalidOption` if a pattern excludes it."""
    entries = tuple(entry for entry in patterns if entry != f"!{queue}")
    if queue not in entries:
        entries += (queue,)
    if not _is_wild(queue) and not serves(entries, queue):
        excluding = next(entry for entry in entries if entry.startswith("!") and fnmatchcase(queue, entry[1:]))
        raise InvalidOption(f"queue {queue!r} cannot be served: the worker's list excludes it with {excluding!r}")
    return entries


def without(patterns: Sequence[str], queue: str) -> tuple[str, ...]:
    """The list without this queue or pattern, and with an exclusion of it if other entries match it."""
    entries = tuple(entry for entry in patterns if entry != queue)
    overlapping = any(
        fnmatchcase(entry, queue) or (_is_wild(entry) and (_is_wild(queue) or fnmatchcase(queue, entry)))
        for entry in entries
        if not entry.startswith("!")
    )
    excluded = f"!{queue}"
    return (*entries, excluded) if overlapping and excluded not in entries else entries


def checked(patterns: Iterable[str]) -> tuple[str, ...]:
    """The list with its entries stripped; `InvalidName` for an entry that is neither a queue name nor a pattern."""
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
