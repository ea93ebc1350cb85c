"""Names and patterns of queues, as the server matches them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["regex", "regexes"]


def regexes(patterns: Sequence[str]) -> tuple[str, str]:
    """Regular expressions for the queues that a list serves and for those that it excludes, as `patterns.serves` has it."""
    served = [entry for entry in patterns if not entry.startswith("!")]
    return _any_of(served), _any_of(entry[1:] for entry in patterns if entry.startswith("!"))


def regex(entry: str) -> str:
    """A regular expression for the names that one entry of a list matches, be it what it serves or excludes."""
    return _any_of([entry])


def _any_of(entries: Iterable[str]) -> str:
    # Without any this matches the empty name alone, which no queue has.
    return f"^({'|'.join(map(_entry_regex, entries))})$"


def _entry_regex(entry: str) -> str:
    return "".join(map(_piece_regex, re.findall(r"\[!?\]?[^\]]*\]|.", entry)))


def _piece_regex(piece: str) -> str:
    match piece:
        case "*":
            return ".*"
        case "?":
            return "."
        case _ if len(piece) > 1:
            return f"[{'^' if piece[1] == '!' else ''}{piece[1:-1].removeprefix('!')}]"
        case _:
            return piece if piece.isalnum() or piece == "_" else f"\\{piece}"
