"""`Queues`: the queues that a worker serves at the moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.core.patterns import checked, expand, has_patterns, joined, without
from tenure.errors import InvalidName
from tenure.stores.base import Store

__all__ = ["Queues"]

INTERVAL = 1.0
"""Seconds between lookups of the queues that have jobs."""

MOST = 50
"""Queues with something to do that one lease asks for: so no lease takes long, however many there are."""

RECENT = 10
"""Queues that it leases from although they had no jobs at the last lookup: the last ones that it had jobs from."""


class Queues:
    """A list of names and glob patterns, and the queues that it stands for: all names, and the matching queues that had
    jobs at the last lookup.
    """

    def __init__(self, patterns: Sequence[str], store: Store, changed: Callable[[], None]) -> None:
        self._store = store
        self._changed = changed
        self._busy: tuple[str, ...] = ()
        """Those with something to do that it has not passed on from since the last look."""

        self.found: tuple[str, ...] = ()
        """Those with something to do at the last look."""

        self._recent: dict[str, None] = {}
        self.names: tuple[str, ...] = ()
        """Queue names, in the order in which they are served."""

        self._set(checked(patterns))

    def join(self, queue: str) -> None:
        """Serve this queue, or pattern of queues, after the others. `refresh` looks up what a pattern matches."""
        self._set(joined(self.patterns, _entry(queue)))

    def leave(self, queue: str) -> None:
        """Stop serving it."""
        self._set(without(self.patterns, _entry(queue)))

    async def refresh(self) -> float:
        """Look up which queues have jobs. Returns the seconds until the next call."""
        await self.find_overdue()
        return INTERVAL

    async def find_overdue(self) -> tuple[str, ...]:
        """As `refresh`, but returns the queues that may have expired leases. Without patterns these are all queues."""
        if not self.changing:
            return self.names
        busy, overdue = await self._store.busy_queues(self.patterns)
        more = not set(busy).issubset({*self.names, *self.found})
        self._busy = self.found = busy
        self.names = self._expanded()
        if more:
            self._changed()
        return overdue

    def add(self, queue: str) -> None:
        """Lease from this queue too, until the next refresh, because it has jobs."""
        if queue not in self.names:
            self._busy = (queue, *self._busy)
            self.names = self._expanded()

    def leased_from(self, queue: str) -> None:
        """Lease from this queue for a while although it may be empty, so that its next jobs are found without a lookup."""
        if self.changing and queue not in self._recent:
            while len(self._recent) >= RECENT:
                del self._recent[next(iter(self._recent))]
            self._recent[queue] = None

    @property
    def truncated(self) -> bool:
        """Whether more queues may have jobs than fit into one lease request."""
        return self.changing and len(self.found) >= MOST

    def advance(self) -> bool:
        """Ask for the next queues, because these have no more jobs. False if the last look found no others."""
        if len(self._busy) <= MOST:
            return False
        self._busy = self._busy[MOST:]
        self.names = self._expanded()
        return True

    def _set(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        """The names and patterns as given. A new object after each change."""

        self.changing = has_patterns(patterns)
        self.names = self._expanded()

    def _expanded(self) -> tuple[str, ...]:
        return expand(self.patterns, (*self._busy[:MOST], *self._recent))


def _entry(queue: str) -> str:
    [entry] = checked([queue])
    if entry.startswith("!"):
        raise InvalidName("queue", queue)
    return entry
