"""Redaction: `redacted` says which values are not shown, by their names, and `redact` hides them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

__all__ = ["HIDDEN", "redact", "redacted"]

T = TypeVar("T")

HIDDEN = "•••"
"""What is shown in place of a value that is hidden."""

_SECRET = ("pass", "secret", "token", "key", "auth", "cookie", "card", "iban")


def redacted(name: str) -> bool:
    """Whether the value of this name is hidden, because the name suggests a secret. Upper and lower case are the same."""
    lower = name.lower()
    return any(part in lower for part in _SECRET)


def redact(values: Mapping[str, T]) -> dict[str, T | str]:
    """The values, with `HIDDEN` in place of those that may be secrets."""
    return {name: HIDDEN if redacted(name) else value for name, value in values.items()}
