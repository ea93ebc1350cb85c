"""An app on each store, and both ways to call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, Protocol

import pytest

from tenure import App, Context, Flow, Next
from tenure.stores.base import Store
from tenure.stores.memory import Data, MemoryStore
from tenure.stores.postgres.address import Address as PostgresAddress
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.redis.address import Address as RedisAddress
from tenure.stores.redis.store import RedisStore
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock
from tests.conftest import KINDS, a_url

whatever_the_store = pytest.mark.parametrize("url", ["memory"], indirect=True)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    """A store that nobody has used, of each kind."""
    return a_url(request)


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    app = App(url)
    yield app
    await app.aclose()


class Timed(NamedTuple):
    app: App
    clock: ManualClock


@pytest.fixture
async def timed(url: str) -> AsyncIterator[Timed]:
    """An app on each store, whose clock moves by hand."""
    clock = ManualClock()
    data = Data(clock)

    def make() -> Store:
        if url.startswith("memory"):
            return MemoryStore(data)
        if url.startswith("sqlite"):
            return SqliteStore(url.removeprefix("sqlite:///"), clock=clock)
        if url.startswith("redis"):
            return RedisStore(RedisAddress.from_url(url), clock=clock)
        return PostgresStore(PostgresAddress.from_url(url), clock=clock)

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
def one_way(request: pytest.FixtureRequest) -> Do:
    """Blocking calls on the stores of one machine, their async twins on the others: for what is the same code in both."""
    url = str(request.getfixturevalue("url")) if "url" in request.fixturenames else ""
    return _twin if url.startswith(("redis", "postgres")) else _blocking


@pytest.fixture
def no_store() -> App:
    """An app that cannot do any I/O."""

    def refuse() -> Store:
        raise AssertionError("I/O")

    return App(refuse)


@pytest.fixture
def flow(no_store: App) -> Flow:
    """A flow of three steps, in an app that cannot do any I/O."""
    flow = no_store.flow("order", lookup=["customer"])

    @flow.step(then="charge", queue="stock")
    async def reserve(sku: str, quantity: int = 1) -> None: ...

    @flow.step(queue="billing", keep=60, priority=-5)
    def charge(ctx: Context, customer: Any, *, voucher: str | None = None) -> Any:
        return Next("receipt")

    @flow.step
    def receipt(amount: int, results: list[int]) -> None: ...

    return flow
