"""A folder with a store in it, and processes that end with the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tenure.stores.sqlite.store import SqliteStore

from .cluster import Cluster
from .processes import Processes


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


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


@pytest.fixture
def cluster(path: Path, tmp_path: Path, processes: Processes) -> Iterator[Cluster]:
    cluster = Cluster(path, tmp_path, processes)
    yield cluster
    cluster.app.close()
