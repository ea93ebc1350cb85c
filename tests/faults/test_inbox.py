"""A worker that is killed while it takes in what others have put in the inbox loses nothing and makes nothing twice."""

from __future__ import annotations

import subprocess
import sys

import asyncpg  # type: ignore[import-untyped]
import redis

from tenure.core.job import State
from tenure.stores.base import Store
from tenure.stores.postgres.address import Address as PostgresAddress
from tenure.stores.redis.address import Address as RedisAddress
from tenure.stores.redis.keys import Keys
from tenure.stores.values import Search
from tests.inspection import connected

ENTRIES = 900

TAKER = """
import asyncio, sys
from tenure.stores import open_store

async def main():
    store = open_store(sys.argv[1])
    while await store.take_in(["q"], 3):
        print(flush=True)

asyncio.run(main())
"""


async def test_a_taker_that_is_killed_loses_nothing_and_makes_nothing_twice(url: str, store: Store) -> None:  # F1, H1
    await store.open()
    await put_in(url, [b'{"task":"t","args":[%d]}' % number for number in range(ENTRIES)])

    for steps in (1, 5, 20):
        taker = subprocess.Popen([sys.executable, "-c", TAKER, url], stdout=subprocess.PIPE)
        assert taker.stdout is not None
        for _ in range(steps):
            taker.stdout.readline()
        taker.kill()
        taker.communicate()
    assert len(await waiting(store)) >= 26 * 3
    while await store.take_in(["q"]):
        pass

    # In the order in which they were put in, too.
    assert await waiting(store) == [b'{"args":[%d]}' % number for number in range(ENTRIES)]


async def put_in(url: str, entries: list[bytes]) -> None:
    if url.startswith("sqlite"):
        with connected(url.removeprefix("sqlite:///")) as producer, producer:
            producer.executemany("INSERT INTO tenure_inbox (queue, entry) VALUES ('q', ?)", [(e,) for e in entries])
    elif url.startswith("redis"):
        with redis.Redis.from_url(url.partition("?")[0]) as producer:
            producer.rpush(Keys(RedisAddress.from_url(url).namespace).inbox("q"), *entries)
    else:
        address = PostgresAddress.from_url(url)
        producer = await asyncpg.connect(address.dsn)
        insert = f"INSERT INTO {address.schema}.inbox (queue, entry) VALUES ('q', $1)"
        await producer.executemany(insert, [(entry.decode(),) for entry in entries])
        await producer.close()


async def waiting(store: Store) -> list[bytes]:
    """The payloads of the jobs in line, the first first."""
    return [job.payload for job in (await store.search(Search(state=State.WAITING, queue="q", limit=1000))).jobs]
