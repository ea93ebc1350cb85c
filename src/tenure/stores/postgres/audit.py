"""Encodes actions of operators as arguments of the operations, and makes a page of the audit of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tenure.stores.postgres.records import dumps
from tenure.stores.postgres.runs import decode_cursor
from tenure.stores.values import ACTIONS, ACTIONS_KEPT, Action, ActionPage

__all__ = ["action_page", "find_arguments", "note_arguments"]

_decode_action = msgspec.json.Decoder(Action).decode


def note_arguments(actions: Sequence[Action]) -> list[Any]:
    """The arguments of `note_actions` after the time."""
    return [[dumps(replace(action, at=0.0)) for action in actions], ACTIONS, ACTIONS_KEPT]


def find_arguments(limit: int, cursor: str | None) -> list[Any]:
    """The arguments of `find_actions` after the time: one row more than the page has, which shows whether there is more."""
    return [ACTIONS_KEPT, limit + 1, decode_cursor(cursor)]


def action_page(rows: Sequence[Any], limit: int) -> ActionPage:
    """A page of the audit."""
    page = rows[:limit]
    actions = [replace(_decode_action(action), at=at) for _, at, action in page]
    return ActionPage(actions, str(page[-1][0]) if len(rows) > limit else None)
