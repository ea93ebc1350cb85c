"""Encodes the attributes of a run of a flow as JSON, decodes them, and derives the lookup values of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tenure.core.codec import ANY_DECODER, Decode, read, written
from tenure.core.job import Writes
from tenure.errors import InvalidOption, PayloadError, PayloadTooLarge

__all__ = ["decoded", "encoded", "lookup_for", "lookups_of", "write"]

T = TypeVar("T")

NAME = 128
"""The longest name of an attribute, in characters."""

LOOKUP = 256
"""The longest lookup value that is stored as it is, in characters; a longer one is stored as its SHA-256."""


def write(
    attributes: Mapping[str, Any], decoders: Mapping[str, Sequence[Decode]], lookup: Collection[str], limit: int
) -> Writes | None:
    """The writes that give a run these attributes; None if there are none.

    Raises `TypeError` for an invalid name, `PayloadError` for a value that no decoder of its name would give back equal.
    """
    if not attributes:
        return None
    texts = {_checked(name): encoded(name, value, decoders.get(name, ()), limit) for name, value in attributes.items()}
    return Writes(texts, {name: lookups_of(texts[name]) for name in lookup if name in texts})


def encoded(name: str, value: Any, decoders: Sequence[Decode], limit: int) -> str:
    """One attribute as JSON."""
    if value is None and not decoders:
        return "null"
    data = _first_that_fits(lambda decode: written(value, decode, f"attribute {name!r}"), decoders)
    if len(data) > limit:
        raise PayloadTooLarge(len(data), limit)
    return data.decode()


def decoded(name: str, data: bytes, decoders: Sequence[Decode]) -> Any:
    """Decode one attribute with the first of these decoders that accepts it; `PayloadError` if none does."""
    return _first_that_fits(lambda decode: read(decode, data, f"attribute {name!r}"), decoders)


def lookups_of(text: str) -> tuple[str, ...]:
    """The lookup values of an attribute, given as JSON: one for a scalar, one for each scalar in a list, none otherwise."""
    value = msgspec.json.decode(text)
    values = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(_lookup(each) for each in values if isinstance(each, str | int | float)))


def lookup_for(value: object) -> str:
    """The lookup value to search for runs that have this value, or have it in a list; `InvalidOption` if it is no scalar."""
    try:
        text = msgspec.json.encode(value)
    except TypeError:
        text = b"null"
    found = () if text.startswith(b"[") else lookups_of(text.decode())
    if not found:
        raise InvalidOption(f"runs are found by one string, number or bool, got {value!r:.80}")
    return found[0]


def _first_that_fits(attempt: Callable[[Decode], T], decoders: Sequence[Decode]) -> T:
    misfits: list[PayloadError] = []
    for decode in decoders or (ANY_DECODER,):
        try:
            return attempt(decode)
        except PayloadError as misfit:
            misfits.append(misfit)
    raise misfits[0]


def _lookup(value: str | float) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 == 1, so each must find the other
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LOOKUP else hashlib.sha256(text.encode()).hexdigest()


def _checked(name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= NAME or not name.isprintable():
        raise TypeError(
            f"attributes have names of 1 to {NAME} printable characters, got {name!r:.80}: "
            "to end a run with a mapping as its result, return Done(value)"
        )
    return name
