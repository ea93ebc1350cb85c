"""What is soaked: a store of each kind, with its own faults, its own measures, and a look at what is left in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from sched import scheduler
from typing import Any, LiteralString, Protocol

import apsw
import psycopg
import redis

from tenure.stores import open_store
from tests.inspection import counted, recounted, rows, sound
from tests.servers.postgres import Postgres
from tests.servers.server import Server

from .growth import MIB, Measure

__all__ = ["SUBJECTS", "Subject"]

KEPT = {"meta", "recent", "queues", "totals", "marker", "arrivals", "ready", "timed", "listeners", "calls", "measured",
        "measures", "marks"}  # fmt: skip
"""Keys that stay when all jobs are gone, or hints that do."""

LONG = 10_000
"""Entries that a list in Redis may be left with: some are shortened only as others come."""


class Subject(Protocol):
    """One store, made in a folder."""

    url: str

    def faults(self, agenda: scheduler, chance: Random) -> dict[str, Callable[[], None]]:
        """What can be done to it, by name; what takes longer is continued by the agenda."""

    def measures(self) -> dict[Measure, float]:
        """How large it is."""

    def disorder(self) -> Iterator[str]:
        """What is wrong inside, once nobody uses it any more."""

    def leftovers(self) -> Iterator[str]:
        """What should be gone, once every job and every process is."""

    def close(self) -> None: ...


class SqliteFile:
    """A file, with doorbells beside it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.db"
        self.url = f"sqlite:///{self.path}"

    def faults(self, agenda: scheduler, chance: Random) -> dict[str, Callable[[], None]]:
        def checkpoint() -> None:
            with contextlib.suppress(apsw.BusyError), self._connection() as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        def read_for_long() -> None:
            connection = self._connection()
            connection.execute("BEGIN; SELECT count(*) FROM tenure_jobs").fetchall()
            agenda.enter(chance.uniform(0.5, 5), 0, connection.close)

        return {"checkpoints": checkpoint, "long readers": read_for_long}

    def measures(self) -> dict[Measure, float]:
        return {
            Measure("file", MIB, factor=1.5, slack=1 * MIB): os.path.getsize(self.path),
            # Long readers let it grow by several MiB a second, and nobody shortens it while it is in use.
            Measure("log", MIB, factor=1.5, slack=64 * MIB): _size(Path(f"{self.path}-wal")),
            Measure("doorbells", slack=30): len(self._bells()),
        }

    def disorder(self) -> Iterator[str]:
        if not sound(self.path):
            yield "SQLite does not find its file in order"
        if counted(self.path) != recounted(self.path):  # I20
            yield f"the counters say {counted(self.path)}, and there are {recounted(self.path)}"

    def leftovers(self) -> Iterator[str]:
        for (table,) in rows(self.path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'tenure_%'"):
            [(number,)] = rows(self.path, f"SELECT count(*) FROM {table}")
            if number and table not in {"tenure_meta", "tenure_queues"}:
                yield f"{number} rows in {table}"
        asyncio.run(_wait_once(self.url))  # whoever hangs up a doorbell takes down those of the dead
        if bells := self._bells():
            yield f"{len(bells)} doorbells, {bells[0]} among them"

    def close(self) -> None:
        """Nothing to end: a file is there without anybody's help."""

    def _connection(self) -> apsw.Connection:
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(100)  # a stopped process may have the lock, and goes on only after this
        return connection

    def _bells(self) -> list[str]:
        bells = Path(f"{self.path}-bells")
        return [name for folder in (bells, bells / "idle") for name in os.listdir(folder) if name != "idle"]


async def _wait_once(url: str) -> None:
    store = open_store(url)
    await store.wait_for_work(("*",), 0.01)
    await store.close()


class RedisServer:
    """A server of its own that writes every step to disk before it answers, and so may be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "redis"
        self._server = Server(
            self._folder, "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size", "4mb"
        ).start()
        self.url = f"{self._server.url}?timeout=2"

    def faults(self, agenda: scheduler, chance: Random) -> dict[str, Callable[[], None]]:
        def restart() -> None:
            self._server.kill()
            time.sleep(chance.uniform(0, 1))
            self._server.start()

        def told(*words: str) -> Callable[[], None]:
            return lambda: self._do(*words)

        return {
            "server kills": restart,
            "script flushes": told("SCRIPT", "FLUSH"),
            "cut connections": told("CLIENT", "KILL", "TYPE", "normal"),
            "cut subscriptions": told("CLIENT", "KILL", "TYPE", "pubsub"),
            "server pauses": told("CLIENT", "PAUSE", "300"),
        }

    def measures(self) -> dict[Measure, float]:
        with self._server.client() as client:
            memory, clients, keys = client.info("memory"), client.info("clients"), client.dbsize()
        return {
            Measure("server memory", MIB, factor=1.3, slack=2 * MIB): memory["used_memory"],
            Measure("log", MIB, factor=2, slack=8 * MIB): sum(map(_size, self._folder.rglob("*.aof"))),
            Measure("clients", slack=20): clients["connected_clients"],
            Measure("keys", slack=50): keys,
        }

    def disorder(self) -> Iterator[str]:
        """Nothing that cannot be seen from outside."""
        yield from ()

    def leftovers(self) -> Iterator[str]:
        with self._server.client() as client:
            for key in client.scan_iter(count=1000):
                _, _, name = key.decode().partition("}:")
                if name.partition(":")[0] not in KEPT:
                    yield f"the key {name}"
                elif client.type(key) == b"list" and client.llen(key) > LONG:
                    yield f"{client.llen(key)} entries in {name}"

    def close(self) -> None:
        self._server.kill()

    def _do(self, *words: str) -> None:
        with contextlib.suppress(redis.RedisError):
            self._server.do(*words)


class PostgresServer:
    """A server of its own, with its usual durability, which may be stopped as if the power had failed."""

    def __init__(self, _folder: Path) -> None:
        # The launcher of vacuums looks once a minute otherwise, which is too seldom for a run of minutes.
        self._server = Postgres("-c", "autovacuum_naptime=5s").start()
        self.url = f"{self._server.url}?timeout=2"

    def faults(self, agenda: scheduler, chance: Random) -> dict[str, Callable[[], None]]:
        def restart() -> None:
            self._server.stop(signal.SIGQUIT)
            time.sleep(chance.uniform(0, 1))
            self._server.start()

        def end_backends() -> None:
            self._rows(f"SELECT pg_terminate_backend(pid) FROM ({_CLIENTS}) AS client")

        def end_a_backend() -> None:
            self._rows(f"SELECT pg_terminate_backend(pid) FROM ({_CLIENTS} ORDER BY random() LIMIT 1) AS client")

        def stay_in_a_transaction() -> None:
            connection = self._connection()
            connection.execute("SELECT count(*) FROM tenure.jobs")
            agenda.enter(chance.uniform(0.5, 5), 0, connection.close)

        return {
            "server kills": restart,
            "all backends ended": end_backends,
            "backends ended": end_a_backend,
            "long transactions": stay_in_a_transaction,
        }

    def measures(self) -> dict[Measure, float]:
        [(tables, clients)] = self._rows(
            "SELECT sum(pg_total_relation_size(c.oid)), (SELECT count(*) FROM pg_stat_activity WHERE state IS NOT NULL) "
            "FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = 'tenure' AND c.relkind = 'r'"
        )
        return {
            # What a long transaction keeps from being vacuumed is as large as what was done meanwhile.
            Measure("tables", MIB, factor=1.5, slack=16 * MIB): float(tables),
            Measure("clients", slack=20): clients,
        }

    def disorder(self) -> Iterator[str]:
        counted = self._rows(
            "SELECT queue, what, sum(number) AS number FROM tenure.counted WHERE worker IS NULL AND what NOT LIKE 'total%' "
            "GROUP BY queue, what HAVING sum(number) <> 0 ORDER BY queue, what"
        )
        recounted = self._rows(
            "SELECT queue, place, count(*) FROM (SELECT queue, tenure.counter_name(state, run_at) AS place FROM tenure.records "
            "UNION ALL SELECT queue, 'handed' FROM tenure.ended WHERE successor IS NOT NULL) AS places "
            "GROUP BY queue, place ORDER BY queue, place"
        )
        if counted != recounted:  # I20
            yield f"the counters say {counted}, and there are {recounted}"

    def leftovers(self) -> Iterator[str]:
        # Sums stay, and those who were idle when they were killed, for a minute.
        limits = {"tallies": LONG, "idle": 100}
        for table in ("jobs", "live", "ended", "edges", "uniques", "waiters", "workers", "wakes", "inbox", *limits):
            [(number,)] = self._rows(f"SELECT count(*) FROM tenure.{table}")
            if number > limits.get(table, 0):
                yield f"{number} rows in {table}"

    def close(self) -> None:
        self._server.remove()

    def _rows(self, statement: LiteralString) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            return connection.execute(statement).fetchall()

    def _connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._server.url)


_CLIENTS: LiteralString = (
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def _size(file: Path) -> int:
    """Bytes of a file that may be gone by now."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


SUBJECTS: dict[str, Callable[[Path], Subject]] = {
    "sqlite": SqliteFile,
    "redis": RedisServer,
    "postgres": PostgresServer,
}
