"""Regular expressions (regexes) of PostgreSQL for the queue names and glob patterns that a worker serves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["regex", "regexes"]


def regexes(patterns: Sequence[str]) -> tuple[str, str]:
    """Regular expressions for the queues that `patterns` serve and for those that they exclude, as in `patterns.serves`."""
    served = [entry for entry in patterns if not entry.startswith("!")]
    return _any_of(served), _any_of(entry[1:] for entry in patterns if entry.startswith("!"))


def regex(entry: str) -> str:
    """The regular expression for one name or pattern, without the `!` of an exclusion."""
    return _any_of([entry])


def _any_of(entries: Iterable[str]) -> str:
    # Without entries it matches only the empty name, which no queue has.
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
