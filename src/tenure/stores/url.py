"""How the options of a store's URL are read: each by a function of its text and its name, which raises ValueError."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from tenure import checks
from tenure.errors import InvalidName

__all__ = ["Read", "count", "name", "number", "options", "refuse_unless", "seconds", "text", "yes"]

Read = Callable[[str, str], Any]


def options(query: str, known: Mapping[str, Read]) -> dict[str, Any]:
    """What the query of a URL says: each option once, and no other than these."""
    found: dict[str, Any] = {}
    for option, value in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)):
        refuse_unless(option in known, f"it has no option {option!r}, only {', '.join(sorted(known))}")
        refuse_unless(option not in found, f"{option} is given twice")
        found[option] = known[option](value, option)
    return found


def text(value: str, option: str) -> str:
    refuse_unless(value != "", f"{option} is empty")
    return value


def name(value: str, option: str) -> str:
    try:
        return checks.name(option, value)
    except InvalidName as error:
        raise ValueError(str(error)) from None


def number(value: str, option: str) -> int:
    refuse_unless(value.isascii() and value.isdigit(), f"{option} must be a number, got {value!r}")
    return int(value)


def count(value: str, option: str) -> int:
    found = number(value, option)
    refuse_unless(found > 0, f"{option} must be at least 1")
    return found


def seconds(value: str, option: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    refuse_unless(0 < found < math.inf, f"{option} must be a number of seconds, got {value!r}")
    return found


def yes(value: str, option: str) -> bool:
    refuse_unless(value in {"true", "false"}, f"{option} must be true or false, got {value!r}")
    return value == "true"


def refuse_unless(true: bool, why: str) -> None:
    if not true:
        raise ValueError(why)
