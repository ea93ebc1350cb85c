"""Encodes actions of operators as arguments of the scripts, and decodes pages of the audit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tenure.stores.cursors import number_of
from tenure.stores.redis.encoding import ScriptArg
from tenure.stores.values import ACTIONS, ACTIONS_KEPT, Action, ActionPage

__all__ = ["note_args", "page", "page_args"]

_json = msgspec.json.Encoder().encode
_action = msgspec.json.Decoder(Action).decode
_entry = msgspec.msgpack.Decoder(tuple[int, float, str]).decode


def note_args(actions: Sequence[Action]) -> list[ScriptArg]:
    """The arguments of actions to enter."""
    return [ACTIONS, repr(ACTIONS_KEPT), *map(_json, actions)]


def page_args(limit: int, cursor: str | None) -> list[ScriptArg]:
    """The arguments for a page of the audit; `InvalidOption` for an invalid cursor."""
    return [repr(ACTIONS_KEPT), limit, "" if cursor is None else number_of(cursor)]


def page(reply: tuple[Sequence[bytes], int | None]) -> ActionPage:
    """A page of the audit."""
    entries, last = reply
    found = [replace(_action(action), at=at) for _, at, action in map(_entry, entries)]
    return ActionPage(found, None if last is None else str(last))
