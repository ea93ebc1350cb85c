"""The cost of a bridge to Resque: how many no-op jobs it runs a second, and how many calls an idle one makes.

python bench/bridges.py [sqlite|redis|memory ...] prints one line for each bar: the figure, the bar, and whether it is kept. The
servers are private ones; the store of the jobs is the one that is named, and the entries are in another Redis.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the servers of the tests

from tests.servers.server import Server

from tenure import App
from tenure.bridges import Resque

JOBS = 5_000
ROUNDS = 3
IDLE = 20.0
CONCURRENCY = 10


async def rate(store: str, there: Any, url: str) -> float:
    """Entries that a bridge takes, runs and ends in a second."""
    async with App(store, log=False) as app:

        @app.task
        async def noop(number: int) -> None: ...

        there.flushall()
        there.rpush("resque:queue:math", *(json.dumps({"class": "noop", "args": [number]}) for number in range(JOBS)))
        began = time.perf_counter()
        stop = await Resque(app, url).worker(["math"], concurrency=CONCURRENCY).start()
        while int(await asyncio.to_thread(there.get, "resque:stat:processed") or 0) < JOBS:
            await asyncio.sleep(0.01)
        taken = time.perf_counter() - began
        await stop()
        return JOBS / taken


async def idle_calls(store: str, there: Any, url: str, queues: list[str]) -> float:
    """Calls a second of a bridge that finds nothing; the commands inside its scripts do not count."""
    async with App(store, log=False) as app:
        there.flushall()
        stop = await Resque(app, url).worker(queues, concurrency=CONCURRENCY).start()
        await asyncio.sleep(3)
        there.config_resetstat()
        await asyncio.sleep(IDLE)
        sent = ("evalsha", "eval", "blmove", "hgetall", "hvals", "hmget")
        made: int = sum(stats["calls"] for name, stats in there.info("commandstats").items() if name[8:] in sent)
        await stop()
        return made / IDLE


def line(what: str, figure: float, unit: str, bar: float, *, most: bool) -> None:
    kept = figure <= bar if most else figure >= bar
    print(f"{what:<56} {figure:8,.1f} {unit:<4} bar {bar:g} {'kept' if kept else 'MISSED'}", flush=True)


def main(stores: list[str]) -> None:
    logging.getLogger("tenure").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "resque").start()
        own = Server(Path(folder) / "own").start()
        number = 0

        def store(kind: str) -> str:
            nonlocal number
            number += 1
            urls = {
                "sqlite": f"sqlite:///{folder}/jobs{number}.db",
                "redis": f"{own.url}?namespace=n{number}",
                "memory": f"memory://{number}",
            }
            return urls[kind]

        with server.client() as there:
            for kind in stores:
                rates = [uvloop.run(rate(store(kind), there, server.url)) for _ in range(ROUNDS)]
                line(
                    f"no-op jobs, {CONCURRENCY} at a time, store: {kind}",
                    statistics.median(rates),
                    "/s",
                    1_500,
                    most=False,
                )
            # A pattern is looked up every second; one bridge of all also sweeps, with two calls every five seconds.
            for what, queues, bar in (
                ("one queue", ["math"], 1.0),
                ("eight queues", list("abcdefgh"), 1.0),
                ("a pattern", ["*"], 1.5),
            ):
                calls = uvloop.run(idle_calls(store("sqlite"), there, server.url, queues))
                line(f"calls of an idle bridge, {what}", calls, "/s", bar, most=True)
        server.kill()
        own.kill()


if __name__ == "__main__":
    main(sys.argv[1:] or ["memory", "redis", "sqlite"])
