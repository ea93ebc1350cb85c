"""Events as the short texts that stores pass on, and back."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable

import msgspec

from tenure.events import KINDS, Event
from tenure.stores.base import MESSAGE_BYTES

__all__ = ["event_of", "notes_of"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(functools.reduce(operator.or_, KINDS.values())).decode


def notes_of(events: Iterable[Event]) -> list[str]:
    """A note for each, as far as it fits in one: an error may be left out."""
    notes = []
    for event in events:
        note = _encode(event)
        if len(note) > MESSAGE_BYTES and getattr(event, "error", None) is not None:
            note = _encode(msgspec.structs.replace(event, error=None))
        if len(note) <= MESSAGE_BYTES:
            notes.append(note.decode())
    return notes


def event_of(note: str) -> Event | None:
    """What a note says; None if this version of Tenure does not know it."""
    try:
        event: Event = _decode(note)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return event
