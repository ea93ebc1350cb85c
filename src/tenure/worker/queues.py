"""The queues that a worker serves at the moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.core.patterns import checked, expand, has_patterns, joined, without
from tenure.errors import InvalidName
from tenure.stores.base import MOST, Store

__all__ = ["Queues"]

INTERVAL = 1.0
"""Seconds between looks for queues that have something to do."""


RECENT = 10
"""Queues that it asks for although they had nothing to do at the last look: those that it last had jobs of."""


class Queues:
    """A list of names and patterns, and the queues that it means: all names, and what patterns match that had something to do at the last look."""

    def __init__(self, patterns: Sequence[str], store: Store, changed: Callable[[], None]) -> None:
        self._store = store
        self._changed = changed
        self._busy: tuple[str, ...] = ()
        self._recent: dict[str, None] = {}
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
        """Ask which queues have something to do; seconds until that is worth doing again."""
        await self.find_overdue()
        return INTERVAL

    async def find_overdue(self) -> tuple[str, ...]:
        """As `refresh`; those whose jobs are to be reaped. Without patterns that may be all of them."""
        if not self.changing:
            return self.names
        busy, overdue = await self._store.tend(self.patterns)
        self._busy = busy
        names = self._expanded()
        more = not set(names).issubset(self.names)
        self.names = names
        if more:
            self._changed()
        return overdue

    def add(self, queue: str) -> None:
        """Ask for jobs of this queue too, until the next refresh: it has work."""
        if queue not in self.names:
            self._busy += (queue,)
            self.names = self._expanded()

    def leased_from(self, queue: str) -> None:
        """Ask for jobs of this queue for a while, though it may have none: those that come next are had without a look."""
        if self.changing and queue not in self._recent:
            while len(self._recent) >= RECENT:
                del self._recent[next(iter(self._recent))]
            self._recent[queue] = None

    @property
    def truncated(self) -> bool:
        """Whether more queues may have something to do than are asked for at a time."""
        return self.changing and len(self.names) >= MOST

    def _set(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        """As the worker was asked to serve them; another object whenever that changes."""

        self.changing = has_patterns(patterns)
        self.names = self._expanded()

    def _expanded(self) -> tuple[str, ...]:
        return expand(self.patterns, (*self._busy, *self._recent))


def _entry(queue: str) -> str:
    [entry] = checked([queue])
    if entry.startswith("!"):
        raise InvalidName("queue", queue)
    return entry
