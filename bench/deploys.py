"""Measures what versions, output and `tenure check` cost: the bars that a deploy without broken jobs must keep.

    python bench/deploys.py            all of them
    python bench/deploys.py versions   one: versions, output or check

A share compares the best turns of both sides, which run in turns. Rates are by CPU time. On a machine that others use too, the
median of the same task twice differs by more than the few per cent that are measured here; the best turns differ by less.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tenure import App

JOBS = 5_000
TURNS = 12

log = logging.getLogger("bench")


async def drained(make: Callable[[App, Callable[[], None]], Any], jobs: int = JOBS) -> float:
    """Jobs that a worker runs in a second of CPU time of the task that `make` declares, on a store in memory."""
    app = App("memory://", log=False)
    done = asyncio.Event()
    left = jobs

    def ended() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    task = make(app, ended)
    await task.aenqueue_many([(1, "a")] * jobs)
    async with app.worker(concurrency=100):
        begun = time.process_time()
        await done.wait()
        took = time.process_time() - begun
    await app.aclose()
    return jobs / took


def plain(app: App, ended: Callable[[], None]) -> Any:
    @app.task
    async def task(number: int, text: str) -> None:  # noqa: ARG001
        ended()

    return task


def versioned(app: App, ended: Callable[[], None]) -> Any:
    @app.task(version=2)
    async def task(number: int, text: str) -> None:  # noqa: ARG001
        ended()

    task.upcast(1)(lambda number: {"number": number, "text": ""})
    return task


def with_output(app: App, ended: Callable[[], None]) -> Any:
    @app.task(output=10_000)
    async def task(number: int, text: str) -> None:  # noqa: ARG001
        ended()

    return task


def talking(output: int) -> Callable[[App, Callable[[], None]], Any]:
    def make(app: App, ended: Callable[[], None]) -> Any:
        @app.task(output=output)
        async def task(number: int, text: str) -> None:  # noqa: ARG001
            for line in range(10):
                log.info("line %d of job %d", line, number)
            ended()

        return task

    return make


def share(name: str, one: Any, other: Any, jobs: int = JOBS) -> None:
    """Print the drain of `one` as a share of that of `other`."""
    asyncio.run(drained(one, 2_000))
    mines, others = [], []
    for turn in range(TURNS):
        pair = [asyncio.run(drained(each, jobs)) for each in ((one, other) if turn % 2 else (other, one))]
        mine, theirs = pair if turn % 2 else pair[::-1]
        mines.append(mine)
        others.append(theirs)
    print(f"{name:60} {max(mines) / max(others):.3f}   ({max(mines):,.0f} jobs/s)", flush=True)


def versions() -> None:
    """Drain of a versioned task, and the time of its decoder beside that of a plain one."""
    share("drain, the same task twice", plain, plain)
    share("drain, version=2 beside no version", versioned, plain)
    app = App("memory://", log=False)
    for name, task in (("without a version", plain(app, print)), ("version=2", versioned(App("memory://"), print))):
        payload, decode = task.bind(1, "a").payload, task._decode
        begun = time.perf_counter()
        for _ in range(200_000):
            decode(payload)
        print(f"decoding, {name:50} {(time.perf_counter() - begun) / 200_000 * 1e9:.0f} ns")


def output() -> None:
    """Drain of tasks that keep their output."""
    share("drain, output=10_000 and no line beside no output", with_output, plain)
    null = logging.StreamHandler(open("/dev/null", "w"))  # noqa: SIM115
    null.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level="INFO", handlers=[null])
    share("drain, ten lines a job, output=10_000 beside /dev/null", talking(10_000), talking(0), 1_000)


CODE = """
from tenure import App
app = App({url!r}, log=False)
"""
TASK = """
@app.task(queue="q{number}")
def task{number}(customer: str, amount: float, tags: list[str], copies: int = 1) -> None: ...
"""


def check() -> None:
    """`tenure check` on 20,000 jobs of 20 tasks, and `--against` a record."""
    with tempfile.TemporaryDirectory() as folder:
        url, code, record = f"sqlite:///{folder}/jobs.db", Path(folder, "code.py"), Path(folder, "tasks.json")
        code.write_text(CODE.format(url=url) + "".join(TASK.format(number=number) for number in range(20)))
        with App(url, log=False) as app:
            for number in range(20):
                remote = app.remote(f"task{number}", queue=f"q{number}")
                remote.enqueue_many([("c", 1.5, ["a", "b"])] * 1_000)
        for name, options in (
            ("check, 20,000 jobs", []),
            ("check --all, 20,000 jobs", ["--all"]),
            ("check --record", ["--record", str(record)]),
            ("check --against", ["--against", str(record)]),
        ):
            times = []
            for _ in range(5):
                begun = time.perf_counter()
                command = [sys.executable, "-m", "tenure", "check", f"{code}:app", *options]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                times.append(time.perf_counter() - begun)
            print(f"{name:60} {median(times):.2f} s   {done.stdout.splitlines()[0]:.60}", flush=True)


if __name__ == "__main__":
    logging.getLogger("tenure").setLevel(logging.ERROR)
    for part in sys.argv[1:] or ["versions", "output", "check"]:
        {"versions": versions, "output": output, "check": check}[part]()
