"""What an app has on one event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from tenure.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from tenure.holder import Holder
from tenure.job import NewJob
from tenure.options import AppOptions
from tenure.stores.base import Store
from tenure.stores.values import Enqueued
from tenure.waiting import Waiting

__all__ = ["Session"]

ENQUEUE_TIMEOUT = 5.0
"""Seconds within which an enqueue that met an outage repeats itself."""


class Session:
    """A store object, and those on its event loop who share it."""

    def __init__(self, store: Store, options: AppOptions) -> None:
        self.store = store
        self.waiting = Waiting(store, wakeup=options.wakeup)
        self.holder = Holder(store, options.payload_limit)
        self.is_open = False
        """Whether errands of the store can be had."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store all of these jobs or none, riding out a short outage: a repeated enqueue is the same jobs, by their ids.

        An outage that outlasts it raises `OutcomeUnknown` if any try may have succeeded, `StoreUnavailable` if none can.
        """
        try:
            return await self.store.enqueue(jobs)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return await self._enqueue_again(jobs, error)

    async def open(self) -> Store:
        """The store, opened, so that its errands can be had; `InvalidOption` if it has none."""
        if not self.store.transactional:
            raise InvalidOption(
                "connection= joins a transaction, and this store has none to join: use postgresql:// or sqlite://"
            )
        if not self.is_open:
            await self.store.open()
            self.is_open = True
        return self.store

    async def close(self) -> None:
        await self.holder.close()
        await self.waiting.close()
        await self.store.close()

    async def _enqueue_again(self, jobs: Sequence[NewJob], error: StoreUnavailable | OutcomeUnknown) -> list[Enqueued]:
        clock = asyncio.get_running_loop().time
        deadline = clock() + ENQUEUE_TIMEOUT
        longest = 0.05
        while clock() < deadline:
            # Full jitter: fifty clients that lost the store together must not return to it together.
            await asyncio.sleep(min(random.random() * longest, deadline - clock()))  # noqa: S311
            longest = min(longest * 2, 1.0)
            try:
                return await self.store.enqueue(jobs)
            except OutcomeUnknown as unknown:
                error = unknown
            except StoreUnavailable as unavailable:
                error = error if isinstance(error, OutcomeUnknown) else unavailable
        raise error
