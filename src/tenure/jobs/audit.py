"""The audit: `note` records what an operator does, and `described` names the jobs that it is done to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from tenure.stores.base import Store
from tenure.stores.values import ACTION_TEXT, Action, Search

__all__ = ["described", "note"]

log = logging.getLogger("tenure.audit")

_FILTERS = ("state", "scheduled", "queue", "task", "tag", "error", "text", "worker", "before")


async def note(
    store: Store, *, who: str, by: str, what: str, target: str | Sequence[str] = "", count: int | None = None
) -> None:
    """Enter an action in the audit and in the log `tenure.audit`. Raises what the store raises.

    An action on many jobs is noted twice: before it begins without a count, and once it has ended with it.
    """
    named = target if isinstance(target, str) else " ".join(target)
    action = Action(who=_cut(who), by=by, what=_cut(what), target=_cut(named), count=count)
    number = "" if count is None else f", {count:,}"
    log.info("%s (%s): %s %s%s", action.who, action.by, action.what, action.target, number)
    await store.note_actions([action])


def described(search: Search) -> str:
    """A search as the audit shows it: `state=failed queue=mail`; `all` if it has no filter."""
    given = {name: value for name in _FILTERS if (value := getattr(search, name)) is not None}
    if search.before is not None:
        given["before"] = datetime.fromtimestamp(search.before, UTC).isoformat(timespec="seconds")
    return " ".join(f"{name}={value}" for name, value in given.items()) or "all"


def _cut(text: str) -> str:
    return text if len(text) <= ACTION_TEXT else text[: ACTION_TEXT - 1] + "…"
