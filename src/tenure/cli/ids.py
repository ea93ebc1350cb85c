"""Ids as people type them: whole, or so much of the beginning that no other job begins like it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenure.cli.messages import CommandError

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["resolve_id", "resolve_ids"]

LEAST = 6
"""Characters of an id that must be given."""

WHOLE = 36
"""Characters of an id that Tenure makes."""

SHOWN = 10
"""Candidates that are named at most."""

_BEGINNING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


async def resolve_ids(app: App, ids: Sequence[str]) -> tuple[str, ...]:
    """The whole ids of these; what begins no id stays as it is. `CommandError` if one of them begins several."""
    return tuple([await resolve_id(app, given) for given in ids])


async def resolve_id(app: App, given: str) -> str:
    """The whole id of this one."""
    if not LEAST <= len(given) < WHOLE or not _BEGINNING.fullmatch(given):
        return given
    store = app.internals.session.store
    if (await store.get([given]))[0] is not None:
        return given
    found = await store.ids(given, SHOWN + 1)
    if len(found) > 1:
        more = " and others" if len(found) > SHOWN else ""
        raise CommandError(f"several ids begin with {given}: {', '.join(sorted(found)[:SHOWN])}{more}; type more of it")
    return found[0] if found else given
