"""Releases jobs that were leased by a request whose answer was lost."""

from __future__ import annotations

import asyncio
from time import monotonic

from tenure.core.lifecycle import RELEASE
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest

__all__ = ["LostAnswers", "release_granted"]

PAUSE = 0.5
"""Seconds between two questions what a request was given: the request may still be under way."""


async def release_granted(store: Store, request: LeaseRequest) -> bool:
    """Release the jobs that this request was given; False if there were none. The attempts do not count, because none started."""
    leases = await store.leases_of(request)
    if leases:
        await store.settle([(lease, RELEASE) for lease in leases])
    return bool(leases)


class LostAnswers:
    """The lease requests of one worker whose answers were lost.

    Only this worker can know before the leases expire that nothing runs these jobs. After that they would count as lost.
    """

    def __init__(self) -> None:
        self._requests: list[tuple[LeaseRequest, float]] = []
        self._added = asyncio.Event()

    def add(self, request: LeaseRequest) -> None:
        """Release what this request was given, once the store knows it. Tried until the leases would have expired."""
        self._requests.append((request, monotonic() + request.ttl))
        self._added.set()

    async def wait(self) -> None:
        """Wait until there is a request to ask about."""
        await self._added.wait()

    async def release_all(self, store: Store) -> float:
        """Ask the store once about each request. Returns seconds until the next round."""
        for each in list(self._requests):
            request, until = each
            if await release_granted(store, request) or monotonic() >= until:
                self._requests.remove(each)
        if not self._requests:
            self._added.clear()
        return PAUSE
