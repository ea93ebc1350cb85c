"""A worker process under measurement: `child.py drain CONCURRENCY [LIMIT]`, `child.py serve` or `child.py last`.

`drain` waits for a line on standard input, works until no job waits (or LIMIT jobs have run), and prints the time that it
took. `last` reads numbers from standard input, and prints its memory each time that many jobs have run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tasks import app, marks, ran


def run(main: Any) -> None:
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.run(main)
        return
    asyncio.run(main)


async def drain(concurrency: int, limit: int | None) -> None:
    worker = app.worker(concurrency=concurrency)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    cpu = time.process_time()
    await worker.start()
    quiet = 0
    seen = -1
    # Looking at the list costs nothing; asking the store whether it is empty would change what is measured. For two
    # seconds, because a server may stall for one.
    while quiet < 20 and (limit is None or len(marks) < limit):
        await asyncio.sleep(0.1)
        quiet = quiet + 1 if len(marks) == seen else 0
        seen = len(marks)
    cpu = time.process_time() - cpu
    await worker.stop(grace=5)
    jobs = len(marks)
    print(
        json.dumps(
            {"jobs": jobs, "first": marks[0], "last": marks[-1], "marks": marks[:: max(jobs // 200, 1)], "cpu": cpu}
        )
    )


async def serve() -> None:
    worker = app.worker(concurrency=10)
    await worker.start()
    print("ready", flush=True)
    cpu = time.process_time()
    begun = time.monotonic()
    await asyncio.to_thread(sys.stdin.readline)
    used = (time.process_time() - cpu) / (time.monotonic() - begun)
    await worker.stop()
    print(json.dumps({"cpu": used, "rss": memory()}))


async def last() -> None:
    worker = app.worker(concurrency=100)
    await worker.start()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        while ran["count"] < int(line):
            await asyncio.sleep(0.05)
        print(json.dumps({"rss": memory()}), flush=True)


def memory() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["drain", concurrency, *rest]:
            run(drain(int(concurrency), int(rest[0]) if rest else None))
        case ["serve"]:
            run(serve())
        case ["last"]:
            run(last())
