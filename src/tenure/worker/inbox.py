"""`Inbox`: turns entries that other programs have put into inboxes into jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tenure.core.inbox import read
from tenure.core.job import JobRecord, NewJob
from tenure.core.outcome import Outcome, Success, Undecodable
from tenure.stores.base import Store

__all__ = ["Inbox", "read_again"]


def read_again(job: JobRecord, limit: int, raw: Mapping[str, NewJob]) -> Outcome:
    """The outcome of a retried inbox entry that could not be read before: the job that it makes now, or `Undecodable`
    again.
    """
    made, error = read(job.queue, job.payload, limit, raw.get(job.queue))
    return Success(msgspec.json.encode(made.id).decode(), (made,)) if error is None else Undecodable(error)


class Inbox:
    """Turns inbox entries into jobs when a lease answer says that there are some; costs nothing otherwise.

    It is not part of the loop that leases, because a full store refuses new jobs while those that it has must still
    run.
    """

    def __init__(
        self,
        store: Store,
        queues: Callable[[], Sequence[str]],
        entry_limit: int,
        raw: Mapping[str, NewJob],
        taken: Callable[[], None],
    ) -> None:
        self._store = store
        self._raw = raw
        self._queues = queues
        self._entry_limit = entry_limit
        self._taken = taken
        self._noticed = asyncio.Event()

    def notice(self) -> None:
        """Record that an inbox has entries."""
        self._noticed.set()

    async def take_in(self) -> float:
        """Wait until an inbox has entries and turn them into jobs. Returns the seconds until the next call."""
        await self._noticed.wait()
        self._noticed.clear()
        try:
            if await self._store.take_in(self._queues(), entry_limit=self._entry_limit, raw=self._raw):
                self._taken()
        except Exception:
            self._noticed.set()
            raise
        return 0.0
