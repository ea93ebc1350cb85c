"""An app on each store, and both ways to call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from tenure import App
from tenure.job import new_id
from tenure.stores.base import Store
from tenure.stores.memory import MemoryStore, Space
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that nobody has used, of each kind."""
    return f"memory://{new_id()}" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    app = App(url)
    yield app
    await app.aclose()


class Timed(NamedTuple):
    app: App
    clock: ManualClock


@pytest.fixture(params=["memory", "sqlite"])
async def timed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Timed]:
    """An app on each store, whose clock moves by hand."""
    clock = ManualClock()
    space = Space(clock)
    make: Callable[[], Store] = (
        (lambda: MemoryStore(space))
        if request.param == "memory"
        else (lambda: SqliteStore(tmp_path / "jobs.db", clock=clock))
    )
    app = App(make)
    yield Timed(app, clock)
    await app.aclose()


class Do(Protocol):
    """Call a blocking method, or await its async twin."""

    def __call__(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


async def _blocking(method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return await asyncio.to_thread(method, *args, **kwargs)


async def _twin(method: Any, /, *args: Any, **kwargs: Any) -> Any:
    return await getattr(method.__self__, f"a{method.__name__}")(*args, **kwargs)


@pytest.fixture(params=[_blocking, _twin], ids=["blocking", "async"])
def do(request: pytest.FixtureRequest) -> Do:
    chosen: Do = request.param
    return chosen


@pytest.fixture
def no_store() -> App:
    """An app that cannot do any I/O."""

    def refuse() -> Store:
        raise AssertionError("I/O")

    return App(refuse)
