"""Stores against the model, and against each other."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import HealthCheck, settings

from tenure.stores.memory import MemoryStore, Space
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock
from tenure.testing.machine import Party, StoreMachine

LONG = bool(os.environ.get("TENURE_LONG_TESTS"))

profile = settings(
    max_examples=1500 if LONG else 60,
    stateful_step_count=100 if LONG else 50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def memory(clock: ManualClock) -> Party:
    space = Space(clock)
    return Party(lambda: MemoryStore(space))


def sqlite(clock: ManualClock) -> Party:
    folder = tempfile.mkdtemp(prefix="tenure-machine-")
    return Party(lambda: SqliteStore(Path(folder) / "jobs.db", clock=clock), lambda: shutil.rmtree(folder))


class MemoryMachine(StoreMachine):
    def open(self) -> Mapping[str, Party]:
        return {"memory": memory(self.clock)}


class SqliteMachine(StoreMachine):
    def open(self) -> Mapping[str, Party]:
        return {"sqlite": sqlite(self.clock)}


class BothMachine(StoreMachine):
    def open(self) -> Mapping[str, Party]:
        return {"memory": memory(self.clock), "sqlite": sqlite(self.clock)}


TestMemory = MemoryMachine.TestCase
TestSqlite = SqliteMachine.TestCase
TestBoth = BothMachine.TestCase
for case in (TestMemory, TestSqlite, TestBoth):
    case.settings = profile
