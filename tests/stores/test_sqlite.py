"""The SQLite store keeps the contract."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from tenure.stores.base import Store
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock
from tenure.testing.conformance import MakeStore, PutIn, StoreConformance, Transactions


class TestSqlite(Transactions, StoreConformance):
    library = Library.APSW

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def make_store(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[MakeStore]:
        made: list[SqliteStore] = []

        def make() -> SqliteStore:
            made.append(SqliteStore(tmp_path / "jobs.db", clock=clock, library=self.library))
            return made[-1]

        yield make
        for store in made:
            await store.close()

    @pytest.fixture
    async def put_in(self, store: Store, tmp_path: Path) -> AsyncIterator[PutIn]:
        # By the library that the store uses: two copies of SQLite in one process undo each other's locks.
        await store.open()
        path = str(tmp_path / "jobs.db")
        producer = (
            apsw.Connection(path) if self.library is Library.APSW else sqlite3.connect(path, isolation_level=None)
        )

        async def put_in(queue: str, entry: bytes) -> None:
            producer.execute("INSERT INTO tenure_inbox (queue, entry) VALUES (?, ?)", (queue, entry))

        producer.execute("PRAGMA busy_timeout = 10000")  # by itself apsw's does not wait for whoever is writing
        yield put_in
        producer.close()


@pytest.mark.long
class TestSqliteThroughPythonsLibrary(TestSqlite):
    """The same statements through the other library; what differs is tested in test_sqlite_transactions.py, in every run."""

    library = Library.PYTHON
