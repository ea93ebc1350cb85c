"""The app that the benchmarks run: tasks that do nothing, and say when they did it.

BENCH_EVENTS says who wants to know: `nobody`, `log` (a line for each job, in the file BENCH_LOG) or `listener`.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from pathlib import Path

from tenure import App
from tenure.observe.logs import Lines

told: Counter[type] = Counter()
"""How many events of each kind a listener was called with."""


def listen(event: object) -> None:
    told[type(event)] += 1


wanted = os.environ.get("BENCH_EVENTS", "")
if wanted == "log":
    file = Path(os.environ["BENCH_LOG"]).open("w", encoding="utf-8")  # noqa: SIM115
    logging.basicConfig(level=logging.INFO, handlers=[Lines("human", file)])
app = App(
    os.environ["TENURE_URL"],
    log=None if wanted in ("", "log") else False,
    listeners=[listen] if wanted == "listener" else (),
)

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
