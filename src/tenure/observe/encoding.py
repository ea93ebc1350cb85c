"""Encodes events as event messages, the short texts that stores publish, and decodes them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable

import msgspec

from tenure.events import KINDS, Event
from tenure.stores.base import MESSAGE_BYTES

__all__ = ["decode", "encode"]

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder(functools.reduce(operator.or_, KINDS.values())).decode


def encode(events: Iterable[Event]) -> list[str]:
    """One message for each event.

    An error is left out if the message would be too long. An event that is still too long is skipped.
    """
    messages = []
    for event in events:
        message = _to_json(event)
        if len(message) > MESSAGE_BYTES and getattr(event, "error", None) is not None:
            message = _to_json(msgspec.structs.replace(event, error=None))
        if len(message) <= MESSAGE_BYTES:
            messages.append(message.decode())
    return messages


def decode(message: str) -> Event | None:
    """The event of a message; None if this version of Tenure does not know it."""
    try:
        event: Event = _from_json(message)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return event
