"""`paged` takes one page of rows that are all in memory. `Pager` has the links to the pages around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from tenure.core.checks import refused
from tenure.web.page import Address

__all__ = ["LENGTH", "Pager", "paged"]

T = TypeVar("T")

LENGTH = 100
"""Rows of a page."""


class Pager(msgspec.Struct, frozen=True):
    """Which rows a page shows, and where the others are."""

    text: str
    """Such as `101 to 200 of 1,240`; empty if the page shows all."""

    first: str | None = None
    """Link to the first page; None if this is it."""

    next: str | None = None


def paged(rows: Sequence[T], at: Address, length: int = LENGTH) -> tuple[tuple[T, ...], Pager]:
    """The rows of the page that `page` in the address numbers, from 1."""
    number = _number(at.query.get("page", "1"))
    begin = (number - 1) * length
    shown = tuple(rows[begin : begin + length])
    whole = number == 1 and len(shown) == len(rows)
    return shown, Pager(
        text="" if whole else f"{begin + 1 if shown else 0:,} to {begin + len(shown):,} of {len(rows):,}",
        first=at.with_query(page=None) if number > 1 else None,
        next=at.with_query(page=str(number + 1)) if begin + length < len(rows) else None,
    )


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 100_000:
        raise refused("page", "an integer from 1 to 100,000", text)
    return int(text)
