"""Redis servers for the tests of bridges and imports, and an app whose bridge leads to Resque."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tenure import App
from tenure.bridges import Resque
from tenure.core.job import new_id
from tests.servers.server import Server

from .importing import Foreign


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("there")).start()
    yield server
    server.kill()


@pytest.fixture
def there(server: Server) -> Iterator[Any]:
    """A client of the emptied server."""
    with server.client() as client:
        client.flushall()
        yield client


@pytest.fixture
def app() -> Iterator[App]:
    with App(f"memory://{new_id()}", log=False) as app:
        yield app


@pytest.fixture
def resque(app: App, server: Server, there: Any) -> Resque:
    return Resque(app, server.url)


@pytest.fixture
def foreign(redis_server_url: str) -> Iterator[Foreign]:
    """A database of a Redis server for another system, empty at first."""
    server = Foreign(f"{redis_server_url}/9")
    yield server
    server.client.flushdb()
    server.client.close()
