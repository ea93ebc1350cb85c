"""What every test may need: a store that nobody has used."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis

from tenure.job import new_id

from .servers.server import Server

KINDS = ("memory", "sqlite", "redis")
"""The stores, by name."""


def a_url(request: pytest.FixtureRequest) -> str:
    """The URL of a new store, for a fixture whose parameter is the name of its kind."""
    match request.param:
        case "memory":
            return f"memory://{new_id()}"
        case "sqlite":
            return f"sqlite:///{request.getfixturevalue('tmp_path')}/jobs.db"
        case _:
            url: str = request.getfixturevalue("redis_url")
            return url


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
