"""The PostgreSQL store keeps the contract, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure.stores.postgres.address import Address
from tenure.stores.postgres.store import PostgresStore
from tenure.testing.clock import ManualClock
from tenure.testing.conformance import MakeStore, PutIn, StoreConformance, Transactions


class TestPostgres(Transactions, StoreConformance):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def make_store(self, clock: ManualClock, emptied_postgres_url: str) -> AsyncIterator[MakeStore]:
        # What a thousand jobs do in one call may take long while other tests run.
        address = Address.from_url(f"{emptied_postgres_url}&timeout=30")
        made: list[PostgresStore] = []

        def make() -> PostgresStore:
            made.append(PostgresStore(address, clock=clock))
            return made[-1]

        yield make
        for store in made:
            await store.close()

    @pytest.fixture
    async def put_in(self, make_store: MakeStore, emptied_postgres_url: str) -> AsyncIterator[PutIn]:
        await make_store().open()
        address = Address.from_url(emptied_postgres_url)
        producer = await asyncpg.connect(address.dsn)

        async def put_in(queue: str, entry: bytes) -> None:
            try:
                column, value = "entry", entry.decode()
            except UnicodeDecodeError:
                column, value = "bytes", entry  # type: ignore[assignment]
            await producer.execute(
                f'INSERT INTO "{address.schema}".inbox (queue, {column}) VALUES ($1, $2)', queue, value
            )

        yield put_in
        await producer.close()
