"""`number_of` and `numbers_of` read cursors of listings, which come from outside, and refuse what no store has made."""

from __future__ import annotations

import re

import msgspec

from tenure.errors import InvalidOption

__all__ = ["no_cursor", "number_of", "numbers_of"]

_LARGEST = 2**63
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_numbers = msgspec.json.Decoder(tuple[float, ...]).decode


def no_cursor(cursor: str) -> InvalidOption:
    """The error for a cursor that no store has made."""
    return InvalidOption(f"{cursor!r:.80} is no cursor: take the one that came with the page before")


def number_of(cursor: str) -> int:
    """The number that a cursor is; `InvalidOption` for anything else."""
    if not _NUMBER.fullmatch(cursor):
        raise no_cursor(cursor)
    return int(cursor)


def numbers_of(cursor: str, length: int | None = None) -> tuple[float, ...]:
    """The numbers that a cursor holds as JSON, `length` of them; None: any. `InvalidOption` for anything else."""
    try:
        found = _numbers(cursor)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        raise no_cursor(cursor) from None
    if len(found) != (length or len(found)) or not all(-_LARGEST < each < _LARGEST for each in found):
        raise no_cursor(cursor)
    return found
