"""Stores against the model, and against each other: the same sequence of calls gives the same answers everywhere."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tenure.stores.memory import MemoryStore, Space
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock
from tenure.testing.machine import Party, StoreMachine

LONG = bool(os.environ.get("TENURE_LONG"))

pytestmark = pytest.mark.timeout(3600 if LONG else 600)  # a failure takes minutes to be made small


def memory(clock: ManualClock) -> Party:
    space = Space(clock)
    return Party(lambda: MemoryStore(space))


def sqlite(clock: ManualClock) -> Party:
    folder = tempfile.mkdtemp(prefix="tenure-machine-")
    return Party(lambda: SqliteStore(Path(folder) / "jobs.db", clock=clock), lambda: shutil.rmtree(folder))


class MemoryMachine(StoreMachine):
    def open(self) -> Mapping[str, Party]:
        return {"memory": memory(self.clock)}


class AllStoresMachine(StoreMachine):
    def open(self) -> Mapping[str, Party]:
        return {"memory": memory(self.clock), "sqlite": sqlite(self.clock)}


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(
    max_examples=3000 if LONG else 100,
    stateful_step_count=100 if LONG else 50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestAllStores = AllStoresMachine.TestCase
TestAllStores.settings = settings(TestMemory.settings, max_examples=3000 if LONG else 100)
