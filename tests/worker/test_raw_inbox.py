"""Inboxes that are raw, on every store; and inboxes of queues that nobody has named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis

from tenure.app import App
from tenure.core.job import JobRecord, State
from tenure.errors import InvalidOption
from tenure.stores.base import Store
from tenure.stores.memory import MemoryStore
from tenure.stores.postgres.address import Address
from tenure.stores.values import Search
from tests.conftest import KINDS, a_url
from tests.inspection import run

from .conftest import MakeApp, Start, eventually

PutIn = Callable[[str, bytes], Awaitable[None]]

ENVELOPE = b'{"task": "resize", "args": []}'


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    return a_url(request)


@pytest.fixture
async def put_in(url: str, store: Store) -> PutIn:
    """Put an entry in an inbox, as another program would."""
    await store.open()

    async def put_in(queue: str, entry: bytes) -> None:
        if isinstance(store, MemoryStore):
            store.put_in(queue, entry)
        elif url.startswith("sqlite"):
            run(url.removeprefix("sqlite:///"), "INSERT INTO tenure_inbox (queue, entry) VALUES (?, ?)", queue, entry)
        elif url.startswith("redis"):
            server, _, namespace = url.partition("?namespace=")
            with redis.Redis.from_url(server) as client:
                client.rpush(f"tenure:{{{namespace}}}:inbox:{queue}", entry)
        else:
            address = Address.from_url(url)
            producer = await asyncpg.connect(address.dsn)
            await producer.execute(f'INSERT INTO "{address.schema}".inbox (queue, bytes) VALUES ($1, $2)', queue, entry)
            await producer.close()

    return put_in


async def broken(store: Store) -> list[JobRecord]:
    found = (await store.search(Search(state=State.BROKEN))).jobs
    return [job for job in await store.get([job.id for job in found]) if job is not None]


async def test_a_raw_task_is_called_with_what_lies_in_its_inbox(app: App, start: Start, put_in: PutIn) -> None:
    ran: list[bytes] = []

    @app.task(raw=True, queue="images", inbox="raw")
    async def resize(image: bytes) -> None:
        ran.append(image)

    entries = [b"\xff\xd8\xff", b"", ENVELOPE]
    for entry in entries:
        await put_in("images", entry)
    await start(app, "*")

    await eventually(lambda: len(ran) == len(entries), within=20)
    assert sorted(ran) == sorted(entries)


async def test_json_that_names_a_raw_task_is_broken_and_so_are_bytes_in_an_inbox_of_json(
    app: App, store: Store, start: Start, put_in: PutIn
) -> None:
    ran: list[bytes] = []

    @app.task(raw=True, queue="images")
    async def resize(image: bytes) -> None:
        ran.append(image)

    await put_in("images", ENVELOPE)
    await put_in("images", b"\xff\xd8\xff")
    await start(app, "images")

    await eventually(lambda: _number(store, 2), within=20)
    errors = sorted(job.error.message for job in await broken(store) if job.error is not None)
    assert "task 'resize' is raw and takes bytes" in errors[0]
    assert "the entry is not a call of a task" in errors[1]
    assert ran == []


async def test_raw_bytes_for_a_task_that_takes_json_are_broken(app: App, store: Store, start: Start) -> None:
    @app.task(queue="mail")
    async def send(user: int) -> None:
        raise AssertionError(user)

    await app.remote("send", queue="mail", raw=True).aenqueue(b'{"args": [1]}')
    await start(app, "mail")

    await eventually(lambda: _number(store, 1), within=20)
    [job] = await broken(store)
    assert job.error is not None
    assert "the job has raw bytes" in job.error.message


async def test_an_inbox_is_raw_for_one_task_that_is_raw(make_app: MakeApp) -> None:
    app = make_app()

    @app.task(raw=True, queue="images", inbox="raw")
    async def resize(image: bytes) -> None: ...

    with pytest.raises(InvalidOption, match="'resize' and 'other' would both take"):

        @app.task(name="other", raw=True, queue="images", inbox="raw")
        async def other(image: bytes) -> None: ...

    with pytest.raises(InvalidOption, match="add raw=True"):

        @app.task(queue="mail", inbox="raw")
        async def send() -> None: ...


async def test_whoever_serves_every_queue_finds_an_inbox_that_nobody_has_named(
    app: App, start: Start, put_in: PutIn
) -> None:
    ran = asyncio.Event()

    @app.task
    async def task() -> None:
        ran.set()

    await start(app, "*")
    await put_in("never-seen-before", b'{"task": "task"}')

    async with asyncio.timeout(20):
        await ran.wait()


async def _number(store: Store, number: int) -> bool:
    return len(await broken(store)) == number
