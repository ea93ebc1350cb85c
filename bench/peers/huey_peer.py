"""Huey, on Redis or on a SQLite file; threads. Variants: `threads` (8), `one`; `loose` does not sync the file."""

from __future__ import annotations

import logging
import time
from statistics import median

from huey import RedisHuey, SqliteHuey
from measured import PAUSE, WARM, arrived, asked, end_after, mark, rate, say, served

what, url, number, variant = asked()
if url.startswith("redis"):
    huey = RedisHuey("bench", url=url, results=False)
else:
    huey = SqliteHuey("bench", filename=url.removeprefix("sqlite:///"), fsync="loose" not in variant, results=False)


@huey.task()
def noop() -> None:
    mark()


@huey.task()
def stamp(begun: float) -> None:
    arrived(begun)


def work() -> None:
    logging.disable()
    huey.create_consumer(workers=1 if "one" in variant else 8, periodic=False, initial_delay=0.01).run()


if what == "enqueue":
    noop()
    rate(number, noop, number)
elif what == "latency":
    with served() as said:
        for _ in range(WARM):
            stamp(time.monotonic())
        said(WARM)
        for _ in range(number):
            time.sleep(PAUSE)
            stamp(time.monotonic())
        say(median(said(number)))
elif what == "serve":
    work()
else:
    for _ in range(number):
        noop()
    end_after(number)
    work()
