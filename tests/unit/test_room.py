"""Room: each offer answers one claim, and a lease that was asked for after it."""

from __future__ import annotations

import asyncio
import time

from tenure.worker.sources import Room


def test_an_offer_for_a_lease_that_was_asked_for_before_the_claim_does_not_count() -> None:
    async def claim() -> int:
        woken: list[float] = []
        room = Room(lambda: woken.append(time.monotonic()))
        room.offer(5, time.monotonic())
        before = time.monotonic()
        claiming = asyncio.create_task(room.claim())
        await asyncio.sleep(0)
        assert (len(woken), room.claimed) == (1, True)  # the offer before it does not count
        room.offer(7, before)
        await asyncio.sleep(0)
        assert not claiming.done()
        room.offer(3, time.monotonic())
        return await claiming

    assert asyncio.run(claim()) == 3


def test_an_offer_is_claimed_once() -> None:
    async def claim() -> None:
        room = Room(lambda: None)
        claims = [asyncio.create_task(room.claim()) for _ in range(2)]
        await asyncio.sleep(0)
        room.offer(4, time.monotonic())
        await asyncio.sleep(0.01)
        assert sorted(each.done() for each in claims) == [False, True]
        room.offer(2, time.monotonic())
        assert sorted(await asyncio.gather(*claims)) == [2, 4]

    asyncio.run(claim())
