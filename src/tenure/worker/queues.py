"""The queues that a worker serves at the moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.patterns import expand, has_patterns
from tenure.stores.base import Store

__all__ = ["Queues"]

INTERVAL = 1.0
"""Seconds between expansions of the patterns."""


class Queues:
    """A list of names and patterns, and the queues that it means: names for ever, patterns as of the last look."""

    def __init__(self, patterns: Sequence[str], store: Store, changed: Callable[[], None]) -> None:
        self.patterns = tuple(patterns)
        self.changing = has_patterns(patterns)
        self.names = expand(patterns, ())
        """In the order in which they are served."""

        self._store = store
        self._changed = changed

    async def refresh(self) -> float:
        """Compare the patterns with the queues that exist; seconds until that is worth doing again."""
        names = expand(self.patterns, [queue.name for queue in await self._store.queues()])
        if names != self.names:
            self.names = names
            self._changed()
        return INTERVAL
