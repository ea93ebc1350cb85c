"""The history in a SQLite file: it is the same as in memory, its statements stay cheap, and the layout before can still work."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.core.lifecycle import Requeue
from tenure.core.measures import EVER, RESOLUTIONS, ROWS, HistorySearch, HistoryWrite
from tenure.stores.base import BATCH, Store
from tenure.stores.memory.store import MemoryStore
from tenure.stores.sqlite.queries import sql
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import RELEASE, SUCCEED, a_job, enqueue, lease, lease_one, line, record, settle
from tests.inspection import rows, run


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock)
    yield store
    await store.close()


def some_writes(chance: random.Random) -> list[HistoryWrite]:
    """Writes of one call: some name the same row twice, and many calls together name more rows than a slot has."""
    return [
        HistoryWrite(
            f"q{chance.randrange(6)}",
            f"t{number}" if (number := chance.randrange(50)) else "",
            {name: chance.random() for name in chance.sample(["succeeded", "run", "wait:3", "error:E"], 2)},
            {"oldest": chance.random()} if chance.random() < 0.3 else {},
        )
        for _ in range(chance.choice([0, 1, 20]))
    ]


@pytest.mark.parametrize("seed", range(5))
async def test_the_history_is_the_same_as_in_memory(store: SqliteStore, clock: ManualClock, seed: int) -> None:
    chance = random.Random(seed)
    stores: list[Store] = [store, MemoryStore(clock=clock)]
    for _ in range(60):
        writes = some_writes(chance)
        for each in stores:
            await each.record_history(writes)
        clock.advance(chance.choice([0.0, 0.1, 10.0, 1000.0]))
        since = chance.choice([0.0, clock.wall() - 700])
        for resolution in (*RESOLUTIONS, EVER):
            for kind in ("one", "queues", "tasks"):
                search = HistorySearch(resolution=resolution, rows=kind, queue="q1", task="t1", since=since)
                found = [await each.history(search) for each in stores]
                assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(5))
async def test_ages_are_the_same_as_in_memory(store: SqliteStore, clock: ManualClock, seed: int) -> None:
    chance = random.Random(seed)
    stores: list[Store] = [store, MemoryStore(clock=clock)]
    ids: list[str] = []
    for _ in range(60):
        job = a_job(priority=chance.randrange(20), delay=chance.choice([0.0, 0.0, 3.0]), max_losses=9)
        ids.append(job.id)
        again = chance.choice([Requeue(), Requeue(delay=5.0), RELEASE, SUCCEED, None])
        for each in stores:
            await enqueue(each, job)
            for leased in await lease(each, ttl=7.0):
                if again is not None:
                    await settle(each, leased, again)
            await each.reap(["q"])
        clock.advance(chance.choice([0.1, 1.0, 4.0]))
        assert await store.queues() == await stores[1].queues()
    found = [[job and job.ready_at for job in await each.get(ids)] for each in stores]
    assert found[0] == found[1]
    assert None in found[0]
    assert len(set(found[0])) > 10


async def test_a_long_pause_leaves_no_long_deletion(store: SqliteStore, path: Path, clock: ManualClock) -> None:
    writes = [HistoryWrite("q", f"t{number}", {"succeeded": 1}) for number in range(ROWS)]
    for _ in range(8):
        await store.record_history(writes)
        clock.advance(10)
    clock.advance(3700)
    left = []
    for _ in range(3):
        await store.record_history([])
        assert await store.history(HistorySearch(resolution=10, rows="tasks")) == []
        left += rows(path, "SELECT count(*) FROM tenure_measures WHERE resolution = 10")
    assert left == [(8 * ROWS - BATCH,), (0,), (0,)]


PLANS = {
    "measures_to_merge": ["SEARCH m (resolution=? AND slot=? AND queue=? AND task=?)"],
    "count_measures": ["SEARCH tenure_measures (resolution=? AND slot=?)"],
    "delete_old_measures": ["SEARCH tenure_measures (rowid=?)", "SEARCH tenure_measures (resolution=? AND slot<?)"],
    "measures_of_one": [
        "SEARCH tenure_measures (resolution=? AND slot>?)",
        "SEARCH tenure_measures (resolution=? AND slot>?)",
        "SEARCH m (resolution=? AND slot=? AND queue=? AND task=?)",
    ],
    "measures_of_queues": ["SEARCH tenure_measures (resolution=? AND slot>? AND slot<?)"],
    "measures_of_tasks": ["SEARCH tenure_measures (resolution=? AND slot>? AND slot<?)"],
    "delete_old_marks": ["SEARCH tenure_marks (rowid<?)"],
    "queues_with_oldest": [
        "SEARCH q (name>?)",
        "SEARCH j (rowid=?)",
        "SEARCH l (queue=? AND suspect=?)",
        "SEARCH j (rowid=?)",
        "SEARCH l (queue=? AND suspect=? AND priority>?)",
    ],
}


@pytest.mark.parametrize("query", PLANS)
async def test_no_statement_reads_all_measures_or_jobs(store: SqliteStore, path: Path, query: str) -> None:
    await store.open()
    values = [None] * len(set(re.findall(r"\?\d", sql[query])))
    plan = [row[3] for row in rows(path, f"EXPLAIN QUERY PLAN {sql[query]}", *values)]
    found = [re.fullmatch(r"(SEARCH \w+) USING .* (\(.*\))", each) for each in plan]
    assert [f"{each[1]} {each[2]}" for each in found if each] == PLANS[query]
    assert not any(re.match(r"SCAN (tenure_|[mqjl]\b)", each) for each in plan)


# The statements of the layout before, word for word.

PROMOTE_JOBS = "UPDATE tenure_jobs SET run_at = NULL, seq = ?2 + due.key FROM json_each(?1) AS due WHERE n = due.value"
REGISTER_WORKER = (
    "INSERT OR REPLACE INTO tenure_workers (id, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, beat, bell) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
)


async def test_a_job_that_the_layout_before_puts_in_line_is_leased(
    store: SqliteStore, path: Path, clock: ManualClock
) -> None:
    [job_id] = await enqueue(store, a_job(delay=10.0))
    clock.advance(13)
    [(number,)] = rows(path, "SELECT n FROM tenure_jobs")
    run(path, PROMOTE_JOBS, f"[{number}]", 5)
    run(path, "UPDATE tenure_queues SET scheduled = 0, waiting = 1 WHERE name = 'q'")

    assert await line(store) == [job_id]
    assert (await lease_one(store)).job.waited == pytest.approx(13, abs=0.01)
    assert (await record(store, job_id)).ready_at is None


async def test_a_worker_of_the_layout_before_has_no_release(store: SqliteStore, path: Path) -> None:
    await store.open()
    run(path, REGISTER_WORKER, "w", "host", 1, "[]", "[]", 1, "[]", "{}", 0.0, 0.0, "bell")
    assert [(worker.id, worker.release) for worker in await store.workers()] == [("w", "")]
