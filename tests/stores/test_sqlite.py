"""The SQLite store keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock
from tenure.testing.conformance import MakeStore, StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def make_store(self, clock: ManualClock, tmp_path: Path) -> AsyncIterator[MakeStore]:
        made: list[SqliteStore] = []

        def make() -> SqliteStore:
            made.append(SqliteStore(tmp_path / "jobs.db", clock=clock))
            return made[-1]

        yield make
        for store in made:
            await store.close()
