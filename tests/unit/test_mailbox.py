"""`Mailbox`: values are read in order, the oldest are dropped beyond its limit, and its end ends the reader."""

from __future__ import annotations

import asyncio

from tenure.stores.mailbox import Mailbox


async def read_all(box: Mailbox[int]) -> list[int]:
    return [value async for value in box.read()]


async def test_values_are_read_in_order_and_the_oldest_are_dropped() -> None:
    box: Mailbox[int] = Mailbox(3)
    box.put([1, 2])
    box.put([3, 4])
    box.close()

    assert await read_all(box) == [2, 3, 4]


async def test_a_reader_is_woken_by_values_and_by_the_end() -> None:
    box: Mailbox[int] = Mailbox()
    reading = asyncio.create_task(read_all(box))
    await asyncio.sleep(0)
    box.put([1])
    await asyncio.sleep(0)
    box.close()

    async with asyncio.timeout(5):
        assert await reading == [1]


async def test_the_check_is_called_while_nothing_arrives() -> None:
    box: Mailbox[int] = Mailbox()

    async with asyncio.timeout(5):
        assert [value async for value in box.read(box.close, 0.01)] == []
