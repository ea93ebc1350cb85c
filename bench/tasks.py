"""The app that the benchmarks run: tasks that do nothing, and say when they did it."""

from __future__ import annotations

import os
import time
from collections import Counter

from tenure import App

app = App(os.environ["TENURE_URL"])

marks: list[float] = []
"""When each call of a no-op ran, on the clock that all processes share."""


@app.task
async def noop() -> None:
    marks.append(time.monotonic())


@app.task
def noop_in_thread() -> None:
    marks.append(time.monotonic())


ran: Counter[str] = Counter()
"""How many calls there were of `count`: a list of them would be memory that no worker uses."""


@app.task
async def count() -> None:
    ran["count"] += 1


@app.task
async def stamp() -> float:
    return time.monotonic()
