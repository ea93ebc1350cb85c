"""A worker of Queuert's type `slow` that a test can kill: `python -m tests.bridges.queuert_program STORE QUEUERT SCHEMA FOLDER`.

Each attempt appends a line to `started` in the folder, and waits there for the file `go`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tenure import App
from tenure.bridges import Queuert

store, url, schema, folder = *sys.argv[1:4], Path(sys.argv[4])
app = App(store, lease=1, missing_after=1.5)
queuert = Queuert(app, url, schema=schema)


@queuert.processor("slow", lease=20)
def slow(number: int) -> int:
    with (folder / "started").open("a") as started:
        started.write(f"{number}\n")
    while not (folder / "go").exists():
        time.sleep(0.01)
    return number


if __name__ == "__main__":
    queuert.worker(concurrency=2, beat=0.5).run()
