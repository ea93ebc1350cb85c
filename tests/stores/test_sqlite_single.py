"""A single plain job, which a blocking caller stores by one call of the library, on its own thread, the main one included."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec
import pytest

from tenure.core.job import JobRecord, NewJob, State
from tenure.errors import PayloadError, StoreUnavailable
from tenure.stores.sqlite import connection
from tenure.stores.sqlite.library import Connection, Library
from tenure.stores.sqlite.single import Single
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import Enqueued
from tenure.testing.conformance.scene import a_job

T = TypeVar("T")
Ask = Callable[[Callable[[SqliteStore], Awaitable[T]]], T]

PLAIN = [
    a_job(),
    a_job(payload='{"args":[1,"é"]}'.encode(), priority=-3),
    a_job(payload=b"\x00\xff", raw=True),
    a_job(payload=b"", raw=True, tags=("a", "b")),
    a_job(expires=60.0, keep=5.0, lease=7.5, max_attempts=0, max_losses=0),
    a_job(max_attempts=4, task="other", queue="elsewhere"),
    a_job(headers={"tenant": "Zoë “x” \\", "empty": ""}),
]


@pytest.fixture(params=list(Library))
def library(request: pytest.FixtureRequest) -> Library:
    chosen: Library = request.param
    return chosen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path, library: Library) -> Iterator[SqliteStore]:
    """A store whose `enqueue_now` the test, which runs on the main thread, calls there."""
    assert threading.current_thread() is threading.main_thread()
    store = SqliteStore(path, library=library)
    asyncio.run(store.open())
    yield store
    asyncio.run(store.close())


@pytest.fixture
def ask(path: Path, library: Library) -> Ask[Any]:
    """Asks a store of the same file."""

    async def answer(what: Callable[[SqliteStore], Awaitable[T]]) -> T:
        store = SqliteStore(path, library=library)
        try:
            return await what(store)
        finally:
            await store.close()

    return lambda what: asyncio.run(answer(what))


def waiting(ask: Ask[Any]) -> list[int]:
    return [queue.waiting for queue in ask(lambda store: store.queues())]


def fields(record: JobRecord) -> dict[str, Any]:
    """What two records of equal jobs have in common."""
    kept = msgspec.structs.replace(record, id="", seq=0, created_at=0.0, expires_at=None)
    return {**msgspec.structs.asdict(kept), "expires": record.expires_at is not None}


@pytest.mark.parametrize("job", PLAIN, ids=range(len(PLAIN)))
def test_it_is_stored_as_one_of_several_is(store: SqliteStore, ask: Ask[Any], job: NewJob) -> None:
    twin = msgspec.structs.replace(job, id="twin")

    assert store.enqueue_now([job]) == [Enqueued(job.id, State.WAITING)]
    store.enqueue_now([twin, a_job()])

    alone, among = ask(lambda store: store.get([job.id, twin.id]))
    assert fields(alone) == fields(among)
    assert alone.seq < among.seq
    assert job.expires is None or alone.expires_at - alone.created_at == pytest.approx(job.expires)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads on which a job was stored by one call of the library."""
    found: list[str] = []
    really = Single.store

    def noted(single: Single, connection: Connection, wall: float) -> bool:
        paused = really(single, connection, wall)
        found.append(threading.current_thread().name)
        return paused

    monkeypatch.setattr(Single, "store", noted)
    return found


def test_a_blocking_caller_stores_it_on_its_own_thread(
    store: SqliteStore, library: Library, threads: list[str]
) -> None:
    store.enqueue_now([a_job()])
    other = threading.Thread(target=store.enqueue_now, args=([a_job()],), name="another")
    other.start()
    other.join()

    assert threads == (["MainThread", "another"] if library is Library.APSW else [])


def test_an_awaited_one_is_stored_on_the_thread_that_writes(
    ask: Ask[Any], library: Library, threads: list[str]
) -> None:
    ask(lambda store: store.enqueue([a_job()]))

    assert threads == (["tenure-sqlite-writer"] if library is Library.APSW else [])


def test_jobs_stand_in_line_in_the_order_of_the_calls(store: SqliteStore, ask: Ask[Any]) -> None:  # I8
    jobs = [a_job() for _ in range(20)]

    for job in jobs:
        store.enqueue_now([job])

    seqs = [record.seq for record in ask(lambda store: store.get([job.id for job in jobs]))]
    assert seqs == sorted(set(seqs))
    assert waiting(ask) == [20]


def test_the_same_job_again_is_that_job_and_counted_once(store: SqliteStore, ask: Ask[Any]) -> None:  # I2, I20
    job = a_job()

    assert store.enqueue_now([job]) == store.enqueue_now([job]) == [Enqueued(job.id, State.WAITING)]

    assert waiting(ask) == [1]


def test_whoever_writes_is_waited_for(store: SqliteStore, path: Path, library: Library, ask: Ask[Any]) -> None:
    store.enqueue_now([a_job()])
    writing = _writing(path, library)

    store.enqueue_now([a_job()])

    writing.join()
    assert waiting(ask) == [2]


def _writing(path: Path, library: Library) -> threading.Thread:
    """Somebody who writes for a while, from now on."""
    if library is Library.APSW:
        other: Any = apsw.Connection(str(path))
    else:
        import sqlite3

        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA busy_timeout = 10000")
    other.execute("BEGIN IMMEDIATE")

    def end() -> None:
        other.execute("COMMIT")
        other.close()

    timer = threading.Timer(0.3, end)
    timer.start()
    return timer


async def test_a_lock_that_stays_is_waited_for_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    handler = connection._BusyHandler.__call__

    def counted(self: Any, tries: int) -> bool:
        waits.append(tries)
        return handler(self, tries)

    store = SqliteStore(path)
    await store.enqueue([a_job()])
    monkeypatch.setattr(connection, "BUSY_TIMEOUT", 0.2)
    monkeypatch.setattr(connection._BusyHandler, "__call__", counted)
    other = apsw.Connection(str(path))
    other.execute("PRAGMA busy_timeout = 10000")
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match="was locked by another transaction"):
        await store.enqueue([a_job()])

    assert waits.count(0) == 1
    other.execute("ROLLBACK")
    other.close()
    await store.enqueue([a_job()])
    await store.close()


def test_what_cannot_be_stored_leaves_nothing_behind(store: SqliteStore, ask: Ask[Any]) -> None:
    with pytest.raises(PayloadError, match="mark it raw"):
        store.enqueue_now([a_job(payload=b"\xff")])

    store.enqueue_now([a_job()])
    ask(lambda store: store.enqueue([a_job()]))
    assert waiting(ask) == [2]
