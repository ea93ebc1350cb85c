"""What every test may need: a store that nobody has used."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Iterator

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis

from tenure.core.job import new_id

from .servers.postgres import SHARED, Postgres
from .servers.schema import Schema
from .servers.server import Server

pytest.register_assert_rewrite(
    "tenure.testing.conformance", "tenure.testing.machine", "tests.faults.absence", "tests.faults.cluster"
)

KINDS = ("memory", "sqlite", "redis", "postgres")
"""The stores, by name."""


@pytest.fixture(scope="session", autouse=True)
def hup_is_not_ignored() -> None:
    """Under nohup SIGHUP is ignored, and programs inherit that; they do not inherit a handler, so tests can send them HUP.

    The test process itself still survives a hang-up.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def a_url(request: pytest.FixtureRequest) -> str:
    """The URL of a new store, for a fixture whose parameter is the name of its kind."""
    match request.param:
        case "memory":
            return f"memory://{new_id()}"
        case "sqlite":
            return f"sqlite:///{request.getfixturevalue('tmp_path')}/jobs.db"
        case "postgres":
            return str(request.getfixturevalue("emptied_postgres_url"))
        case _:
            return str(request.getfixturevalue("redis_url"))


@pytest.fixture(scope="session")
def redis_server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis or Valkey server that no test may harm; one for each process of a run."""
    given = os.environ.get("TEST_REDIS_URL")
    if given:
        yield given
        return
    server = Server(tmp_path_factory.mktemp("redis")).start()
    yield server.url
    server.kill()


@pytest.fixture
def redis_url(redis_server_url: str) -> Iterator[str]:
    """A Redis store that nobody has used: a namespace of its own."""
    namespace = new_id()
    yield f"{redis_server_url}{'&' if '?' in redis_server_url else '?'}namespace={namespace}"
    with redis.Redis.from_url(redis_server_url) as client:
        for key in client.scan_iter(match=f"*{{{namespace}}}*", count=1000):
            client.unlink(key)


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """A PostgreSQL server that no test may harm; one for each process of a run."""
    given = os.environ.get("TEST_POSTGRES_URL")
    if given:
        yield given
        return
    server = Postgres(*SHARED).start()
    yield server.url
    server.remove()


@pytest.fixture
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """A PostgreSQL store that nobody has used: a schema of its own."""
    with new_schema(postgres_server_url) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_schema(postgres_server_url: str) -> Iterator[Schema]:
    """One schema for each process of a run."""
    schema = Schema(postgres_server_url)
    yield schema
    schema.remove()


@pytest.fixture
def emptied_postgres_url(postgres_schema: Schema) -> Iterator[str]:
    """A PostgreSQL store as good as new, for tests that only use it: a tenth of the time."""
    yield postgres_schema.url
    postgres_schema.empty()


@contextlib.contextmanager
def new_schema(server_url: str) -> Iterator[str]:
    """The URL of a store in a schema that is not there yet, and afterwards not any more."""
    schema = f"t{secrets.token_hex(8)}"
    yield f"{server_url}{'&' if '?' in server_url else '?'}schema={schema}"

    async def drop() -> None:
        connection = await asyncpg.connect(server_url)
        await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        await connection.close()

    asyncio.run(drop())
