"""What every peer's program does: `PROGRAM enqueue|bulk|drain|latency URL NUMBER [VARIANT]`, one JSON line when it is done.

Each runs at the best settings that its documentation offers, with a function that notes when it ran.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

marks: list[float] = []
"""When each call of the no-op ran."""


def mark() -> None:
    marks.append(time.monotonic())


def rate(number: int, enqueue: Callable[[], Any], times: int) -> None:
    """Call it so many times, and say how many jobs a second that were."""
    begun = time.perf_counter()
    for _ in range(times):
        enqueue()
    say(number / (time.perf_counter() - begun))


def say(found: float) -> None:
    """The figure: jobs a second, or seconds."""
    print(json.dumps(found), flush=True)


WARM = 5
"""Jobs before those whose latency counts."""

PAUSE = 0.01
"""Seconds between those that do: the worker is idle again by then."""


def arrived(begun: float) -> None:
    """Called by the function of a worker: say how long ago its enqueue began."""
    os.write(1, f"{time.monotonic() - begun}\n".encode())  # at once: other threads have something to say as well


@contextmanager
def served() -> Iterator[Callable[[int], list[float]]]:
    """The same program as an idle worker in a process of its own, `PROGRAM serve`; gives what so many of its jobs have said, in order."""
    worker = subprocess.Popen([sys.executable, sys.argv[0], "serve", *sys.argv[2:]], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    lines = worker.stdout
    try:
        yield lambda number: [float(lines.readline()) for _ in range(number)]
    finally:
        worker.kill()
        worker.wait()


def end_after(number: int) -> None:
    """Once so many jobs have run, say how many a second they were, from the first to the last, and end the process."""

    def watch() -> None:
        deadline = time.monotonic() + 120
        while len(marks) < number and time.monotonic() < deadline:
            time.sleep(0.01)
        say((len(marks) - 1) / (marks[-1] - marks[0]) if len(marks) >= number else 0.0)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def asked() -> tuple[str, str, int, str]:
    """What to do, where, how often, and which way."""
    what, url, number, *variant = sys.argv[1:]
    return what, url, int(number), variant[0] if variant else ""
