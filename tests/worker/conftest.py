"""Workers on each store, and what can be done to the calls between the two."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol, cast

import pytest

from tenure import Backoff
from tenure.app import App
from tenure.core.job import JobRecord, NewJob, new_id
from tenure.stores import open_store
from tenure.stores.base import Store
from tenure.stores.values import LeaseRequest, WorkerInfo
from tenure.worker import keeper
from tenure.worker.worker import Worker
from tests.conftest import KINDS, a_url

Lines = Callable[[str], list[str]]

whatever_the_store = pytest.mark.parametrize("url", ["memory"], indirect=True)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    """A store that nobody has used, of each kind."""
    return a_url(request)


class MakeApp(Protocol):
    def __call__(self, **options: Any) -> App: ...


@pytest.fixture
async def make_app(url: str) -> AsyncIterator[MakeApp]:
    """Make an app with certain options; all of one test share the store."""
    apps: list[App] = []

    def make(**options: Any) -> App:
        apps.append(App(options.pop("store", url), **options))
        return apps[-1]

    yield make
    for app in apps:
        await app.aclose()


@pytest.fixture
def app(make_app: MakeApp) -> App:
    return make_app()


@pytest.fixture
def retrying_app(make_app: MakeApp) -> App:
    """One whose jobs are tried again in a moment."""
    return make_app(retry=Backoff(initial=0.01, jitter=0))


@pytest.fixture
def single_try_app(make_app: MakeApp) -> App:
    """One whose jobs are tried once."""
    return make_app(retry=None)


class Start(Protocol):
    async def __call__(self, app: App, /, *queues: str, **options: Any) -> Worker: ...


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start workers that are stopped when the test ends."""
    workers: list[Worker] = []

    async def begin(app: App, /, *queues: str, **options: Any) -> Worker:
        worker = app.worker(queues or ["*"], **options)
        workers.append(worker)
        await worker.start()
        return worker

    yield begin
    for worker in workers:
        await worker.stop(grace=0)


@pytest.fixture
def keeps_what_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers keep what they have leased ahead, however late it starts.

    On a busy machine a round trip alone may take as long as a job has to start; then some are given back, and others overtake them.
    """
    monkeypatch.setattr(keeper, "START_WITHIN", 60.0)


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """The store itself, to arrange things and to look at them."""
    store = open_store(url)
    yield store
    await store.close()


async def eventually(true: Callable[[], Any], within: float = 10.0) -> Any:
    """Wait until this gives something true, or its awaited value is; look often."""
    async with asyncio.timeout(within):
        while True:
            value = true()
            if isinstance(value, Awaitable):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.005)


async def record_of(store: Store, job_id: str) -> JobRecord:
    [record] = await store.get([job_id])
    assert record is not None
    return record


async def lose(store: Store, job_id: str, queue: str = "default") -> None:
    """Have a worker lease this job, the first in line, and die."""
    await store.register(
        WorkerInfo(id="doomed", host="h", pid=1, queues=(queue,), tasks=(), concurrency=1),
    )
    request = LeaseRequest(queues=(queue,), limit=1, worker="doomed", ttl=60, nonce=1, solo=False)
    [lease] = (await store.lease(request)).leases
    assert lease.job.id == job_id
    await store.retire("doomed")


def a_job(task: str, **fields: Any) -> NewJob:
    return NewJob(id=new_id(), task=task, queue=fields.pop("queue", "default"), **fields)


class Wire:
    """What lies between workers and their store: counts the calls, and lets a test change what happens to them.

    A hook gets the store's method and the arguments, and gives the answer.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.calls: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self.hooks: dict[str, Callable[..., Awaitable[Any]]] = {}

    def open(self) -> Store:
        return cast("Store", _End(open_store(self._url), self))


class _End:
    def __init__(self, store: Store, wire: Wire) -> None:
        self._store = store
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not callable(method):
            return method

        async def call(*args: Any, **options: Any) -> Any:
            self._wire.calls[name].append(args)
            hook = self._wire.hooks.get(name)
            return await (method(*args, **options) if hook is None else hook(method, *args, **options))

        def listen() -> Any:
            self._wire.calls[name].append(())
            return method()

        return listen if name == "announcements" else call


@pytest.fixture
def wire(url: str) -> Wire:
    return Wire(url)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    """What the worker has logged so far that contains a text."""
    caplog.set_level(logging.DEBUG, logger="tenure")
    yield lambda text: [message for message in caplog.messages if text in message]
