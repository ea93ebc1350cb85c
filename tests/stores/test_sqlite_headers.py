"""Headers, orders and the audit in a SQLite file: the layout that brought them, and that its statements stay cheap."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import apsw
import pytest

from tenure.core.job import State
from tenure.stores.base import BATCH
from tenure.stores.callers.sqlite import Sqlite3Caller
from tenure.stores.sqlite import schema
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.queries import sql
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import ACTIONS, ACTIONS_KEPT, Action, Layout, LeaseRequest, Order, Pulse
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    FAIL,
    RETRY,
    SUCCEED,
    a_job,
    a_worker,
    ask,
    enqueue,
    lease,
    lease_one,
    line,
    record,
    settle,
)
from tests.inspection import rows, run

TENANT = {"tenant": "t1"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock)
    await store.open()
    yield store
    await store.close()


# Headers.


async def test_headers_are_json_in_their_column_and_null_for_none(store: SqliteStore, path: Path) -> None:
    await enqueue(store, a_job(headers={"b": "1", "a": "é"}), a_job())
    await enqueue(store, a_job(headers=TENANT))
    await enqueue(store)

    found = [headers for (headers,) in rows(path, "SELECT headers FROM tenure_jobs ORDER BY n")]

    assert [headers and json.loads(headers) for headers in found] == [{"b": "1", "a": "é"}, None, TENANT, None]
    assert list(json.loads(found[0])) == ["b", "a"]


async def test_headers_come_with_every_way_to_lease(store: SqliteStore) -> None:
    """Each has another statement: jobs of some tasks are skipped, a suspect runs alone, a payload is not valid text."""
    await enqueue(store, *[a_job(task=task, headers=TENANT) for task in "tu"])

    [skipping] = (await ask(store, limit=5, skip_tasks=("t",))).leases
    assert (skipping.job.task, skipping.job.headers) == ("u", TENANT)
    await settle(store, skipping, FAIL)
    for _ in range(2):
        leased = await lease_one(store)
        await store.retire(leased.job.worker or "")
    [suspect] = (await ask(store, solo=True)).leases
    assert (suspect.job.suspect, suspect.job.headers) == (True, TENANT)


@pytest.mark.parametrize("skipped", [(), ("u",)])
async def test_headers_come_with_a_payload_that_another_program_has_broken(
    store: SqliteStore, path: Path, skipped: tuple[str, ...]
) -> None:
    await enqueue(store, a_job(headers={"tenant": "Zoë"}), a_job())
    run(path, "UPDATE tenure_jobs SET payload = CAST(x'ff' AS TEXT) WHERE headers IS NOT NULL")

    broken, whole = (await ask(store, limit=2, skip_tasks=skipped)).leases

    assert (broken.job.payload, broken.job.headers) == (b"\xff", {"tenant": "Zoë"})
    assert whole.job.headers is None


async def test_leases_of_a_lost_answer_have_headers(store: SqliteStore) -> None:
    await enqueue(store, a_job(headers=TENANT))
    leased = await ask(store, nonce=77)
    assert leased.leases

    [again] = await store.leases_of(LeaseRequest(queues=("q",), limit=1, worker="w", ttl=30.0, nonce=77))

    assert again.job.headers == TENANT


async def test_a_callers_transaction_enqueues_headers(path: Path) -> None:
    store = SqliteStore(path, library=Library.PYTHON)
    await store.open()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        answers = Sqlite3Caller(connection).run(store.enqueueing([a_job(headers=TENANT), a_job()]))
        connection.commit()

    assert [(await record(store, answer.id)).headers for answer in answers] == [TENANT, None]

    await store.close()


# The layout that brought them.


def make_layout_8(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        folder = files("tenure.stores.sqlite") / "migrations"
        for file in sorted(folder.iterdir(), key=lambda file: file.name)[:8]:
            connection.execute(file.read_text())
        connection.execute("INSERT INTO tenure_meta (key, value) VALUES ('layout', 8)")
        connection.execute("UPDATE tenure_queues SET seq = 1 WHERE name = ''")
        connection.execute("INSERT INTO tenure_queues (name, waiting) VALUES ('q', 1)")
        connection.execute(INSERT_JOBS, ("old", "t", "q", "waiting", "{}", 0, 1, None, 0.0, None, 3))
        connection.execute(REGISTER_WORKER, ("w", "host", 1, "[]", "[]", 1, "[]", "{}", 0.0, 0.0, "bell", ""))


# Statements of layout 8; the first without the columns that are empty here.

INSERT_JOBS = (
    "INSERT INTO tenure_jobs (id, task, queue, state, payload, priority, seq, run_at, created_at, max_attempts, max_losses) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
REGISTER_WORKER = (
    "INSERT OR REPLACE INTO tenure_workers (id, host, pid, queues, tasks, concurrency, lanes, pulse, started_at, beat, bell, "
    "release) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
)
RECORD_BEAT = "UPDATE tenure_workers SET pulse = ?2, beat = ?3 WHERE id = ?1"
LEASE_JOB = (
    "UPDATE tenure_jobs SET state = 'running', attempt = attempt + 1, fence = fence + 1, nonce = 5, worker = 'w', "
    "lease_until = 0 WHERE id = ?1"
)


async def test_a_file_of_the_layout_before_keeps_its_jobs_and_workers(path: Path) -> None:
    make_layout_8(path)
    store = SqliteStore(path)

    await store.open()
    [new] = await enqueue(store, a_job(headers=TENANT))

    assert await store.layout() == Layout(schema.KNOWN, schema.KNOWN)
    assert await line(store) == ["old", new]
    assert [leased.job.headers for leased in await lease(store)] == [None, TENANT]
    assert [(worker.id, worker.order) for worker in await store.workers()] == [("w", Order.GO_ON)]
    assert await store.order("w", Order.QUIET)
    assert await store.beat("w", Pulse()) is Order.QUIET
    assert (await store.actions()).actions == []
    await store.close()


async def test_the_layout_before_enqueues_and_leases_beside(store: SqliteStore, path: Path) -> None:
    [own] = await enqueue(store, a_job(headers=TENANT))
    run(path, INSERT_JOBS, "old", "t", "q", "waiting", "{}", 0, 99, None, 0.0, None, 3)
    run(path, "UPDATE tenure_queues SET waiting = waiting + 1 WHERE name = 'q'")
    run(path, LEASE_JOB, own)
    run(path, "UPDATE tenure_queues SET waiting = waiting - 1, running = running + 1 WHERE name = 'q'")
    assert (await lease_one(store)).job.headers is None

    assert [reaped.id for reaped in await store.reap(["q"])] == [own]

    again = await lease_one(store)
    assert (again.job.id, again.job.headers) == (own, TENANT)


async def test_a_worker_of_the_layout_before_registers_and_beats_beside(store: SqliteStore, path: Path) -> None:
    await store.register(a_worker("w"))
    await store.order("w", Order.STOP)

    run(path, RECORD_BEAT, "w", "{}", 1.0)
    assert [worker.order for worker in await store.workers()] == [Order.STOP]
    run(path, REGISTER_WORKER, "w", "host", 1, "[]", "[]", 1, "[]", "{}", 0.0, 0.0, "bell", "")

    assert [worker.order for worker in await store.workers()] == [Order.GO_ON]


# What they cost.

PLANS = {
    "record_beat": ["SEARCH tenure_workers (id=?)"],
    "set_order": ["SEARCH tenure_workers (id=?)"],
    "edges_of": ["SEARCH tenure_edges (dependent=?)"],
    "list_actions": ["SEARCH tenure_actions (rowid<?)"],
    "delete_old_actions": ["SEARCH tenure_actions (rowid<?)", "SEARCH tenure_actions (at<?)"],
}


@pytest.mark.parametrize("query", PLANS)
async def test_no_statement_reads_all_workers_edges_or_actions(store: SqliteStore, path: Path, query: str) -> None:
    values = [None] * len(set(re.findall(r"\?\d", sql[query])))
    plan = [row[3] for row in rows(path, f"EXPLAIN QUERY PLAN {sql[query]}", *values)]
    found = [re.fullmatch(r"(SEARCH tenure_\w+) USING .* (\(.*\))", each) for each in plan]
    assert [f"{each[1]} {each[2]}" for each in found if each] == PLANS[query]
    assert not any("SCAN tenure_" in each or "TEMP B-TREE" in each for each in plan)


async def test_the_audit_grows_no_further_than_it_is_read(store: SqliteStore, path: Path, clock: ManualClock) -> None:
    action = Action(who="ann", by="cli", what="retry")
    for _ in range(0, ACTIONS + BATCH, BATCH):
        await store.note_actions([action] * BATCH)
    await store.note_actions([action] * 7)
    assert rows(path, "SELECT count(*), max(n) - min(n) FROM tenure_actions") == [(ACTIONS, ACTIONS - 1)]

    clock.advance(ACTIONS_KEPT)
    assert (await store.actions()).actions == []
    await store.note_actions([])

    assert rows(path, "SELECT count(*) FROM tenure_actions") == [(0,)]


async def test_a_job_that_is_retried_by_hand_keeps_its_headers(store: SqliteStore) -> None:
    [job_id] = await enqueue(store, a_job(headers=TENANT))
    await settle(store, await lease_one(store), RETRY)
    await store.cancel([job_id])
    await store.retry([job_id])

    leased = await lease_one(store)
    await settle(store, leased, SUCCEED)

    found = await record(store, job_id)
    assert (leased.job.headers, found.headers, found.state) == (TENANT, TENANT, State.SUCCEEDED)
