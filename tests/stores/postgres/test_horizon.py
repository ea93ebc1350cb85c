"""An old transaction, anywhere in the database, keeps what was deleted since from being cleaned away: who leases walks around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure.core.lease import new_nonce
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.store import PostgresStore
from tenure.testing.conformance.scene import RELEASE, SUCCEED, a_job, enqueue, lease, lease_one, settle

from .conftest import MakeStore

DONE = 8000
"""Jobs that have come and gone since."""


LOOKED_AT = "SELECT pg_stat_get_xact_tuples_returned('live_in_line'::regclass)"


@pytest.fixture
async def store(make_store: MakeStore, postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store whose rows nobody may clean away, for somebody might still look at them."""
    store = make_store()
    await store.open()
    old = await asyncpg.connect(Address.from_url(postgres_url).dsn)
    async with old.transaction(isolation="repeatable_read"):
        await old.fetch("SELECT FROM pg_class")
        for _ in range(DONE // 1000):
            await enqueue(store, *(a_job() for _ in range(1000)))
            await store.settle([(each, SUCCEED) for each in await lease(store, limit=1000)])
        yield store
    await old.close()


async def walked(sql: Any) -> int:
    """Lease ten jobs; how many places in line were looked at."""
    async with sql.transaction():
        before: int = await sql.fetchval(LOOKED_AT)
        assert (
            len(await sql.fetch("SELECT * FROM lease_jobs(NULL, '{q}', 10, 'w', 30, $1, false, NULL)", new_nonce()))
            == 11
        )
        after: int = await sql.fetchval(LOOKED_AT)
    return after - before


async def hold_front(sql: Any, begun: float) -> None:
    """A front has been noted since then, for a second: let it be there for as long as the test takes."""
    held = await sql.execute("UPDATE fronts SET until = clock(NULL) + 60 WHERE until > $1::float8 + 1", begun)
    assert held == "UPDATE 1"


async def test_one_lease_walks_over_what_is_left_of_old_jobs_and_the_next_ones_do_not(
    store: PostgresStore, sql: Any
) -> None:  # F14
    await sql.execute("DELETE FROM fronts")
    await enqueue(store, *(a_job() for _ in range(100)))

    begun = await sql.fetchval("SELECT clock(NULL)")
    first = await walked(sql)
    await hold_front(sql, begun)
    others = [await walked(sql) for _ in range(5)]

    assert first > DONE
    assert max(others) < 1500


async def test_what_comes_back_to_a_place_before_the_front_is_leased_first(
    store: PostgresStore, sql: Any
) -> None:  # F14, I9
    await enqueue(store, a_job(id="first"), *(a_job() for _ in range(5)))
    first = await lease_one(store)
    changed = await sql.execute("UPDATE fronts SET seq = $1, until = clock(NULL) + 60", first.job.seq + 1)
    assert changed == "UPDATE 1"
    assert (await lease_one(store)).job.id != "first"

    await settle(store, first, RELEASE)

    assert (await lease_one(store)).job.id == "first"


async def test_what_is_committed_a_little_later_than_its_neighbours_is_not_passed_over(
    store: PostgresStore, sql: Any, postgres_url: str
) -> None:  # F14, I8
    await sql.execute("DELETE FROM fronts")
    address = Address.from_url(postgres_url)
    late = await asyncpg.connect(address.dsn, server_settings={"search_path": address.schema})
    async with late.transaction():
        await late.execute("SELECT enqueue(task => 't', id => 'late', queue => 'q')")
        await enqueue(store, *(a_job() for _ in range(100)))
        begun = await sql.fetchval("SELECT clock(NULL)")
        await walked(sql)
        await hold_front(sql, begun)
    await late.close()

    assert (await lease_one(store)).job.id == "late"


async def test_what_is_far_before_the_front_is_passed_over_for_a_moment(store: PostgresStore, sql: Any) -> None:  # F14
    await enqueue(store, a_job(id="first"), *(a_job() for _ in range(5)))
    await sql.execute(
        "UPDATE fronts SET seq = (SELECT seq + 1 FROM records WHERE id = 'first'), until = clock(NULL) + 60"
    )

    others = [await lease_one(store), await lease_one(store)]
    await sql.execute("UPDATE fronts SET until = 0")  # which it is after a second

    assert "first" not in {each.job.id for each in others}
    assert (await lease_one(store)).job.id == "first"


async def test_the_oldest_job_is_found_without_walking_over_what_is_left_of_old_ones(
    store: PostgresStore, sql: Any
) -> None:  # F14
    await sql.execute("DELETE FROM fronts")
    await enqueue(store, *(a_job() for _ in range(100)))
    begun = await sql.fetchval("SELECT clock(NULL)")
    await walked(sql)
    await hold_front(sql, begun)

    async with sql.transaction():
        before: int = await sql.fetchval(LOOKED_AT)
        [found] = await sql.fetch("SELECT * FROM find_queues(NULL, '', NULL, 16)")
        after: int = await sql.fetchval(LOOKED_AT)

    assert found["oldest"] is not None
    assert after - before < 1500


async def test_the_oldest_job_may_have_come_back_to_a_place_before_the_front(
    store: PostgresStore, sql: Any
) -> None:  # F14
    await enqueue(store, a_job(id="first"), *(a_job() for _ in range(5)))
    first = await lease_one(store)
    await sql.execute("UPDATE jobs SET created_at = created_at - 1000 WHERE id = 'first'")
    await sql.execute("UPDATE fronts SET seq = $1, until = clock(NULL) + 60", first.job.seq + 1)
    [found] = await store.queues()
    assert found.oldest is not None
    assert found.oldest < 900

    await settle(store, first, RELEASE)

    [found] = await store.queues()
    assert found.oldest is not None
    assert found.oldest > 900


async def test_what_is_in_line_before_the_front_is_leased_if_nothing_else_is(
    store: PostgresStore, sql: Any
) -> None:  # F14, I11
    await enqueue(store, a_job(id="first"))
    await sql.execute("UPDATE fronts SET seq = seq + 1000000, until = clock(NULL) + 60")

    assert (await lease_one(store)).job.id == "first"
