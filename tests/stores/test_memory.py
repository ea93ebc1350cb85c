"""The memory store keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tenure.stores.memory import MemoryStore, Space
from tenure.testing.clock import ManualClock
from tenure.testing.conformance import MakeStore, StoreConformance


class TestMemory(StoreConformance):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def make_store(self, clock: ManualClock) -> AsyncIterator[MakeStore]:
        space = Space(clock)
        made: list[MemoryStore] = []

        def make() -> MemoryStore:
            made.append(MemoryStore(space))
            return made[-1]

        yield make
        for store in made:
            await store.close()
