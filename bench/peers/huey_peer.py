"""Huey, on Redis or on a SQLite file; threads. Variants: `threads` (8), `one`; `loose` does not sync the file."""

from __future__ import annotations

import logging

from huey import RedisHuey, SqliteHuey
from measured import asked, end_after, mark, rate

what, url, number, variant = asked()
if url.startswith("redis"):
    huey = RedisHuey("bench", url=url, results=False)
else:
    huey = SqliteHuey("bench", filename=url.removeprefix("sqlite:///"), fsync="loose" not in variant, results=False)


@huey.task()
def noop() -> None:
    mark()


if what == "enqueue":
    noop()
    rate(number, noop, number)
else:
    for _ in range(number):
        noop()
    logging.disable()
    end_after(number)
    huey.create_consumer(workers=1 if "one" in variant else 8, periodic=False, initial_delay=0.01).run()
