"""Stores against the model, and against each other: the same sequence of calls gives the same answers everywhere."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings

from tenure.core.job import new_id
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.postgres.address import Address as PostgresAddress
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.redis.address import Address
from tenure.stores.redis.keys import Keys
from tenure.stores.redis.store import RedisStore
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock
from tenure.testing.machine import Party, StoreMachine
from tests.inspection import run
from tests.servers.postgres import SHARED, Postgres
from tests.servers.schema import Schema
from tests.servers.server import Server

LONG = bool(os.environ.get("TENURE_LONG"))

pytestmark = pytest.mark.timeout(3600 if LONG else 600)  # a failure takes minutes to be made small


def memory(clock: ManualClock) -> Party:
    data = Data(clock)
    return Party(lambda: MemoryStore(data), MemoryStore(data).put_in)


def sqlite(clock: ManualClock) -> Party:
    folder = tempfile.mkdtemp(prefix="tenure-machine-")
    path = Path(folder) / "jobs.db"

    def put_in(queue: str, entry: bytes) -> None:
        run(path, "INSERT INTO tenure_inbox (queue, entry) VALUES (?, ?)", queue, entry)

    return Party(lambda: SqliteStore(path, clock=clock), put_in, lambda: shutil.rmtree(folder))


def redis_like(clock: ManualClock) -> Party:
    server = _redis_server()
    namespace = new_id()
    address = Address.from_url(f"{server}{'&' if '?' in server else '?'}namespace={namespace}")
    client = redis.Redis.from_url(server)

    def put_in(queue: str, entry: bytes) -> None:
        client.rpush(Keys(namespace).inbox(queue), entry)

    def close() -> None:
        client.unlink(*client.scan_iter(match=f"*{{{namespace}}}*", count=1000))
        client.close()

    return Party(lambda: RedisStore(address, clock=clock), put_in, close)


@functools.cache
def _redis_server() -> str:
    """The URL of one server for all examples, which ends with this process."""
    given = os.environ.get("TEST_REDIS_URL")
    if given:
        return given
    folder = tempfile.mkdtemp(prefix="tenure-machine-")
    atexit.register(shutil.rmtree, folder)
    return Server(Path(folder)).start().url


def postgres(clock: ManualClock) -> Party:
    schema = _postgres_schema()
    address = PostgresAddress.from_url(schema.url)

    def put_in(queue: str, entry: bytes) -> None:
        schema.do(f"INSERT INTO {schema.name}.inbox (queue, entry) VALUES (%s, %s)", queue, entry.decode())

    return Party(lambda: PostgresStore(address, clock=clock), put_in, schema.empty)


@functools.cache
def _postgres_schema() -> Schema:
    """One schema for all examples, in a server that ends with this process."""
    return Schema(os.environ.get("TEST_POSTGRES_URL") or Postgres(*SHARED).start().url)


class MemoryMachine(StoreMachine):
    def open(self) -> Mapping[str, Party]:
        return {"memory": memory(self.clock)}


class AllStoresMachine(StoreMachine):
    def open(self) -> Mapping[str, Party]:
        kinds = {"memory": memory, "sqlite": sqlite, "redis": redis_like, "postgres": postgres}
        return {name: party(self.clock) for name, party in kinds.items()}


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(
    max_examples=1000 if LONG else 100,
    stateful_step_count=100 if LONG else 50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestAllStores = AllStoresMachine.TestCase
TestAllStores.settings = settings(TestMemory.settings, max_examples=500 if LONG else 15)
