"""PgQueuer on PostgreSQL: asyncpg, uvloop and batches of 500, which was its fastest setting; variant `one`: batches of one."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from statistics import median

import asyncpg  # type: ignore[import-untyped]
import uvloop
from measured import PAUSE, WARM, arrived, asked, end_after, mark, say, served
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

what, url, number, variant = asked()


async def main() -> None:
    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    if what == "serve":
        await _work(PgQueuer(driver))
        return
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
    elif what == "latency":
        with served() as said:
            for _ in range(WARM):
                await _stamp(queries)
            said(WARM)
            for _ in range(number):
                await asyncio.sleep(PAUSE)
                await _stamp(queries)
            say(median(said(number)))
    else:
        for _ in range(number // 1000):
            await _bulk(queries, 1000)
        end_after(number)
        await _work(PgQueuer(driver))


async def _work(pgq: PgQueuer) -> None:
    @pgq.entrypoint("noop")
    async def noop(_: object) -> None:
        mark()

    @pgq.entrypoint("stamp")
    async def stamp(job: Job) -> None:
        arrived(float(job.payload or b"0"))

    await pgq.run(dequeue_timeout=timedelta(seconds=30), batch_size=1 if variant == "one" else 500)


async def _stamp(queries: Queries) -> None:
    await queries.enqueue("stamp", str(time.monotonic()).encode())


async def _bulk(queries: Queries, size: int) -> None:
    await queries.enqueue(["noop"] * size, [None] * size, [0] * size)


if __name__ == "__main__":
    uvloop.run(main())
