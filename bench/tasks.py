"""The app and the tasks of the benchmarks: no-ops that record when they ran.

BENCH_EVENTS says where events go: `none`, `log` (a line for each job, in the file BENCH_LOG) or `listener`. BENCH_HISTORY
is 0 if workers write no history.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from pathlib import Path

from tenure import App
from tenure.observe.logs import Lines

received: Counter[type] = Counter()
"""How many events of each kind the listener got."""


def listen(event: object) -> None:
    received[type(event)] += 1


wanted = os.environ.get("BENCH_EVENTS", "")
if wanted == "log":
    file = Path(os.environ["BENCH_LOG"]).open("w", encoding="utf-8")  # noqa: SIM115
    logging.basicConfig(level=logging.INFO, handlers=[Lines("human", file)])
app = App(
    os.environ["TENURE_URL"],
    log=None if wanted in ("", "log") else False,
    listeners=[listen] if wanted == "listener" else (),
    history=os.environ.get("BENCH_HISTORY") != "0",
)

marks: list[float] = []
"""When each no-op ran, on the clock that all processes share."""


@app.task
async def noop() -> None:
    marks.append(time.monotonic())


@app.task
def noop_in_thread() -> None:
    marks.append(time.monotonic())


ran: Counter[str] = Counter()
"""How many calls of `count` ran. A counter, because a list would distort the measured memory."""


@app.task
async def count() -> None:
    ran["count"] += 1


@app.task
async def stamp() -> float:
    return time.monotonic()
