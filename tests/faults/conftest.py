"""A folder with a store in it, and processes that end with the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenure.stores import open_store
from tenure.stores.base import Store
from tests.conftest import a_url

from .cluster import Cluster
from .processes import Processes
from .scale import lengths


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A store that nobody has used, of each kind that processes can share."""
    return a_url(request)


on_sqlite = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""For tests that do something to the file."""
on_redis = pytest.mark.parametrize("url", ["redis"], indirect=True)
"""For tests of which the other store has a harder one."""
on_one = pytest.mark.parametrize("url", lengths("postgres", "sqlite", "redis"), indirect=True)
"""For tests of what the worker does, whatever the store: the others in long runs."""


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    yield store
    await store.close()


@pytest.fixture
def cluster(url: str, tmp_path: Path, processes: Processes) -> Iterator[Cluster]:
    cluster = Cluster(url, tmp_path, processes)
    yield cluster
    cluster.app.close()
