"""give_back_all: returns to another system what workers that are gone have left in custody; it runs no job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from tenure.bridges.source import BridgeSource
from tenure.core.job import new_id
from tenure.worker.sources import Host, Room

if TYPE_CHECKING:
    from tenure.bridges.bridge import Bridge

__all__ = ["Returned", "give_back_all"]


class Returned(NamedTuple):
    """What `give_back_all` has done."""

    returned: int
    """Entries that are at the front of their queues again."""

    left: int
    """Entries that stay in custody: their jobs run, their queues are paused here, or their owners are alive."""


async def give_back_all(bridge: Bridge) -> Returned:
    """Return the entries of all workers that are gone, and write the ends that they have left. For the time after a disaster.

    Raises `StoreError` if one of the two servers does not answer. What was done until then stays; call it again for the rest.
    """
    owner = f"return:{new_id()}"
    store = bridge.app.internals.new_store()
    source = BridgeSource(bridge, ("*",), keep=True)
    source.attach(
        Host(
            store=store,
            stem=owner,
            room=Room(lambda: None),
            worker_id=lambda: owner,
            held=frozenset,
            wake=lambda: None,
            slots=0,
        )
    )
    try:
        await store.open()
        left = await source.give_back_all(owner)
        return Returned(source.returned, left)
    finally:
        await asyncio.gather(source.disconnect(), store.close())
