"""The history of attempts in a SQLite file: it goes with its job, whoever removes that, and comes with the transaction that ends one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.core.job import AttemptEnd, State
from tenure.core.lifecycle import Finish
from tenure.core.options import Retention
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import OK, VerdictKind
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import (
    BOOM,
    FAIL,
    RELEASE,
    RETRY,
    SUCCEED,
    a_job,
    enqueue,
    lease,
    lease_one,
    lose,
    record,
    settle,
    success,
)
from tests.inspection import rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock)
    await store.open()
    yield store
    await store.close()


def remembered(path: Path) -> int:
    [(number,)] = rows(path, "SELECT count(*) FROM tenure_attempts")
    assert isinstance(number, int)
    return number


HISTORIES = (
    "retried",
    "retried and succeeded",
    "lost",
    "failed",
    "cancelled",
    "completed",
    "retried by an operator",
    "wrote",
)


async def with_history(store: SqliteStore, clock: ManualClock, kind: str, queue: str = "q") -> str:
    """Make a job, and let it have one attempt that is remembered."""
    [job_id] = await enqueue(store, a_job(max_losses=0, queue=queue))
    leased = await lease_one(store, queue)
    match kind:
        case "retried":
            await settle(store, leased, RETRY)
        case "retried and succeeded":
            await settle(store, leased, RETRY)
            await settle(store, await lease_one(store, queue), SUCCEED)
        case "lost":
            await lose(store, clock, leased)
        case "failed":
            await settle(store, leased, FAIL)
        case "cancelled":
            await store.cancel([job_id])
        case "completed":
            await store.complete(job_id, SUCCEED)
        case "retried by an operator":
            await settle(store, leased, SUCCEED)
            await store.retry([job_id])
        case "wrote":
            await settle(store, leased, success(output="it wrote"))
    assert len((await record(store, job_id)).attempts) == 1
    return job_id


@pytest.mark.parametrize("kind", HISTORIES)
async def test_the_history_goes_with_its_job(path: Path, store: SqliteStore, clock: ManualClock, kind: str) -> None:
    await with_history(store, clock, kind)
    assert remembered(path) == 1

    await store.purge("q")
    clock.advance(1)
    await store.prune(Retention(succeeded=0, failed=0), {})

    assert remembered(path) == 0


# The statements of the layout before, word for word.
BY_ID = "DELETE FROM tenure_jobs WHERE id IN (SELECT value FROM json_each(?1))"
BY_NUMBER = "DELETE FROM tenure_jobs WHERE n IN (SELECT value FROM json_each(?1))"


@pytest.mark.parametrize("kind", HISTORIES)
async def test_it_goes_with_a_job_that_the_layout_before_removes(
    path: Path, store: SqliteStore, clock: ManualClock, kind: str
) -> None:
    one, other = [await with_history(store, clock, kind, queue) for queue in ("a", "b")]
    [(number,)] = rows(path, "SELECT n FROM tenure_jobs WHERE id = ?", other)

    rows(path, BY_ID, f'["{one}"]')
    rows(path, BY_NUMBER, f"[{number}]")

    assert remembered(path) == 0
    [job_id] = await enqueue(store, a_job(id=one))
    assert (await record(store, job_id)).attempts == (), "though it may have the number that the first had"


async def test_a_job_that_is_not_kept_leaves_none(path: Path, store: SqliteStore) -> None:
    await enqueue(store, a_job(keep=0.0), a_job(keep=0.0))
    one, other = await lease(store)
    await store.settle([(one, RETRY), (other, FAIL)])
    await settle(store, await lease_one(store), SUCCEED)
    await enqueue(store, a_job(keep=0.0))
    await settle(store, await lease_one(store), success(output="it wrote"))

    assert remembered(path) == 0


async def test_a_plain_job_costs_no_row(path: Path, store: SqliteStore) -> None:
    await enqueue(store, a_job(), a_job())
    one, other = await lease(store)
    await store.settle([(one, SUCCEED), (other, RELEASE)])
    await settle(store, await lease_one(store), SUCCEED)

    assert remembered(path) == 0


async def test_an_attempt_that_ends_in_a_transaction_is_remembered_with_its_commit(store: SqliteStore) -> None:
    [job_id] = await enqueue(store)
    leased = await lease_one(store)

    taken_back = await store.begin()
    assert await taken_back.caller.arun(store.settling((leased, RETRY))) == OK
    await taken_back.rollback()
    assert (await record(store, job_id)).attempts == ()

    for step in (RETRY, success(output="it wrote")):
        own = await store.begin()
        assert await own.caller.arun(store.settling((leased, step))) == OK
        await own.commit()
        leased = await lease_one(store) if step is RETRY else leased
    outcomes = [(past.fence, past.outcome, past.error, past.output) for past in (await record(store, job_id)).attempts]
    assert outcomes == [(1, AttemptEnd.RETRIED, BOOM, None), (2, AttemptEnd.SUCCEEDED, None, "it wrote")]


async def test_a_settle_that_is_refused_leaves_none(store: SqliteStore) -> None:
    [job_id, _] = await enqueue(store, a_job(), a_job(queue="other", unique="k"))
    leased = await lease_one(store)
    child = a_job(unique="k", unique_raises=True)

    [verdict] = await store.settle([(leased, Finish(State.FAILED, error=BOOM, children=(child,)))])

    assert verdict.kind is VerdictKind.REFUSED
    assert (await record(store, job_id)).attempts == ()
