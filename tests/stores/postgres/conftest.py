"""Store objects on one schema, and a way past them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure.stores.postgres.address import Address
from tenure.stores.postgres.store import PostgresStore
from tests.faults.scale import lengths

from .stepping import STOPS, Race

MakeStore = Callable[..., PostgresStore]


@pytest.fixture
async def make_store(postgres_url: str) -> AsyncIterator[MakeStore]:
    """Gives one more store object on the same data; what is given besides is added to the URL."""
    made: list[PostgresStore] = []

    def make(**options: str) -> PostgresStore:
        made.append(PostgresStore.from_url("&".join([postgres_url, *(f"{k}={v}" for k, v in options.items())])))
        return made[-1]

    yield make
    for store in made:
        await store.close()


@pytest.fixture
async def sql(postgres_url: str) -> AsyncIterator[Any]:
    """A connection of the driver's, with the schema of the store first in its path."""
    address = Address.from_url(postgres_url)
    connection = await asyncpg.connect(address.dsn)
    await connection.execute(f"SET search_path = {address.schema}, public")
    yield connection
    await connection.close()


@pytest.fixture
async def stranger(sql: Any, postgres_url: str) -> AsyncIterator[str]:
    """The name of a role that may do nothing but log in."""
    role = f"r_{Address.from_url(postgres_url).schema}"
    await sql.execute(f"CREATE ROLE {role} LOGIN")
    yield role
    await sql.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture(params=lengths(0, 50))
async def race(make_store: MakeStore, sql: Any, request: pytest.FixtureRequest) -> Race:
    store = make_store()
    await store.open()
    await sql.execute(STOPS)
    return Race(
        sql, store, lambda name: make_store(connections="1", timeout="60", application_name=name), request.param
    )
