"""The audit: notes what operators do, and lists it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenure.stores.cursors import number_of
from tenure.stores.memory.data import Data
from tenure.stores.values import ACTIONS, ACTIONS_KEPT, Action, ActionPage

__all__ = ["actions", "note"]


def note(data: Data, actions: Sequence[Action]) -> None:
    """Enter actions, and drop those that are no longer kept."""
    first, now = data.actions[0][0] + 1 if data.actions else 1, data.clock.wall()
    new = [(number, replace(action, at=now)) for number, action in enumerate(actions, first)]
    data.actions = [each for each in (*reversed(new), *data.actions) if _kept(data, each[1])][:ACTIONS]


def actions(data: Data, limit: int, cursor: str | None) -> ActionPage:
    """The latest actions, from the cursor on."""
    found = [each for each in data.actions if _kept(data, each[1]) and (cursor is None or each[0] < number_of(cursor))]
    page = found[:limit]
    return ActionPage([action for _, action in page], str(page[-1][0]) if len(found) > limit else None)


def _kept(data: Data, action: Action) -> bool:
    return action.at > data.clock.wall() - ACTIONS_KEPT
