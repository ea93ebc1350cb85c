"""Sqlite: the bare engine through apsw, with no feature on top."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import apsw
from engine import Engine, other_process

from tenure.core.job import new_id

SCHEMA = """
CREATE TABLE jobs (n INTEGER PRIMARY KEY, id TEXT, task TEXT, queue TEXT, state TEXT, payload TEXT, seq INTEGER,
                   attempt INTEGER DEFAULT 0, nonce INTEGER, lease_until REAL, result TEXT);
CREATE UNIQUE INDEX by_id ON jobs (id);
CREATE INDEX in_line ON jobs (queue, seq) WHERE state = 'waiting';
CREATE INDEX held ON jobs (lease_until) WHERE state = 'running';
"""
INSERT = "INSERT INTO jobs (id, task, queue, state, payload, seq) VALUES (?, 'noop', 'default', 'waiting', '{}', ?)"
FIRST = "SELECT n, id, payload FROM jobs WHERE queue = 'default' AND state = 'waiting' ORDER BY seq LIMIT ?"
LEASE = """UPDATE jobs SET state = 'running', attempt = attempt + 1, nonce = ?2, lease_until = ?3
           WHERE n IN (SELECT value FROM json_each(?1))"""
SETTLE = """UPDATE jobs SET state = 'succeeded', result = 'null', lease_until = NULL
            WHERE n IN (SELECT value FROM json_each(?1)) AND state = 'running' AND nonce = ?2"""


class Sqlite(Engine):
    """Files in one folder."""

    name = "SQLite"
    bars = {  # noqa: RUF012
        "aenqueue": "≥ 60 % of bare",
        "together": "≥ 8×",
        "bulk": "≥ 30 % of bare",
        "drain": "≥ 35 % of bare",
        "two": "≥ 1.0×",
        "p50": "≤ 1.5×",
        "p99": "≤ 3×",
        "idle": "≤ 0.5 %",
        "memory": "≤ 40 MB",
    }

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0

    def fresh(self) -> str:
        self._files += 1
        return f"sqlite:///{self._folder}/tenure-{self._files}.db"

    def enqueue(self, number: int) -> float:
        return fill(self._connect("FULL"), number, batch=1)

    def enqueue_bulk(self, number: int) -> float:
        return fill(self._connect("FULL"), number, batch=1000)

    def drain(self, number: int) -> float:
        """One database thread and one event loop."""
        connection = self._connect("NORMAL")
        fill(connection, number, batch=1000)
        calls: SimpleQueue[Any] = SimpleQueue()

        def serve() -> None:
            while (call := calls.get()) is not None:
                held, nonce, future, loop = call
                connection.execute("BEGIN IMMEDIATE")
                if held:
                    connection.execute(SETTLE, (json.dumps([row[0] for row in held]), nonce - 1))
                rows = connection.execute(FIRST, (self.batch,)).fetchall()
                connection.execute(LEASE, (json.dumps([row[0] for row in rows]), nonce, time.time() + 30))
                connection.execute("COMMIT")
                loop.call_soon_threadsafe(future.set_result, rows)

        async def noop() -> None:
            return None

        async def work() -> None:
            loop = asyncio.get_running_loop()
            held: list[Any] = []
            nonce = 0
            while True:
                nonce += 1
                future: asyncio.Future[list[Any]] = loop.create_future()
                calls.put((held, nonce, future, loop))
                held = await future
                if not held:
                    return
                for row in held:
                    json.loads(row[2])
                    await noop()

        thread = threading.Thread(target=serve)
        thread.start()
        begun = time.perf_counter()
        asyncio.run(work())
        rate = number / (time.perf_counter() - begun)
        calls.put(None)
        thread.join()
        return rate

    def floor(self, number: int) -> list[float]:
        """A durable insert, and a datagram to the other process."""
        connection = self._connect("FULL")
        self._files += 1
        bell = f"{self._folder}/bell-{self._files}"
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        spent = []
        with other_process("floor_sqlite.py", connection.filename, bell) as next_line:
            for index in range(number):
                begun = time.monotonic()
                connection.execute(INSERT, (f"job-{index}", index))
                sender.sendto(b"work", bell)
                spent.append(float(next_line()) - begun)
                time.sleep(0.01)
        return spent

    def bytes_used(self, url: str) -> int:
        path = url.removeprefix("sqlite:///")
        with apsw.Connection(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return Path(path).stat().st_size

    def _connect(self, synchronous: str) -> apsw.Connection:
        """A fresh file with the bare schema."""
        connection = apsw.Connection(str(self._folder / f"bare-{random.getrandbits(32):08x}.db"))
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {synchronous}",
            "cache_size = -16000",
            "wal_autocheckpoint = 4000",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute(SCHEMA).fetchall()
        return connection


def fill(connection: apsw.Connection, number: int, *, batch: int) -> float:
    """Insert `number` jobs, `batch` in each transaction; returns jobs per second."""
    begun = time.perf_counter()
    for start in range(0, number, batch):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, [(new_id(), start + index) for index in range(min(batch, number - start))])
        connection.execute("COMMIT")
    return number / (time.perf_counter() - begun)
