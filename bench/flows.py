"""Measures flows: `flows.py KIND NUMBER` enqueues NUMBER of a kind, works them off, and prints the seconds of both together.

jobs     no-op jobs
five     runs of five steps that do nothing
rich     runs of five steps that each read an attribute and write one
join     runs of a step that waits for 1,000 no-op jobs
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable

import uvloop

from tenure import App, Next

app = App(os.environ["TENURE_URL"])
five, rich, join = app.flow("five"), app.flow("rich"), app.flow("join")
ended = 0
"""How many jobs or runs have ended."""


@app.task
async def noop() -> None:
    end()


async def nothing() -> None:
    """Nothing."""


async def something(n: int) -> dict[str, int]:
    return {"n": n + 1}


async def last() -> None:
    end()


for number in range(1, 5):
    five.step(name=f"s{number}", then=f"s{number + 1}")(nothing)
    rich.step(name=f"s{number}", then=f"s{number + 1}")(something)
five.step(name="s5")(last)
rich.step(name="s5")(last)


@join.step
async def split() -> Next:
    return Next("joined").using(after=[noop.bind() for _ in range(1000)])


@join.step
async def joined(results: list[None]) -> int:
    end()
    return len(results)


def end() -> None:
    global ended  # noqa: PLW0603
    ended += 1


async def jobs_begun(number: int) -> int:
    for begin in range(0, number, 1000):
        await noop.aenqueue_many([()] * min(1000, number - begin))
    return number


async def fives_begun(number: int) -> int:
    for begin in range(0, number, 1000):
        await five.astart_many([{}] * min(1000, number - begin))
    return number


async def riches_begun(number: int) -> int:
    for begin in range(0, number, 1000):
        await rich.astart_many([{"n": 1}] * min(1000, number - begin))
    return number


async def joins_begun(number: int) -> int:
    await join.astart_many([{}] * number)
    return number * 1001


KINDS: dict[str, Callable[[int], Awaitable[int]]] = {
    "jobs": jobs_begun,
    "five": fives_begun,
    "rich": riches_begun,
    "join": joins_begun,
}


async def main(kind: str, number: int) -> None:
    async with app:
        await app.aqueues()
        begun = time.perf_counter()
        expected = await KINDS[kind](number)
        async with app.worker(concurrency=100):
            while ended < expected:
                await asyncio.sleep(0.005)
            print(time.perf_counter() - begun, flush=True)


if __name__ == "__main__":
    logging.disable()  # its advice about the measured servers
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
