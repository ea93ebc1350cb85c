"""Notes the actions of operators in the audit, and lists them."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.stores.cursors import number_of
from tenure.stores.sqlite.bulk_insert import BulkInsert
from tenure.stores.sqlite.transaction import Transaction
from tenure.stores.values import ACTIONS, ACTIONS_KEPT, Action, ActionPage

__all__ = ["actions", "note"]

_actions = BulkInsert("add_actions", 6)

AFTER_ALL = 1 << 62
"""Greater than the number of any action."""


def note(tx: Transaction, actions: Sequence[Action]) -> None:
    """Enter actions, and delete those that are no longer kept."""
    _actions.insert(tx, [(tx.wall, each.who, each.by, each.what, each.target, each.count) for each in actions])
    tx.run("delete_old_actions", ACTIONS, tx.wall - ACTIONS_KEPT)


def actions(tx: Transaction, limit: int, cursor: str | None) -> ActionPage:
    """The latest actions, from the cursor on."""
    found = tx.all("list_actions", _number(cursor), tx.wall - ACTIONS_KEPT, limit + 1)
    page = [
        Action(who=who, by=by, what=what, target=target, count=count, at=at)
        for _, at, who, by, what, target, count in found[:limit]
    ]
    return ActionPage(page, str(found[limit - 1][0]) if len(found) > limit else None)


def _number(cursor: str | None) -> int:
    return AFTER_ALL if cursor is None else number_of(cursor)
