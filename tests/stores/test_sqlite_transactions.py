"""Transactions of a job's own on SQLite: they hold the one write lock that there is, so their time is bounded."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from tenure.errors import StoreError, StoreUnavailable
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.conformance.scene import a_job

FOR_EVER = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"

BOUND = 1.0
"""Seconds that a transaction may last here: enough for what it does before it is too long, on a busy machine too."""

ROLLED_BACK = "kept all others from writing for 1 s, and was rolled back"


@pytest.fixture(params=list(Library))
def library(request: pytest.FixtureRequest) -> Library:
    chosen: Library = request.param
    return chosen


@pytest.fixture
async def store(tmp_path: Path, library: Library) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jobs.db", library=library)
    own = await store.begin()
    await own.execute("CREATE TABLE effects (n INTEGER UNIQUE)")
    await own.commit()
    yield store
    await store.close()


async def effects(store: SqliteStore) -> list[int]:
    own = await store.begin(writes=False)
    rows = await own.fetch("SELECT n FROM effects ORDER BY n")
    await own.rollback()
    return [n for (n,) in rows]


# The bound.


async def test_one_that_lasts_too_long_is_taken_back(store: SqliteStore) -> None:
    own = await store.begin(timeout=BOUND)
    await own.execute("INSERT INTO effects VALUES (1)")

    deadline = time.monotonic() + 20
    while own.open and time.monotonic() < deadline:
        time.sleep(0.01)  # on the loop, whose own timers cannot help

    with pytest.raises(TimeoutError, match=ROLLED_BACK):
        await own.execute("INSERT INTO effects VALUES (2)")
    with pytest.raises(TimeoutError, match=ROLLED_BACK):
        await own.caller.arun(store.enqueueing([a_job()]))
    with pytest.raises(TimeoutError, match=ROLLED_BACK):
        await own.commit()
    await own.rollback()
    assert await effects(store) == []
    await store.enqueue([a_job()])


async def test_a_statement_that_takes_too_long_is_cut_off(store: SqliteStore) -> None:
    own = await store.begin(timeout=BOUND)
    await own.execute("INSERT INTO effects VALUES (1)")

    with pytest.raises(TimeoutError, match=ROLLED_BACK):
        await own.fetch(FOR_EVER)

    assert await effects(store) == []


async def test_so_is_one_on_the_bare_connection(store: SqliteStore) -> None:
    own = await store.begin(timeout=BOUND)
    await own.execute("INSERT INTO effects VALUES (1)")

    with pytest.raises((apsw.InterruptError, sqlite3.OperationalError), match="interrupted"):
        await asyncio.to_thread(lambda: own.connection.execute(FOR_EVER).fetchall())

    with pytest.raises(TimeoutError, match=ROLLED_BACK):
        await own.commit()
    assert await effects(store) == []


async def test_one_that_only_reads_may_last_and_keeps_nobody_from_writing(store: SqliteStore) -> None:
    own = await store.begin(writes=False, timeout=0.1)
    before = await own.fetch("SELECT count(*) FROM tenure_jobs")

    await store.enqueue([a_job()])
    await asyncio.sleep(0.2)

    assert await own.fetch("SELECT count(*) FROM tenure_jobs") == before
    await own.rollback()


# Waiting for each other.


async def test_the_second_waits_for_the_first(store: SqliteStore) -> None:
    first = await store.begin()
    waiting = asyncio.create_task(store.begin())
    await asyncio.wait([waiting], timeout=0.1)
    await first.execute("INSERT INTO effects VALUES (1)")
    begun = waiting.done()

    await first.commit()

    second = await waiting
    assert not begun
    assert await second.fetch("SELECT n FROM effects") == [(1,)]
    await second.rollback()


async def test_code_inside_is_told_that_it_would_wait_for_itself(store: SqliteStore) -> None:
    own = await store.begin()

    with pytest.raises(StoreError, match="would wait for the transaction that it is called in"):
        await store.enqueue([a_job()])
    with pytest.raises(StoreError, match="would wait for the transaction that it is called in"):
        await store.pause("q")

    await own.commit()
    await store.enqueue([a_job()])


async def test_so_is_code_in_a_thread_once_it_has_entered(store: SqliteStore) -> None:
    own = await asyncio.create_task(store.begin())  # as another loop would: in a context of its own

    def inside() -> None:
        own.enter()
        store.enqueue_now([a_job()])

    with pytest.raises(StoreError, match="would wait for the transaction that it is called in"):
        await asyncio.to_thread(inside)
    await own.rollback()


async def test_whoever_gives_up_waiting_holds_nobody_up(store: SqliteStore) -> None:
    first = await store.begin()
    waiting = asyncio.create_task(store.begin())
    await asyncio.sleep(0.05)
    waiting.cancel()

    await first.rollback()

    own = await asyncio.wait_for(store.begin(), 20)
    await own.rollback()


# Its connection.


async def test_its_commit_is_on_disk(store: SqliteStore, library: Library) -> None:
    own = await store.begin()

    assert await own.fetch("PRAGMA synchronous") == [(2,)]
    assert type(own.connection).__module__ == library
    await own.rollback()


async def test_an_error_of_a_statement_comes_as_it_is_and_leaves_it_usable(store: SqliteStore) -> None:
    own = await store.begin()
    await own.execute("INSERT INTO effects VALUES (1)")

    with pytest.raises((apsw.ConstraintError, sqlite3.IntegrityError)):
        await own.execute("INSERT INTO effects VALUES (1)")

    assert await own.execute("INSERT INTO effects VALUES (2), (3)") == 2
    await own.commit()
    assert await effects(store) == [1, 2, 3]


async def test_one_that_a_statement_has_ended_cannot_be_used(store: SqliteStore) -> None:
    own = await store.begin()
    await own.execute("ROLLBACK")

    with pytest.raises(StoreError, match="was ended by a statement in it"):
        await own.caller.arun(store.enqueueing([a_job()]))
    with pytest.raises(StoreError, match="was ended by a statement in it"):
        await own.commit()


async def test_closing_the_store_ends_it(tmp_path: Path, library: Library) -> None:
    store = SqliteStore(tmp_path / "jobs.db", library=library)
    own = await store.begin()

    await store.close()

    with pytest.raises(StoreUnavailable, match="has been closed"):
        await own.commit()


async def test_it_does_not_outlive_its_end(store: SqliteStore) -> None:
    before = threading.active_count()
    for _ in range(5):
        own = await store.begin(timeout=30)
        await own.execute("INSERT INTO effects VALUES (1)")
        await own.rollback()

    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert threading.active_count() <= before
    with pytest.raises(StoreError, match="has been rolled back"):
        await own.execute("SELECT 1")
