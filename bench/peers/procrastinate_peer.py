"""Procrastinate on PostgreSQL: psycopg, tasks in threads (its plain functions); variant `one`: one at a time."""

from __future__ import annotations

import asyncio
import logging

import psycopg
from measured import asked, end_after, mark, rate
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

what, url, number, variant = asked()
with psycopg.connect(url, autocommit=True) as connection:
    connection.execute("DROP SCHEMA public CASCADE")
    connection.execute("CREATE SCHEMA public")
app = App(connector=SyncPsycopgConnector(conninfo=url))


@app.task(name="noop")
def noop() -> None:
    mark()


async def drain() -> None:
    logging.disable()
    with app.replace_connector(PsycopgConnector(conninfo=url)) as awaited:
        async with awaited.open_async():
            await awaited.run_worker_async(concurrency=1 if variant == "one" else 100, install_signal_handlers=False)


with app.open():
    app.schema_manager.apply_schema()
    if what == "enqueue":
        noop.defer()
        rate(number, noop.defer, number)
    else:
        for _ in range(number // 1000):
            noop.batch_defer(*[{} for _ in range(1000)])
if what == "drain":
    end_after(number)
    asyncio.run(drain())
