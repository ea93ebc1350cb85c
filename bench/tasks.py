"""The app that the benchmarks run: tasks that do nothing, and say when they did it."""

from __future__ import annotations

import os
import time

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


@app.task
async def stamp() -> float:
    return time.monotonic()
