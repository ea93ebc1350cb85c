"""Measures a worker of isolated jobs, and the bare forks that it is compared with.

isolated.py drain CONCURRENCY    waits for a line on standard input, works until no job waits, prints the figures
isolated.py bare NUMBER          forks NUMBER processes one after the other, which end at once; prints processes per second
"""

from __future__ import annotations

import gc
import json
import os
import struct
import sys
import time

from tenure import App
from tenure.stores import open_store
from tenure.worker.isolation import runner  # noqa: F401  (both processes load the same libraries)

app = App(os.environ["TENURE_URL"])

seen, marks = os.pipe()
"""A pipe for the times of each no-op, on the clock that all processes share; it holds 8,000 of them."""

STAMP = struct.Struct("d")


@app.task(isolation="process")
def noop_isolated() -> None:
    os.write(marks, STAMP.pack(time.monotonic()))


def drain(concurrency: int) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    app.worker(concurrency=concurrency).run(until_empty=True)
    cpu = os.times()
    os.close(marks)
    stamps = sorted(stamp for (stamp,) in STAMP.iter_unpack(os.read(seen, 1 << 16)))
    used = cpu.user + cpu.system + cpu.children_user + cpu.children_system
    print(json.dumps({"jobs": len(stamps), "first": stamps[0], "last": stamps[-1], "cpu": used}))


def bare(number: int) -> None:
    open_store(os.environ["TENURE_URL"])  # loads its library
    gc.collect()
    gc.freeze()
    begun = time.perf_counter()
    for _ in range(number):
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
    print(number / (time.perf_counter() - begun))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["drain", concurrency]:
            drain(int(concurrency))
        case ["bare", number]:
            bare(int(number))
