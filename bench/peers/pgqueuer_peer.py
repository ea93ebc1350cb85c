"""PgQueuer on PostgreSQL: asyncpg and uvloop."""

from __future__ import annotations

import time
from datetime import timedelta

import asyncpg  # type: ignore[import-untyped]
import uvloop
from measured import asked, end_after, mark, say
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

what, url, number, variant = asked()


async def main() -> None:
    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await queries.install()
    if what == "enqueue":
        begun = time.perf_counter()
        for _ in range(number):
            await queries.enqueue("noop", None)
        say(number / (time.perf_counter() - begun))
    elif what == "bulk":
        begun = time.perf_counter()
        for _ in range(number // 1000):
            await _bulk(queries, 1000)
        say(number / (time.perf_counter() - begun))
    else:
        for _ in range(number // 1000):
            await _bulk(queries, 1000)
        pgq = PgQueuer(driver)

        @pgq.entrypoint("noop")
        async def noop(_: object) -> None:
            mark()

        end_after(number)
        await pgq.run(dequeue_timeout=timedelta(seconds=30), batch_size=1 if variant == "one" else 100)


async def _bulk(queries: Queries, size: int) -> None:
    await queries.enqueue(["noop"] * size, [None] * size, [0] * size)


if __name__ == "__main__":
    uvloop.run(main())
