"""Many jobs through the tables: what they leave behind is cleaned up, and costs the next ones nothing."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from tenure.core.lease import new_nonce
from tenure.core.options import Retention
from tenure.stores.postgres import vacuum
from tenure.stores.postgres.address import Address
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import LeaseRequest
from tenure.testing.conformance.scene import SUCCEED, a_job

from .conftest import MakeStore

NUMBER = 1000


async def pass_through(store: PostgresStore) -> None:
    """Enqueue many jobs, work them off, and remove them."""
    await store.enqueue([a_job() for _ in range(NUMBER)])
    request = LeaseRequest(queues=("q",), limit=10, worker="w", ttl=30.0, nonce=new_nonce())
    leases = (await store.lease(request)).leases
    while leases:
        _, leased = await store.settle_and_lease([(lease, SUCCEED) for lease in leases], request)
        leases = leased.leases
    while await store.prune(Retention(succeeded=0.0), {}):
        pass


async def told(store: PostgresStore) -> None:
    """Let the server count what this store has done so far; a connection tells it after a while, or when it is asked to."""
    await store._link.fetch("SELECT pg_stat_force_next_flush()")
    await store._link.fetch("SELECT 1")


async def looked_at(store: PostgresStore, sql: Any) -> int:
    """Entries of indexes that one pass has looked at."""
    entries = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = $1"
    await told(store)
    before = await sql.fetchval(entries, store._address.schema)
    await pass_through(store)
    await told(store)
    return int(await sql.fetchval(entries, store._address.schema) - before)


async def test_tables_that_a_vacuum_found_empty_are_not_gone_through(make_store: MakeStore, sql: Any) -> None:
    store = make_store(connections="1")
    await store.open()
    usual = await looked_at(store, sql)
    # Room is left, and nobody in it: from now on the planner believes in few rows, however many there are.
    await sql.execute("VACUUM (TRUNCATE off, ANALYZE) live, jobs, ended, edges, uniques, waiters")

    assert await looked_at(store, sql) < 2 * usual


async def cleaned_by_us_alone(store: PostgresStore, sql: Any) -> None:
    """Let the server clean nothing by itself: it may come to these tables at any time."""
    await store.open()
    for table in ("live", "ended", "tallies"):
        await sql.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")


async def dead_rows(sql: Any) -> int:
    return int(await sql.fetchval("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'live'::regclass"))


async def test_dead_rows_are_cleaned_up_before_the_server_would(
    make_store: MakeStore, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "DEAD", NUMBER)
    store = make_store(connections="1")
    await cleaned_by_us_alone(store, sql)
    store._vacuum._due = inf
    await pass_through(store)
    await told(store)
    assert await dead_rows(sql) >= 2 * NUMBER
    store._vacuum._due = 0.0

    await store.prune(Retention(), {})

    assert await dead_rows(sql) == 0


async def test_what_an_older_transaction_holds_back_is_not_tried_over_and_over(
    make_store: MakeStore, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # F17
    monkeypatch.setattr(vacuum, "DEAD", NUMBER)
    store = make_store(connections="1")
    await cleaned_by_us_alone(store, sql)
    async with sql.transaction(isolation="repeatable_read"):
        await sql.fetchval("SELECT 1")
        store._vacuum._due = inf
        await pass_through(store)
        await told(store)
        store._vacuum._due = 0.0
        for _ in range(3):
            await store.prune(Retention(), {})
    vacuums = "SELECT vacuum_count FROM pg_stat_user_tables WHERE relid = 'live'::regclass"

    assert await sql.fetchval(vacuums) == 1


async def test_tables_of_another_are_left_to_the_server(
    make_store: MakeStore, sql: Any, stranger: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "DEAD", -1)
    await make_store().open()
    schema = Address.from_url(postgres_url).schema
    await sql.execute(
        f"GRANT USAGE ON SCHEMA {schema} TO {stranger}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {stranger}"
    )
    store = PostgresStore.from_url(postgres_url.replace("tenure@", f"{stranger}@"))

    await store.prune(Retention(), {})
    await store.close()

    assert await sql.fetchval("SELECT sum(vacuum_count) FROM pg_stat_user_tables WHERE schemaname = $1", schema) == 0
