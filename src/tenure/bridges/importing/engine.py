"""`Import`: looks at what another system has, or moves it into the store of an app, and accounts for every entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from tenure.bridges.importing.judge import Judge, Moves, Stays
from tenure.bridges.importing.origin import Origin
from tenure.bridges.importing.values import Account, Entry, Part, Place
from tenure.core.job import new_id
from tenure.errors import InvalidOption, TenureError

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["BATCH", "Import", "WorkersLive"]

Item = TypeVar("Item")
Progress = Callable[[int], None]
"""Called with the number of entries that have been dealt with since the last call."""

BATCH = 500
"""Entries that are moved at a time."""


class WorkersLive(TenureError):
    """Workers of the other system seem to be alive, and would take entries while the import runs."""

    def __init__(self, workers: Sequence[str]) -> None:
        self.workers = tuple(workers)
        shown = ", ".join(each[:80] for each in workers[:3]) + (", …" if len(workers) > 3 else "")
        super().__init__(
            f"workers of the other system seem to be alive ({shown}): stop them first, or import beside them with --while-running"
        )


class Import:
    """Moves entries of another system into the store of an app.

    Each entry is first taken into custody over there, then enqueued under an id that custody knows, then dropped. An import that
    is killed loses nothing: the next one begins with what is in custody, and enqueueing it again under the same id changes
    nothing, as long as the store still has the job. What no task can get goes back to the front of where it was, in its old order.
    """

    def __init__(
        self,
        app: App,
        origin: Origin,
        *,
        queues: Sequence[str] = ("*",),
        to: Mapping[str, str] | None = None,
        scheduled: bool = True,
        failed: bool = False,
        batch: int = BATCH,
    ) -> None:
        """`queues` are names and patterns of the other system. `to` gives its queues other names here."""
        self._app = app
        self._origin = origin
        self._judge = Judge(app, origin, queues, to or {}, scheduled=scheduled)
        self._parts = {Part.WAITING, Part.RUNNING}
        if scheduled:
            self._parts.add(Part.SCHEDULED)
        if failed:
            if not origin.keeps_failures:
                raise InvalidOption(f"{origin.kind} does not keep the jobs that have failed: leave out --failed retry")
            self._parts.add(Part.FAILED)
        self._batch = batch
        self._set_aside: list[tuple[str, Stays | None]] = []
        """Entries in custody that go back at the end, with the reason; None: of a queue that was not asked for."""

    async def check_workers(self) -> None:
        """Raise `WorkersLive` if workers of the other system seem to be alive."""
        if found := await self._origin.workers():
            raise WorkersLive(found)

    async def total(self) -> int:
        """How many entries there are to look at or to move."""
        return len(await self._origin.in_custody()) + sum(map(self._number, await self._places()))

    async def other_queues(self) -> list[str]:
        """Queues of the other system that have entries and were not asked for, by name."""
        places = await self._origin.places()
        return sorted(
            {each.queue for each in places if each.count and each.queue and not self._judge.asks_for(each.queue)}
        )

    async def look(self, progress: Progress = lambda _: None) -> Account:
        """Read everything, and say what would become of it. Changes nothing; `moved` and `left` are what would be."""
        account = Account()
        places = await self._places()  # first, because an origin may need it to read entries
        for entry in await self._origin.in_custody():
            self._account_for(account, entry)
        for place in places:
            if place.stays:
                _account_for_staying(account, place)
                continue
            start = 0
            while entries := await self._origin.look(place, start):
                for entry in entries:
                    if entry.part is place.part:  # else a worker runs it, which another place counts
                        self._account_for(account, entry, is_moved=place.part in self._parts)
                start += len(entries)
                progress(len(entries))
        return account

    async def move(self, progress: Progress = lambda _: None) -> Account:
        """Move everything. Raises the error of either side; the next import moves what is in custody then."""
        account = Account()
        unfinished, places = await self._origin.in_custody(), await self._places()
        account.found = len(unfinished) + sum(map(self._number, places))
        for place in places:
            if place.stays:
                _account_for_staying(account, place)
        for entries in _batches(unfinished, self._batch):
            await self._move(account, entries)
            progress(len(entries))
        while await self._move_places(account, progress):
            pass  # until there is nothing at all: entries may have come, or become due
        await self._put_back(account)
        return account

    async def _places(self) -> list[Place]:
        """The places of the queues that were asked for, and those whose entries say the queue."""
        return [place for place in await self._origin.places() if not place.queue or self._judge.asks_for(place.queue)]

    def _moves(self, place: Place) -> bool:
        return not place.stays and place.part in self._parts

    def _number(self, place: Place) -> int:
        return place.count if self._moves(place) else 0

    async def _move_places(self, account: Account, progress: Progress) -> bool:
        """Move what is in all places now. False if there was nothing."""
        found, batch = False, list[Entry]()
        for place in filter(self._moves, await self._places()):
            left = place.count
            while left > 0:
                ids = [new_id() for _ in range(min(left, self._batch - len(batch)))]
                entries = await self._origin.take(place, ids)
                batch += entries
                left = left - len(entries) if len(entries) == len(ids) else 0
                if len(batch) == self._batch:
                    await self._move(account, batch)
                    progress(len(batch))
                    found, batch = True, []
        if batch:
            await self._move(account, batch)
            progress(len(batch))
        return found or bool(batch)

    async def _move(self, account: Account, entries: Sequence[Entry]) -> None:
        """Make jobs of these entries, which are in custody, and set aside those that no task can get."""
        moving: list[tuple[Entry, Moves]] = []
        for entry in entries:
            judgement = self._judge.judge(entry)
            if isinstance(judgement, Moves):
                moving.append((entry, judgement))
            else:
                self._set_aside.append((entry.id, judgement if isinstance(judgement, Stays) else None))
                if isinstance(judgement, Stays):
                    account.count(judgement.queue, judgement.task, entry.part)
        if moving:
            await self._app.internals.session.store.enqueue([each.job for _, each in moving])
            account.moved += await self._origin.drop([entry.id for entry, _ in moving])
            for entry, each in moving:
                account.count(each.queue, each.task, _part(entry, each))

    async def _put_back(self, account: Account) -> None:
        """Return what was set aside. From the back, so that after a kill custody has what comes before that which has returned."""
        for some in reversed(list(_batches(self._set_aside, self._batch))):
            await self._origin.put_back([entry for entry, _ in some])
        for _, stays in self._set_aside:
            if stays is None:
                account.found -= 1
            else:
                account.left += 1
                account.leave(*stays)
        self._set_aside = []

    def _account_for(self, account: Account, entry: Entry, *, is_moved: bool = True) -> None:
        """Count an entry that was looked at, and what would become of it if its part `is_moved`."""
        judgement = self._judge.judge(entry)
        if not isinstance(judgement, Moves | Stays):
            return
        account.count(judgement.queue, judgement.task, _part(entry, judgement))
        if not is_moved:
            return
        account.found += 1
        if isinstance(judgement, Moves):
            account.moved += 1
        else:
            account.left += 1
            account.leave(*judgement)


def _part(entry: Entry, judgement: Moves | Stays) -> Part:
    """What an entry does: one with a time is scheduled, even where the other system keeps it among those that wait."""
    return Part.SCHEDULED if isinstance(judgement, Moves) and judgement.job.run_at is not None else entry.part


def _account_for_staying(account: Account, place: Place) -> None:
    """Count the entries of a place that are never taken. Those that run are not the import's, so they are neither found nor left."""
    if place.count:
        account.count(place.queue, "", place.part, place.count)
    if place.count and place.part is not Part.RUNNING:
        account.found += place.count
        account.left += place.count
        account.leave(place.queue, "", place.stays, place.count)


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
