"""Postgres: the bare engine through asyncpg and uvloop (psycopg for blocking code), one statement per operation."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import uvloop
from engine import Engine, other_process
from tests.servers.postgres import Postgres as Server

from tenure.core.job import new_id
from tenure.stores.postgres.address import Address

SCHEMA = """
DROP TABLE IF EXISTS jobs;
CREATE TABLE jobs (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL, task text NOT NULL, queue text NOT NULL,
                   state text NOT NULL, payload bytea NOT NULL, attempt integer NOT NULL DEFAULT 0, nonce bigint,
                   lease_until float8, result text) WITH (fillfactor = 60);
CREATE UNIQUE INDEX by_id ON jobs (id);
CREATE INDEX in_line ON jobs (queue, n) WHERE state = 'waiting';
CREATE INDEX held ON jobs (lease_until) WHERE state = 'running';
"""
INSERT = "INSERT INTO jobs (id, task, queue, state, payload) VALUES ($1, 'noop', 'default', 'waiting', '{}')"
INSERT_MANY = """INSERT INTO jobs (id, task, queue, state, payload)
                 SELECT id, 'noop', 'default', 'waiting', '{}' FROM unnest($1::text[]) AS id"""
SETTLE_AND_LEASE = """
WITH settled AS (
    UPDATE jobs SET state = 'succeeded', result = 'null', lease_until = NULL
    WHERE n = ANY ($1::bigint[]) AND state = 'running' AND nonce = $2
)
UPDATE jobs SET state = 'running', attempt = attempt + 1, nonce = $3, lease_until = $4
WHERE n = ANY (ARRAY(
    SELECT n FROM jobs WHERE queue = 'default' AND state = 'waiting' ORDER BY n LIMIT $5 FOR UPDATE SKIP LOCKED
))
RETURNING n, id, payload
"""
INSERT_AND_NOTIFY = """
WITH stored AS (INSERT INTO jobs (id, task, queue, state, payload) VALUES (%s, 'noop', 'default', 'waiting', '{}') RETURNING n)
SELECT pg_notify('work', '') FROM stored
"""


class Postgres(Engine):
    """Schemas of a server that the benchmark starts, with default settings except memory: commits are durable."""

    name = "PostgreSQL"
    batch = 256
    bars = {  # noqa: RUF012
        "aenqueue": "≥ 75 % of bare",
        "together": "≥ 8×",
        "bulk": "≥ 30 % of bare",
        "drain": "≥ 30 % of bare",
        "two": "≥ 1.3×",
        "p50": "≤ 1.5×",
        "p99": "≤ 3×",
        "idle": "≤ 0.4 %",
        "memory": "≤ 50 MB",
        "calls": "≤ 3",
    }

    def __init__(self, folder: Path) -> None:  # noqa: ARG002
        self._server = Server("-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB").start()
        self._client = psycopg.connect(self._server.url, autocommit=True)
        self._stores = 0
        self.name = f"PostgreSQL {self._client.info.server_version // 10000}"

    def fresh(self) -> str:
        # Otherwise the server would vacuum and write out earlier stores while the next one is measured.
        self._client.execute(f"DROP SCHEMA IF EXISTS bench_{self._stores} CASCADE")
        self._client.execute("CHECKPOINT")
        self._stores += 1
        return f"{self._server.url}?schema=bench_{self._stores}"

    def enqueue(self, number: int) -> float:
        self._empty()
        insert = INSERT.replace("$1", "%s")
        begun = time.perf_counter()
        for _ in range(number):
            self._client.execute(insert, (new_id(),), prepare=True)
        return number / (time.perf_counter() - begun)

    async def aenqueue(self, number: int) -> float:
        self._empty()
        connection = await asyncpg.connect(self._server.url)
        await connection.execute(INSERT, new_id())
        begun = time.perf_counter()
        for _ in range(number):
            await connection.execute(INSERT, new_id())
        rate = number / (time.perf_counter() - begun)
        await connection.close()
        return rate

    def enqueue_bulk(self, number: int) -> float:
        self._empty()
        begun = time.perf_counter()
        for _ in range(number // 1000):
            self._client.execute(INSERT_MANY.replace("$1", "%s"), ([new_id() for _ in range(1000)],), prepare=True)
        return number / (time.perf_counter() - begun)

    def drain(self, number: int) -> float:
        self.enqueue_bulk(number)

        async def noop() -> None:
            return None

        async def work() -> float:
            connection = await asyncpg.connect(self._server.url)
            held: list[int] = []
            nonce = 0
            begun = time.perf_counter()
            while True:
                before, nonce = nonce, random.getrandbits(62)
                rows = await connection.fetch(SETTLE_AND_LEASE, held, before, nonce, time.time() + 30, self.batch)
                held = [row["n"] for row in rows]
                if not held:
                    rate = number / (time.perf_counter() - begun)
                    await connection.close()
                    return rate
                for row in rows:
                    json.loads(row["payload"])
                    await noop()

        return uvloop.run(work())

    def floor(self, number: int) -> list[float]:
        """An insert with a notification, and a process that listens."""
        self._empty()
        spent = []
        with other_process("floor_postgres.py", self._server.url) as next_line:
            for _ in range(number):
                begun = time.monotonic()
                self._client.execute(INSERT_AND_NOTIFY, (new_id(),), prepare=True)
                spent.append(float(next_line()) - begun)
                time.sleep(0.01)
        return spent

    async def orders(
        self, number: int, also: Callable[[Any], Awaitable[object]] | None = None
    ) -> tuple[float, float] | None:
        connection = await asyncpg.connect(self._server.url)
        trips = 0

        def count(_: object) -> None:
            nonlocal trips
            trips += 1

        async def order() -> None:
            async with connection.transaction():
                await connection.execute("INSERT INTO orders (what) VALUES ($1)", "a book")
                if also is not None:
                    await also(connection)

        await connection.execute(
            "DROP TABLE IF EXISTS orders; CREATE TABLE orders (id bigserial PRIMARY KEY, what text)"
        )
        await order()
        connection.add_query_logger(count)
        begun = time.perf_counter()
        for _ in range(number):
            await order()
        spent = time.perf_counter() - begun
        await asyncio.sleep(0)  # the loop calls the query logger
        await connection.close()
        return spent / number, trips / number

    def cpu(self) -> float:
        pid = (self._server.folder / "data" / "postmaster.pid").read_text().split()[0]
        tick = os.sysconf("SC_CLK_TCK")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        # For the first process, including its children that have ended.
        return sum(_ticks(pid)) / tick + sum(sum(_ticks(child)[:2]) for child in children) / tick

    def calls(self) -> int | None:
        """Transactions, because each operation is one."""
        row = self._client.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def bytes_used(self, url: str) -> int:
        schema = Address.from_url(url).schema
        self._client.execute("VACUUM")
        row = self._client.execute(
            "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables WHERE schemaname = %s", (schema,)
        ).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        self._client.close()
        self._server.remove()

    def _empty(self) -> None:
        self._client.execute(SCHEMA)
        self._client.execute("CHECKPOINT")


def _ticks(pid: str) -> tuple[int, int, int, int]:
    """Processor time of a process, user and system, and the same of its children that have ended, in ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0, 0, 0, 0
    return int(fields[11]), int(fields[12]), int(fields[13]), int(fields[14])
