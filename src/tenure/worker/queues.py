"""The queues that a worker serves at the moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.errors import InvalidName
from tenure.patterns import checked, expand, has_patterns, joined, without
from tenure.stores.base import Store

__all__ = ["Queues"]

INTERVAL = 1.0
"""Seconds between expansions of the patterns."""


class Queues:
    """A list of names and patterns, and the queues that it means: names for ever, patterns as of the last look."""

    def __init__(self, patterns: Sequence[str], store: Store, changed: Callable[[], None]) -> None:
        self._store = store
        self._changed = changed
        self._existing: list[str] = []
        self.names: tuple[str, ...] = ()
        """In the order in which they are served."""

        self._set(checked(patterns))

    def join(self, queue: str) -> None:
        """Serve this queue, or pattern of queues, after the others; what a pattern means is found by `refresh`."""
        self._set(joined(self.patterns, _entry(queue)))

    def leave(self, queue: str) -> None:
        """Serve it no longer."""
        self._set(without(self.patterns, _entry(queue)))

    async def refresh(self) -> float:
        """Compare the patterns with the queues that exist; seconds until that is worth doing again."""
        if self.changing:
            self.found([queue.name for queue in await self._store.queues()])
        return INTERVAL

    def found(self, existing: list[str]) -> None:
        """Note which queues exist."""
        self._existing = existing
        names = expand(self.patterns, existing)
        if names != self.names:
            self.names = names
            self._changed()

    def _set(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        """As the worker was asked to serve them; another object whenever that changes."""

        self.changing = has_patterns(patterns)
        self.names = expand(patterns, self._existing)


def _entry(queue: str) -> str:
    [entry] = checked([queue])
    if entry.startswith("!"):
        raise InvalidName("queue", queue)
    return entry
