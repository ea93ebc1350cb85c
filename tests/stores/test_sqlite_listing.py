"""Listings of a SQLite file: they are the same as in memory, use their indexes, and read no more than they have to."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure.core.job import FINAL, ErrorInfo, JobRecord, State
from tenure.core.lifecycle import Finish, Requeue
from tenure.stores.base import Store
from tenure.stores.memory.store import MemoryStore
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.sqlite.transaction import Row, Transaction
from tenure.stores.values import LOOK, Search
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import FAIL, a_job, enqueue, everything, lease_one, settle
from tests.inspection import rows, run

QUEUES = ("q", "x", "y")
TEXTS = (
    "ann",
    "Ann",
    'a "b"',
    "back\\slash",
    "n\\n",
    "new\nline",
    "é",
    "😀",
    "%_*",
    "'",
    "message",
    "type",
    "\x7f",
    "\x1b",
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture(params=list(Library))
async def store(path: Path, clock: ManualClock, request: pytest.FixtureRequest) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock, library=request.param)
    yield store
    await store.close()


async def some_jobs(stores: Sequence[Store], clock: ManualClock, chance: random.Random) -> None:
    """Bring the same jobs into the same states in each store."""
    for round_ in range(8):
        new = []
        for number in range(8):
            text = chance.choice(TEXTS)
            raw = chance.random() < 0.5
            payload = b"\xff" + text.encode() if raw else f"[{number}]".encode()
            options: dict[str, Any] = {"tags": tuple(chance.sample(["red", "redder", "blue"], chance.randrange(3)))}
            if chance.random() < 0.3:
                options["headers"] = {"text": text}
            new.append(
                a_job(
                    id=f"{round_}-{number}", task=chance.choice("tu"), queue=chance.choice(QUEUES), raw=raw,
                    payload=payload, delay=chance.choice([0.0, 0.0, 500.0, 900.0]), priority=chance.randrange(3), **options,
                )
            )  # fmt: skip
        ends = []
        for _ in range(5):
            error = ErrorInfo(
                chance.choice(["E", *TEXTS]), f"b{chance.choice(TEXTS)}", f"Traceback {chance.choice(TEXTS)}"
            )
            result = f'"{chance.randrange(9)}"'
            ends.append(chance.choice([Finish(State.FAILED, error=error), Requeue(300.0, error=error), None]))
            ends.append(chance.choice([Finish(State.SUCCEEDED, result), Finish(State.BROKEN, error=error)]))
        worker, queue = chance.choice("vw"), chance.choice(QUEUES)
        for each in stores:
            await each.enqueue(new)
            for end in ends:
                leased = await lease_one_or_none(each, queue, worker)
                if leased is not None and end is not None:
                    await settle(each, leased, end)
        clock.advance(chance.choice([0.0, 0.5, 20.0]))


async def lease_one_or_none(store: Store, queue: str, worker: str) -> Any:
    try:
        return await lease_one(store, queue, worker=worker)
    except ValueError:
        return None


def some_search(chance: random.Random, clock: ManualClock) -> dict[str, Any]:
    search: dict[str, Any] = {"state": chance.choice([None, *State])}
    choices = {
        "queue": QUEUES, "task": "tu", "tag": ("red", "blue"), "worker": "vw", "error": ("E", *TEXTS), "text": TEXTS,
    }  # fmt: skip
    for name in chance.sample(sorted(choices), chance.choice([0, 1, 1, 2])):
        search[name] = chance.choice(choices[name])
    if search["state"] is State.WAITING:
        search["scheduled"] = chance.choice([None, True, False])
    if search["state"] in FINAL and chance.random() < 0.5:
        search["before"] = clock.wall() - chance.choice([0.0, 0.5, 20.0, 40.25])
    if chance.random() < 0.3:
        search["brief"] = chance.choice([0, 3, 100])
    return search | {"limit": chance.choice([1, 3, 50]), "look": chance.choice([1, 7, 2000, 9000])}


def comparable(job: JobRecord) -> tuple[object, ...]:
    """The fields that do not depend on how a store numbers its jobs."""
    return (
        job.id, job.state, job.payload, job.raw, job.tags, job.worker, job.result, job.error, job.headers, job.run_at,
        job.ended_at,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
async def test_every_search_is_the_same_as_in_memory(store: SqliteStore, clock: ManualClock, seed: int) -> None:
    chance = random.Random(seed)
    stores: list[Store] = [store, MemoryStore(clock=clock)]
    await some_jobs(stores, clock, chance)
    found = 0
    for _ in range(150):
        search = some_search(chance, clock)
        sqlite, memory = [[comparable(job) for job in await listed(each, search)] for each in stores]
        assert sqlite == memory, search
        found += len(sqlite)
    assert found > 300


async def listed(store: Store, search: dict[str, Any]) -> list[JobRecord]:
    """The jobs of all pages. Pages of two stores may end at different jobs, because their indexes differ."""
    found: list[JobRecord] = []
    cursor = None
    while True:
        page = await store.search(Search(**search, cursor=cursor))
        assert len(page.jobs) <= search["limit"]
        assert page.searched <= search["look"]
        found += page.jobs
        if (cursor := page.cursor) is None:
            return found


def noted_selects(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[object]]]:
    """The statements that listings run from now on, each with its values."""
    selects: list[tuple[str, Sequence[object]]] = []
    really = Transaction.select

    def noted(tx: Transaction, statement: str, values: Sequence[object]) -> Iterable[Row]:
        selects.append((statement, values))
        return really(tx, statement, values)

    monkeypatch.setattr(Transaction, "select", noted)
    return selects


SEARCHES = [
    (Search(), "SCAN tenure_jobs"),
    (Search(text="x"), "SCAN tenure_jobs"),
    (Search(state=State.WAITING, scheduled=False), "tenure_jobs_in_line (queue=? AND suspect=?)"),
    (Search(state=State.WAITING, scheduled=True), "tenure_jobs_scheduled (queue=? AND run_at>?)"),
    (Search(state=State.BLOCKED, text="x"), "tenure_jobs_blocked (queue=?)"),
    (Search(state=State.FAILED, error="E"), "tenure_jobs_ended (queue=? AND state=? AND ended_at>?)"),
    (
        Search(state=State.FAILED, before=1.0, text="x"),
        "tenure_jobs_ended (queue=? AND state=? AND ended_at>? AND ended_at<?)",
    ),
    (
        Search(state=State.SUCCEEDED, before=1.0),
        "tenure_jobs_ended (queue=? AND state=? AND ended_at>? AND ended_at<?)",
    ),
    (Search(state=State.FAILED, task="t", before=1.0), "tenure_jobs_failed (task=? AND ended_at<?)"),
]


@pytest.mark.parametrize(("search", "plan"), SEARCHES)
async def test_a_listing_reads_its_index_in_order(
    path: Path, search: Search, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(path)
    await enqueue(store)
    selects = noted_selects(monkeypatch)
    await store.search(search)

    plans = [
        [
            row[3].removeprefix("SEARCH tenure_jobs USING INDEX ")
            for row in rows(path, f"EXPLAIN QUERY PLAN {each}", *values)
        ]
        for each, values in selects
    ]
    scans = [found for found, (each, _) in zip(plans, selects, strict=True) if "json_each" not in each]
    assert scans == [[plan]] * len(scans)
    assert scans
    for found in plans[len(scans) :]:  # the rows that pass the filters
        assert "SEARCH tenure_jobs USING INTEGER PRIMARY KEY (rowid=?)" in found
    await store.close()


async def test_no_more_rows_are_read_than_looked_at(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await enqueue(store, *[a_job() for _ in range(LOOK // 2)])
    read = 0
    really = Transaction.select

    def counted(tx: Transaction, statement: str, values: Sequence[object]) -> Iterable[Row]:
        nonlocal read
        found = list(really(tx, statement, values))
        read += len(found)
        return found

    monkeypatch.setattr(Transaction, "select", counted)
    for search, most in ((Search(), 51), (Search(tag="rare", look=20), 21), (Search(state=State.WAITING), 51)):
        read = 0
        await store.search(search)
        assert read == most


async def test_a_search_for_no_rows_finds_none(store: SqliteStore) -> None:
    await enqueue(store)

    for search in (Search(limit=0), Search(look=0), Search(look=0, tag="rare")):
        page = await store.search(search)
        assert (page.jobs, page.cursor, page.searched) == ([], None, 0)


async def test_a_payload_that_another_program_has_broken_can_be_searched(store: SqliteStore, path: Path) -> None:
    [broken, whole] = await enqueue(store, a_job(), a_job(payload=b'["needle"]'))
    await store.close()
    run(path, "UPDATE tenure_jobs SET payload = CAST(x'ff6e6565646c65' AS TEXT) WHERE id = ?", broken)
    again = SqliteStore(path, library=store._engine.library)

    assert [job.id for job in await everything(again, text="needle")] == [whole, broken]
    assert [job.payload for job in await everything(again, text="needle", brief=3)] == [b'["n', b"\xffne"]

    await again.close()


@pytest.mark.parametrize(
    ("search", "columns"),
    [
        (Search(task="t"), "n, n, task"),
        (Search(state=State.RUNNING, queue="q", worker="w"), "started_at, n, n, worker"),
        (Search(state=State.FAILED, task="t", error="E"), "ended_at, n, n, error"),
        (Search(tag="red", text="x"), "n, n, tags, CAST(payload AS BLOB), error"),
    ],
)
async def test_a_filter_reads_no_more_columns_than_it_needs(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, search: Search, columns: str
) -> None:
    selects = noted_selects(monkeypatch)
    await enqueue(store)

    await store.search(search)

    assert selects[0][0].startswith(f"SELECT {columns} FROM")


async def test_a_time_and_a_cursor_are_both_kept(store: SqliteStore, clock: ManualClock) -> None:
    ids, ends = await enqueue(store, *[a_job() for _ in range(4)]), []
    for _ in ids:
        clock.advance(1)
        await settle(store, await lease_one(store), FAIL)
        ends.append(clock.wall())
    first = await store.search(Search(state=State.FAILED, limit=1))

    rest = await store.search(Search(state=State.FAILED, before=ends[1], cursor=first.cursor))

    assert [job.id for job in rest.jobs] == [ids[1], ids[0]]
