"""Measures this checkout beside another one: enqueue, drain and latency of both, in turns, on one server in one run.

    git worktree add ../before HEAD~1
    python bench/versions.py ../before                    on every store
    python bench/versions.py ../before redis --turns 9    on one

The other checkout needs no environment: both run in this one, each with its own `src` first on the path. Each figure is the
median of its turns. The share is this checkout's figure in per cent of the other's, more is better: the median of the shares
of the turns, because the two processes of a turn run one after the other, so that they share most of the load that others
put on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # for the servers of the tests

JOBS = 30_000
ROUNDS = 4
"""How often a process enqueues `JOBS` and drains them: one drain on Redis takes a quarter of a second, too short to tell 3 %."""

SINGLE = 1_000
LATENCIES = 300


async def measured(url: str) -> dict[str, float]:
    """The figures of the imported Tenure on an unused store."""
    from tenure import App

    logging.disable(logging.WARNING)  # a worker's advice about the server
    app = App(url, log=False)
    started: asyncio.Queue[float] = asyncio.Queue()

    left = 0
    drained = asyncio.Event()

    @app.task
    async def noop() -> None:
        # Sets the event when the last job starts. Asking the store every 20 ms would round 260 ms up by as much as 8 %.
        nonlocal left
        left -= 1
        if not left:
            drained.set()

    @app.task(queue="probes")
    async def probe() -> None:
        started.put_nowait(time.perf_counter())

    figures = {}
    await noop.aenqueue()
    began = time.perf_counter()
    for _ in range(SINGLE):
        await noop.aenqueue()
    figures["enqueue one by one"] = SINGLE / (time.perf_counter() - began)
    left = SINGLE + 1

    enqueueing = draining = 0.0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(0, JOBS, 1000):
            await noop.aenqueue_many([()] * 1000)
        enqueueing += time.perf_counter() - began
        left += JOBS
        drained.clear()
        worker = app.worker(concurrency=100)
        began = time.perf_counter()
        await worker.start()
        await drained.wait()
        draining += time.perf_counter() - began
        await worker.stop()
    figures["enqueue 1,000 a call"] = ROUNDS * JOBS / enqueueing
    figures["drain, concurrency 100"] = (ROUNDS * JOBS + SINGLE + 1) / draining

    worker = app.worker(concurrency=100)
    await worker.start()
    waits = []
    for _ in range(LATENCIES):
        await asyncio.sleep(0.002)
        began = time.perf_counter()
        await probe.aenqueue()
        waits.append(await started.get() - began)
    figures["starts after an enqueue, 1/p50"] = 1 / median(waits)
    await worker.stop()
    await app.aclose()
    return figures


def in_a_process(checkout: Path, url: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", url]
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    figures: dict[str, float] = json.loads(said)
    return figures


def compare(engine: Any, other: Path, turns: int) -> None:
    checkouts = (HERE.parent, other.resolve())
    found: list[list[dict[str, float]]] = [[], []]
    for turn in range(turns):
        # In alternating order, because the second of two processes is often slower.
        for which in (0, 1) if turn % 2 else (1, 0):
            found[which].append(in_a_process(checkouts[which], engine.fresh()))
    print(f"\n{engine.name}, medians of {turns} turns")
    for name in found[0][0]:
        ours, theirs = ([turn[name] for turn in each] for each in found)
        share = median(our / their for our, their in zip(ours, theirs, strict=True))
        print(f"  {name:32} {median(ours):>10,.0f}/s {median(theirs):>10,.0f}/s {share:>7.1%}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        import uvloop

        print(json.dumps(uvloop.run(measured(sys.argv[2]))))
        return
    from bare_postgres import Postgres
    from bare_redis import Redis
    from bare_sqlite import Sqlite

    engines: dict[str, Any] = {"sqlite": Sqlite, "redis": Redis, "postgres": Postgres}
    parser = argparse.ArgumentParser(description="Measure this checkout beside another one.")
    parser.add_argument("other", type=Path, help="folder of the other checkout")
    parser.add_argument("stores", nargs="*", choices=[*engines, []], help="the stores to measure; default: all")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.stores or engines:
        with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
            engine = engines[name](Path(folder))
            try:
                compare(engine, arguments.other, arguments.turns)
            finally:
                engine.close()


if __name__ == "__main__":
    main()
