"""Enqueueing in the caller's own transaction on SQLite, by every kind of connection."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tenure import App, Job
from tenure.errors import InvalidOption, JobNotFound, StoreUnavailable, UniqueConflict
from tenure.stores.sqlite.store import LOOK_EVERY, SqliteStore
from tenure.tasks.task import Task

from .callers import Caller, OpenCaller
from .lite_callers import AUTOCOMMITTING, CALLERS

Add = Task[[int, int], int]

each_kind = pytest.mark.parametrize("open_caller", CALLERS.values(), ids=CALLERS)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file with a table of the caller's."""
    path = str(tmp_path / "shop.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (n INTEGER)")
    connection.close()
    return path


@pytest.fixture
async def app(path: str) -> AsyncIterator[App]:
    app = App(f"sqlite:///{path}")
    yield app
    await app.aclose()


@pytest.fixture
def add(app: App) -> Add:
    @app.task(queue="sums")
    def add(a: int, b: int) -> int:
        return a + b

    return add


@pytest.fixture
async def caller(open_caller: OpenCaller, path: str) -> AsyncIterator[Caller]:
    async with open_caller(path) as caller:
        yield caller


@pytest.fixture
async def idle(app: App, path: str) -> AsyncIterator[asyncio.Task[None]]:
    """Somebody who waits for work, and has found none."""
    await app.internals.session.store.open()
    store = SqliteStore(path)
    waiting = asyncio.create_task(store.wait_for_work(["*"], 30))
    await asyncio.sleep(2 * LOOK_EVERY)
    yield waiting
    waiting.cancel()
    await store.close()


async def exists(job: Job[Any]) -> bool:
    try:
        await job.arefresh()
    except JobNotFound:
        return False
    return True


async def orders(app: App) -> list[int]:
    """The caller's rows, as everybody sees them."""
    own = await app.internals.session.store.begin(writes=False)
    rows = await own.fetch("SELECT n FROM orders ORDER BY n")
    await own.rollback()
    return [n for (n,) in rows]


@each_kind
async def test_what_commits_is_there_with_the_callers_rows_and_wakes_an_idle_worker(
    caller: Caller, app: App, add: Add, idle: asyncio.Task[None]
) -> None:  # Q51
    await caller.execute("INSERT INTO orders VALUES (42)")
    job = await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)
    await caller.execute("INSERT INTO orders VALUES (43)")
    assert not await exists(job)
    assert not idle.done()

    await caller.commit()

    assert await exists(job)
    assert await orders(app) == [42, 43]
    # By a ring, or by looking: the second look that finds work is the one that counts.
    await asyncio.wait_for(idle, 3 * LOOK_EVERY + 10)  # less than it would have waited by itself


@each_kind
async def test_what_is_rolled_back_never_was_and_wakes_nobody(
    caller: Caller, app: App, add: Add, idle: asyncio.Task[None]
) -> None:  # Q51, Q36
    await caller.execute("INSERT INTO orders VALUES (42)")
    job = await caller.call(add.using(connection=caller.connection, unique="k").enqueue, 1, 2)

    await caller.rollback()

    assert not await exists(job)
    assert await orders(app) == []
    assert await app.aqueues() == []
    await asyncio.wait([idle], timeout=3 * LOOK_EVERY)
    assert not idle.done()
    assert not (await add.using(unique="k").aenqueue(1, 2)).duplicate


@each_kind
async def test_the_store_is_made_beside_a_transaction_that_has_not_written(caller: Caller, app: App, add: Add) -> None:
    job = await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)
    before = await exists(job)

    await caller.commit()

    assert not before
    assert await exists(job)


async def test_a_store_that_cannot_be_made_because_of_the_transaction_is_told(
    path: str, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.stores.sqlite.connection.BUSY_TIMEOUT", 0.1)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO orders VALUES (42)")

    with pytest.raises(StoreUnavailable, match="use the app once before you begin one"):
        await add.using(connection=connection).aenqueue(1, 2)

    connection.commit()
    job = await add.using(connection=connection).aenqueue(1, 2)
    connection.commit()
    assert await exists(job)
    connection.close()


@each_kind
async def test_a_refusal_leaves_the_transaction_usable(caller: Caller, app: App, add: Add) -> None:
    await app.aqueues()
    inside = add.using(connection=caller.connection)
    await caller.execute("INSERT INTO orders VALUES (42)")
    first = await caller.call(inside.using(unique="k").enqueue, 1, 2)

    with pytest.raises(UniqueConflict):
        await caller.call(inside.using(unique="k", unique_raises=True).enqueue, 1, 2)
    duplicate = await caller.call(inside.using(unique="k").enqueue, 1, 2)
    last = await caller.call(inside.enqueue, 3, 4)
    await caller.commit()

    assert duplicate.duplicate
    assert duplicate.id == first.id
    assert [job.id for job in await app.ajobs()] == [last.id, first.id]
    assert await orders(app) == [42]


@each_kind
async def test_many_go_at_once_and_every_byte_arrives(caller: Caller, app: App, add: Add) -> None:
    raw = app.remote("raw", raw=True)
    payload = bytes(range(256))
    calls = [*(add.bind(n, n) for n in range(250)), raw.bind(payload)]

    jobs = await caller.call(app.enqueue, *calls, connection=caller.connection)
    await caller.commit()

    [record] = await app.internals.session.store.get([jobs[-1].id])
    assert record is not None
    assert record.payload == payload
    assert {queue.name: queue.waiting for queue in await app.aqueues()} == {"sums": 250, "default": 1}


@each_kind
async def test_a_savepoint_takes_back_what_came_after_it(caller: Caller, app: App, add: Add) -> None:  # Q36
    inside = add.using(connection=caller.connection)
    kept = await caller.call(inside.enqueue, 1, 2)
    await caller.execute("SAVEPOINT mine")
    taken_back = await caller.call(inside.enqueue, 3, 4)

    await caller.execute("ROLLBACK TO mine")
    await caller.commit()

    assert await exists(kept)
    assert not await exists(taken_back)
    assert [queue.waiting for queue in await app.aqueues()] == [1]


@each_kind
async def test_a_worker_runs_it(caller: Caller, app: App, add: Add) -> None:
    async with app.worker(["sums"]):
        job = await caller.call(add.using(connection=caller.connection).enqueue, 40, 2)
        await caller.commit()

        assert await job.aresult(timeout=10) == 42


# What is refused.


@pytest.mark.parametrize("open_caller", AUTOCOMMITTING.values(), ids=AUTOCOMMITTING)
async def test_a_connection_without_a_transaction_is_refused(caller: Caller, app: App, add: Add) -> None:
    with pytest.raises(InvalidOption, match="commits each statement by itself"):
        await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)

    assert not await app.ajobs()


@each_kind
async def test_another_file_is_refused(open_caller: OpenCaller, tmp_path: Path, path: str, add: Add) -> None:
    elsewhere = str(tmp_path / "other.db")
    async with open_caller(elsewhere) as caller:
        with pytest.raises(InvalidOption, match=f"the store's own file, {path}: this one is to {elsewhere}"):
            await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)


async def test_a_file_that_is_only_attached_is_refused(path: str, add: Add) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("ATTACH ? AS shop", (path,))

    with pytest.raises(InvalidOption, match="this one is to memory, and has it attached as 'shop'"):
        await add.using(connection=connection).aenqueue(1, 2)

    connection.close()


async def test_a_connection_of_a_second_library_is_refused(path: str, app: App, add: Add) -> None:
    connection = sqlite3.connect(path)
    job = await add.using(connection=connection).aenqueue(1, 2)
    connection.commit()
    other = apsw.Connection(path)
    other.execute("BEGIN")

    with pytest.raises(InvalidOption, match="bring connections of sqlite3"):
        await add.using(connection=other).aenqueue(1, 2)

    assert await exists(job)
    connection.close()


async def test_the_library_can_be_said(path: str) -> None:
    connection = sqlite3.connect(path)
    async with App(f"sqlite:///{path}?library=apsw") as app:
        with pytest.raises(InvalidOption, match="bring connections of apsw"):
            await app.remote("t").using(connection=connection).aenqueue()
    connection.close()


async def test_a_library_that_is_too_old_is_told(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.stores.callers.sqlite.OLDEST_SQLITE", (999,))
    connection = sqlite3.connect(add.app.url.removeprefix("sqlite:///"))

    with pytest.raises(InvalidOption, match="999 is needed"):
        await add.using(connection=connection).aenqueue(1, 2)

    connection.close()


class StrictCursor(sqlite3.Cursor):
    """Refuses what some Pythons warn of: a numbered placeholder whose value comes in a sequence."""

    def execute(self, statement: str, values: Any = ()) -> StrictCursor:
        if re.search(r"\?\d", statement) and not isinstance(values, dict):
            raise sqlite3.ProgrammingError(f"a named parameter, and a sequence of values: {statement}")
        return super().execute(statement, values)


class StrictConnection(sqlite3.Connection):
    def cursor(self, factory: Any = StrictCursor) -> Any:
        return super().cursor(factory)


async def test_values_are_bound_as_every_python_allows(app: App, add: Add, path: str) -> None:
    await app.internals.session.store.open()
    connection = sqlite3.connect(path, factory=StrictConnection)

    job = await add.using(connection=connection, unique="k", delay=60).aenqueue(1, 2)
    again = await add.using(connection=connection, unique="k").aenqueue(1, 2)
    connection.commit()
    connection.close()

    assert await exists(job)
    assert again.duplicate
