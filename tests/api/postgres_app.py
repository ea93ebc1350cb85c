"""An app on PostgreSQL for tests that enqueue in transactions of their own, which there are many of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tenure import App, Job
from tenure.errors import JobNotFound
from tenure.tasks.task import Task
from tests.conftest import new_schema
from tests.stores.postgres.conftest import sql

__all__ = ["Add", "add", "app", "exists", "postgres_url", "server", "sql", "waiting"]

Add = Task[[int, int], int]

FILLED = ("jobs", "live", "ended", "edges", "uniques", "waiters", "tallies", "counters", "idle")
"""The tables that these tests leave rows in."""


@pytest.fixture(scope="module")
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """One schema for all of these tests, which there are many of."""
    with new_schema(postgres_server_url) as url:
        yield url


@pytest.fixture
async def app(postgres_url: str, sql: Any) -> AsyncIterator[App]:
    app = App(postgres_url)
    yield app
    await app.aclose()
    if await sql.fetchval("SELECT to_regclass('jobs')"):
        # Not TRUNCATE: for a few rows it takes fifty times as long, because it makes new files for every index.
        await sql.execute("; ".join(f"DELETE FROM {table}" for table in FILLED))
        await sql.execute("DROP TABLE IF EXISTS orders")


@pytest.fixture
def add(app: App) -> Add:
    @app.task(queue="sums")
    def add(a: int, b: int) -> int:
        return a + b

    return add


@pytest.fixture
def server(postgres_server_url: str) -> str:
    """The URL of the database, as its users have it."""
    return postgres_server_url.partition("?")[0]


async def exists(job: Job[Any]) -> bool:
    try:
        await job.arefresh()
    except JobNotFound:
        return False
    return True


async def waiting(app: App) -> int:
    return sum(queue.waiting for queue in await app.aqueues())
