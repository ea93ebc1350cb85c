"""The inbox of a SQLite file: what is special about a table into which any program inserts."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import apsw
import pytest

from tenure import App
from tenure.stores.sqlite import schema
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import Layout
from tenure.testing.conformance.scene import SUCCEED, a_job, ask, enqueue, everything, lease_one, line, settle
from tests.inspection import connected, rows

INSERT = "INSERT INTO tenure_inbox (queue, entry) VALUES (?, ?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


def insert(path: Path, *entries: tuple[str, object], statement: str = INSERT) -> None:
    with connected(path) as producer:
        producer.executemany(statement, entries)


async def run(*command: str, stdin: str = "") -> str:
    """Run another program; what it says. Its SQLite is its own, so it must not be this process."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said, _ = await process.communicate(stdin.encode())
    return said.decode()


PRODUCER = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1])
with file:
    file.execute("INSERT INTO tenure_inbox (queue, entry) VALUES (?, ?)", sys.argv[2:])
"""


async def test_a_program_with_a_sqlite_library_of_its_own_wakes_an_idle_worker(path: Path) -> None:  # H1
    app = App(f"sqlite:///{path}")
    ran = asyncio.Queue[int]()

    @app.task(queue="mail")
    async def send(user: int) -> None:
        await ran.put(user)

    async with app.worker(poll=60), asyncio.timeout(20):
        for user in (41, 42):
            entry = f'{{"task": "send", "args": [{user}]}}'
            assert await run(sys.executable, "-c", PRODUCER, str(path), "mail", entry) == ""
            assert await ran.get() == user
    await app.aclose()


async def test_text_and_bytes_are_the_same_entry(path: Path, store: SqliteStore) -> None:
    insert(path, ("q", '{"task": "t", "args": ["é"]}'), ("q", '{"task": "t", "args": ["é"]}'.encode()), ("q", "né"))

    await store.take_in(["q"])

    assert [job.payload for job in await everything(store)] == ["né".encode()] + ['{"args":["é"]}'.encode()] * 2


@pytest.mark.parametrize("queue", ["", "no name", "-q", "q\n", "é", "x" * 128, None])
async def test_a_queue_that_cannot_be_is_refused_when_it_is_inserted(
    path: Path, store: SqliteStore, queue: object
) -> None:
    with pytest.raises(apsw.ConstraintError):
        insert(path, (queue, "{}"))  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", [None, 7, 1.5])
async def test_an_entry_that_is_neither_text_nor_bytes_is_refused(
    path: Path, store: SqliteStore, entry: object
) -> None:
    with pytest.raises(apsw.ConstraintError):
        insert(path, ("q", entry))


async def test_a_queue_is_known_by_its_inbox_alone(path: Path, store: SqliteStore) -> None:
    insert(path, ("new", '{"task": "t"}'))

    assert [queue.name for queue in await store.queues()] == ["new"]
    assert (await ask(store, "new")).inbox


@pytest.mark.parametrize("clause", ["OR REPLACE", "OR IGNORE", "OR ABORT"])
async def test_the_conflict_clause_of_the_producer_does_no_harm(path: Path, store: SqliteStore, clause: str) -> None:
    await enqueue(store, a_job())
    await settle(store, await lease_one(store), SUCCEED)
    statement = INSERT.replace("INSERT", f"INSERT {clause}")

    insert(path, ("q", '{"task": "t"}'), ("q", '{"task": "t"}'), statement=statement)

    assert await store.take_in(["q"]) == 2
    [queue] = await store.queues()
    assert (queue.waiting, queue.succeeded, queue.totals.succeeded) == (2, 1, 1)


async def test_entries_that_somebody_deleted_cost_one_look_in_vain(path: Path, store: SqliteStore) -> None:
    insert(path, ("q", '{"task": "t"}'))
    rows(path, "DELETE FROM tenure_inbox")

    assert (await ask(store)).inbox
    assert await store.take_in(["q"]) == 0
    assert not (await ask(store)).inbox


async def test_an_entry_that_is_not_committed_is_not_there_yet(path: Path, store: SqliteStore) -> None:
    with connected(path) as producer:
        producer.execute("BEGIN")
        producer.execute(INSERT, ("q", '{"task": "t"}'))
        producer.execute("ROLLBACK")

    assert not (await ask(store)).inbox


# The layout that brought it.


def migration(number: int) -> str:
    folder = files("tenure.stores.sqlite") / "migrations"
    [file] = [file for file in folder.iterdir() if file.name.startswith(f"{number:04}_")]
    return file.read_text()


def make_layout_1(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute(migration(1))
        connection.execute("INSERT INTO tenure_meta (key, value) VALUES ('layout', 1)")
        connection.execute("INSERT INTO tenure_queues (name, waiting) VALUES ('q', 1)")
        connection.execute(
            "INSERT INTO tenure_jobs (id, task, queue, state, payload, priority, seq, created_at, max_losses)"
            "VALUES ('old', 't', 'q', 'waiting', '{}', 0, 1, 0, 3)"
        )
        connection.execute("UPDATE tenure_meta SET value = 1 WHERE key = 'seq'")


async def test_a_file_of_the_first_layout_keeps_its_jobs_and_gets_an_inbox(path: Path) -> None:
    make_layout_1(path)
    store = SqliteStore(path)

    await store.open()
    insert(path, ("q", '{"task": "t", "id": "new"}'))
    await store.take_in(["q"])

    assert await line(store) == ["old", "new"]
    assert await store.layout() == Layout(schema.KNOWN, schema.KNOWN)
    await store.close()


@pytest.mark.parametrize("number", range(2, schema.KNOWN + 1))
def test_what_the_layout_before_can_say_can_still_be_said(number: int) -> None:
    """So that workers of the version before can go on while the new one is rolled out.

    Every column of theirs is there, none was added that they would have to fill, and their indexes are.
    """
    file = apsw.Connection(":memory:")
    for each in range(1, number):
        file.execute(migration(each))
    before = columns(file)
    indexes = set(file.execute("SELECT name FROM sqlite_schema WHERE type = 'index'"))

    file.execute(migration(number))

    after = columns(file)
    for table, found in before.items():
        assert after[table][: len(found)] == found
        assert all(default is not None or not needed for _, _, needed, default, _ in after[table][len(found) :])
    assert indexes <= set(file.execute("SELECT name FROM sqlite_schema WHERE type = 'index'"))


def columns(file: apsw.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Name, type, whether it must be given, default and part in the key of each column, by table."""
    tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {table: [row[1:] for row in file.execute(f"PRAGMA table_info({table})")] for table in tables}
