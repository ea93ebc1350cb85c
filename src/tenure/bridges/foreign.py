"""`Foreign`: the steps of the hand-over, as one other system carries them out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence

from tenure.bridges.custody import Begun, Custody, End, Look, Stopped, Taken
from tenure.errors import StoreError
from tenure.worker.chores import Chore

__all__ = ["Cancel", "Foreign", "ForeignError"]

Cancel = Callable[[Sequence[str]], Awaitable[list[str]]]
"""Cancels jobs by id, also those that run. Returns the ids that the store does not have, or not yet."""


class ForeignError(StoreError):
    """The other system did not answer, or refused; the message says which and why."""


class Foreign(ABC):
    """A connection to another system, for one event loop. Every method is one atomic step there.

    All its errors are `ForeignError`. A step whose answer was lost may be repeated: what it has done, it does not
    do again.
    """

    renew_every: float = 60.0
    """Seconds between two calls of `renew`."""

    custody_is_hold: bool = False
    """Whether custody ends by itself when the other system takes an entry back. Then a job of this bridge that starts here is
    cancelled if its entry is not in custody, and all its jobs must be those of entries."""

    place: str = ""
    """Where its custody is, without a password. One of all bridges of the same place sweeps at a time."""

    @abstractmethod
    async def enter(self, owner: str, slots: int) -> None:
        """Write the records by which the other system's tools show this worker and its slots."""

    @abstractmethod
    async def leave(self, owner: str) -> None:
        """Remove the records of a worker that has stopped, or died. Its jobs do not count as failed."""

    async def beat(self, owner: str, seconds: float) -> None:  # noqa: B027
        """Note that this worker lives, for `seconds` from now; 0 ends it. For bridges with another store (`alive`)."""

    async def alive(self, owners: Sequence[str]) -> frozenset[str]:  # noqa: ARG002
        """Which of these workers have noted that they live."""
        return frozenset()

    @abstractmethod
    async def take(self, owner: str, ids: Sequence[str]) -> list[Taken]:
        """Take up to one entry for each of these new ids into custody, in the order of the queues.

        Within a queue the entries get the ids in this order. With no ids: take nothing, and return to their queues the entries that
        `wait` has put aside.
        """

    @abstractmethod
    async def wait(self, timeout: float) -> None:
        """Wait until an entry may have come, for `timeout` seconds at most. It may put entries aside for the next `take`."""

    @abstractmethod
    async def record(self, owner: str, ends: Sequence[End], begun: Sequence[Begun], stopped: Sequence[Stopped]) -> None:
        """Write what became of entries: first those that have ended, then those that stopped, then those that began.

        An end removes the entry from custody. For an entry that is not in custody it does nothing, and for one that was taken back
        there nothing else. A cancelled job counts as one that has ended, and not as failed.
        """

    @abstractmethod
    async def renew(self, owner: str, ids: Sequence[str]) -> list[str]:
        """Prolong the hold on these entries, and the records of the worker. Returns the ids that were taken back there.

        Records that `leave` has removed are not written again: the two may be called at the same moment.
        """

    @abstractmethod
    async def look(self) -> Look:
        """Everything in custody, of all owners."""

    async def find(self, ids: Sequence[str]) -> list[Custody]:
        """Those of these entries that are in custody, of all owners."""
        wanted = {*ids}
        return [entry for entry in (await self.look()).entries if entry.id in wanted]

    @abstractmethod
    async def held_there(self, ids: Sequence[str]) -> list[bool]:
        """Whether the other system still counts each of these entries as held by us."""

    @abstractmethod
    async def adopt(self, job_id: str, owner: str, adopter: str) -> bool:
        """Change the owner of an entry. False, changing nothing, if `owner` no longer owns it."""

    @abstractmethod
    async def mark_returning(self, ids: Sequence[str]) -> None:
        """Note in custody that these are being given back. From then on any bridge may finish that."""

    @abstractmethod
    async def give_back(self, ids: Sequence[str]) -> None:
        """Put these entries to the front of their queues, the first of them foremost, and drop their custody."""

    @abstractmethod
    async def let_go(self, ids: Sequence[str]) -> None:
        """Drop the custody of entries that the other system has taken back."""

    def chores(self, cancel: Cancel) -> Mapping[str, Chore]:  # noqa: ARG002
        """What else to do again and again while the worker runs, each under a name for the log.

        `cancel` cancels jobs here whose entries the other system no longer wants to run. Their ends are then written as usual.
        """
        return {}

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""
