"""`Session`: the store of an app on one event loop, and what shares it there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic

from tenure.core.checks import seconds
from tenure.core.inbox import NO_RAW
from tenure.core.jitter import full_jitter
from tenure.core.job import NewJob
from tenure.core.options import AppOptions
from tenure.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from tenure.jobs.by_hand import Holder
from tenure.jobs.waiting import Waiting
from tenure.stores.base import Store
from tenure.stores.values import Enqueued

__all__ = ["Session"]

ENQUEUE_TIMEOUT = 5.0
"""Seconds from the start of an enqueue after which it is not tried again."""

LAST_TRY = 0.5
"""Shortest timeout of a try in seconds: a try that starts just before the end must be able to find out what is wrong."""


class Session:
    """The store of an app on one event loop, with the waiting for results and the held jobs that share it."""

    def __init__(self, store: Store, options: AppOptions, raw_inboxes: Mapping[str, NewJob] = NO_RAW) -> None:
        self.store = store
        self.waiting = Waiting(store, wakeup=options.wakeup)
        self.holder = Holder(store, options.payload_limit, raw_inboxes, seconds(options.missing_after, "missing_after"))
        self.is_open = False
        """Whether the store was opened, so that it can make work for a caller's connection."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store all of these jobs or none, trying again during a short outage.

        Trying again is safe because the store knows a repeated job by its id. After five seconds raises `OutcomeUnknown` if
        any try may have succeeded, `StoreUnavailable` if none can have.
        """
        started = monotonic()
        try:
            return await self.store.enqueue(jobs)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return await self.retry_enqueue(jobs, error, started)

    async def retry_enqueue(
        self, jobs: Sequence[NewJob], error: StoreUnavailable | OutcomeUnknown, started: float
    ) -> list[Enqueued]:
        """Retry an enqueue that began at `started` (monotonic) and failed with `error`, as `enqueue` says."""
        deadline = started + ENQUEUE_TIMEOUT
        latest, tries = error, 0
        while (left := deadline - monotonic()) > 0:
            await asyncio.sleep(min(full_jitter(tries, first=0.05, longest=1.0), left))
            tries += 1
            try:
                async with asyncio.timeout(max(deadline - monotonic(), LAST_TRY)):
                    return await self.store.enqueue(jobs)
            except OutcomeUnknown as unknown:
                error = latest = unknown
            except StoreUnavailable as unavailable:
                latest = unavailable
                error = error if isinstance(error, OutcomeUnknown) else unavailable
            except TimeoutError:
                error = latest = OutcomeUnknown(
                    f"the store has not answered for {ENQUEUE_TIMEOUT:g} s. The last error: {latest}"
                )
        if latest is not error:
            raise OutcomeUnknown(f"{error}; and since then: {latest}") from latest
        raise error

    async def open(self) -> Store:
        """The store, opened so that it can make work for a caller's connection. `InvalidOption` if it has no transactions."""
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
