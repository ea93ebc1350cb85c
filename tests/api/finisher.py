"""A process, or a thread, that finishes the jobs of one queue in step with another, each pair at one instant."""

from __future__ import annotations

import asyncio
import mmap
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tenure import App
from tenure.jobs.by_hand import Held

__all__ = ["fails", "finish_in_step"]

Meet = Callable[[int], None]
"""Returns in this round when the other has come to it too."""


def fails(round_: int) -> bool:
    """Whether the second of the two fails its job in this round."""
    return round_ % 3 == 2


async def finish_in_step(url: str, queue: str, rounds: int, meet: Meet) -> None:
    """Lease this many jobs, then finish one a round."""
    async with App(url) as app:
        held: list[Held] = []
        while len(held) < rounds:
            held += await app.alease(queue, limit=min(rounds - len(held), 1000), wait=20)
        for round_, each in enumerate(held):
            meet(round_)
            if queue == "second" and fails(round_):
                await each.afail("on purpose")
            else:
                await each.afinish(round_)


def _meeting(path: str, queue: str) -> Meet:
    """A meeting of two processes in a file: each writes the round that it has come to, and looks for the other's."""
    with Path(path).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 16)
    mine, other = (0, 8) if queue == "first" else (8, 0)

    def meet(round_: int) -> None:
        struct.pack_into("q", shared, mine, round_ + 1)
        until = time.monotonic() + 60
        while struct.unpack_from("q", shared, other)[0] <= round_:
            time.sleep(0)
            assert time.monotonic() < until, "the other has not come"

    return meet


if __name__ == "__main__":
    _, url, queue, rounds, path = sys.argv
    asyncio.run(finish_in_step(url, queue, int(rounds), _meeting(path, queue)))
