"""Jobs that are leased and have not started."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tenure.worker.attempt import Attempt

__all__ = ["Buffer"]


class Buffer:
    """First in, first out. Whoever takes a job out has claimed it: a slot, to run it, or the keeper, to give it back.

    The two are in different threads; that a deque gives each item to one of them only is the whole protocol.
    """

    def __init__(self) -> None:
        self._attempts: deque[Attempt] = deque()

    def __len__(self) -> int:
        return len(self._attempts)

    def put(self, attempts: Iterable[Attempt]) -> None:
        """Add jobs, in this order."""
        self._attempts.extend(attempts)

    def claim(self) -> Attempt | None:
        """Take the first; None if there is none."""
        try:
            return self._attempts.popleft()
        except IndexError:
            return None

    def claim_stale(self, leased_before: float) -> list[Attempt]:
        """Take those that were leased before this time, and rarely one more: a slot may take the first under our eyes."""
        stale = []
        while (first := self._first()) is not None and first.leased_at < leased_before:
            if (claimed := self.claim()) is not None:
                stale.append(claimed)
        return stale

    def claim_all(self) -> list[Attempt]:
        """Take all there are."""
        return list(iter(self.claim, None))

    def _first(self) -> Attempt | None:
        try:
            return self._attempts[0]
        except IndexError:
            return None
