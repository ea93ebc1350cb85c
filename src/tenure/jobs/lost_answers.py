"""Requests for leases whose answers were lost, and the jobs that were handed out in them."""

from __future__ import annotations

import asyncio
from time import monotonic

from tenure.core.lifecycle import RELEASE
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest

__all__ = ["LostAnswers", "release_granted"]

PAUSE = 0.5
"""Seconds between questions what a request was given: it may be on its way still."""


async def release_granted(store: Store, request: LeaseRequest) -> bool:
    """Release what this request was given; whether that was anything. The attempts do not count: nothing has started."""
    leases = await store.leases_of(request)
    if leases:
        await store.settle([(lease, RELEASE) for lease in leases])
    return bool(leases)


class LostAnswers:
    """The lost answers of one worker. Nobody else can know that these jobs are in nobody's hands before their leases expire, and then
    they would count as lost.
    """

    def __init__(self) -> None:
        self._requests: list[tuple[LeaseRequest, float]] = []
        self._added = asyncio.Event()

    def add(self, request: LeaseRequest) -> None:
        """Give back what this one was given, once the store says what it was; asked until its leases would have expired."""
        self._requests.append((request, monotonic() + request.ttl))
        self._added.set()

    async def wait(self) -> None:
        """Wait until there is one."""
        await self._added.wait()

    async def release_all(self, store: Store) -> float:
        """Ask once for each; seconds until it is worth asking again."""
        for each in list(self._requests):
            request, until = each
            if await release_granted(store, request) or monotonic() >= until:
                self._requests.remove(each)
        if not self._requests:
            self._added.clear()
        return PAUSE
