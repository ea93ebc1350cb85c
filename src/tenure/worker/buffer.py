"""`Buffer`: jobs that are leased and have not started."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tenure.worker.attempt import Attempt

__all__ = ["Buffer"]


class Buffer:
    """A FIFO queue of leased jobs. Taking a job out claims it: a slot claims it to run it, the keeper to release it.

    Slots and keeper are on different threads. No lock is needed, because a deque hands each item to only one of them.
    """

    def __init__(self) -> None:
        self._attempts: deque[Attempt] = deque()

    def __len__(self) -> int:
        return len(self._attempts)

    def put(self, attempts: Iterable[Attempt]) -> None:
        """Add jobs, in this order."""
        self._attempts.extend(attempts)

    def claim(self) -> Attempt | None:
        """Take the first job; None if the buffer is empty."""
        try:
            return self._attempts.popleft()
        except IndexError:
            return None

    def claim_stale(self, leased_before: float) -> list[Attempt]:
        """Take the jobs that were leased before this time.

        Rarely takes one more, when a slot claims the first one at the same moment.
        """
        stale = []
        while (first := self._first()) is not None and first.leased_at < leased_before:
            if (claimed := self.claim()) is not None:
                stale.append(claimed)
        return stale

    def claim_all(self) -> list[Attempt]:
        """Take all jobs."""
        return list(iter(self.claim, None))

    def _first(self) -> Attempt | None:
        try:
            return self._attempts[0]
        except IndexError:
            return None
