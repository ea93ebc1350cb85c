"""Resolves ids as users type them: whole, or a beginning that only one job has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenure.cli.messages import CommandError

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["resolve_id", "resolve_ids"]

LEAST = 6
"""The shortest beginning of an id that is accepted, in characters."""

WHOLE = 36
"""The length of an id that Tenure makes, in characters."""

SHOWN = 10
"""The most candidates that an error names."""

_BEGINNING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


async def resolve_ids(app: App, ids: Sequence[str]) -> tuple[str, ...]:
    """The whole ids of these; one that no id begins with is returned unchanged. `CommandError` if one is ambiguous."""
    return tuple([await resolve_id(app, given) for given in ids])


async def resolve_id(app: App, given: str) -> str:
    """The whole id that begins with `given`; rules as for `resolve_ids`."""
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
