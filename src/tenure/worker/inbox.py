"""Taking in what other programs have put in the inboxes of the worker's queues."""

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
    """What becomes of an entry that could not be read, once somebody has put it back in line: the job that it makes now, or nothing."""
    made, error = read(job.queue, job.payload, limit, raw.get(job.queue))
    return Success(msgspec.json.encode(made.id).decode(), (made,)) if error is None else Undecodable(error)


class Inbox:
    """Makes jobs of entries as soon as a lease has said that there are some; costs nothing while there are none.

    It is no part of the loop that leases: a store that is full refuses new jobs, and those that it has must still run.
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
        """Something lies there."""
        self._noticed.set()

    async def take_in(self) -> float:
        """Wait until something was noticed, and take it in; seconds until that is worth doing again."""
        await self._noticed.wait()
        self._noticed.clear()
        try:
            if await self._store.take_in(self._queues(), entry_limit=self._entry_limit, raw=self._raw):
                self._taken()
        except Exception:
            self._noticed.set()
            raise
        return 0.0
