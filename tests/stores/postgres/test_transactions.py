"""Transactions for jobs' own writes: on connections that nobody else waits for, and as new for each job."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure.errors import InvalidOption, OutcomeUnknown, StoreUnavailable
from tenure.stores.base import OwnTransaction
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import LeaseStatus, Renewal
from tenure.testing.conformance.scene import SUCCEED, enqueue, lease, lease_one, settle

from .conftest import MakeStore
from .test_pooler import pooled_url

__all__ = ["pooled_url"]


async def end_connection_of(own: OwnTransaction, sql: Any) -> None:
    """Have the server end it, and come back when it is gone."""
    pid = await own.connection.fetchval("SELECT pg_backend_pid()")
    await sql.fetchval("SELECT pg_terminate_backend($1)", pid)
    while await sql.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid):
        await asyncio.sleep(0.005)


async def test_jobs_take_turns_and_nobody_else_waits(make_store: MakeStore) -> None:  # F14
    store = make_store(connections="2")
    await enqueue(store)
    held = await lease_one(store)
    most = under_way = 0
    two = asyncio.Barrier(2)

    async def complete() -> None:
        nonlocal most, under_way
        own = await store.begin()
        under_way += 1
        most = max(most, under_way)
        async with asyncio.timeout(20):
            await two.wait()  # else one could be through with all of them before the other is connected
            await enqueue(store)
            assert await store.renew([Renewal(held, 30)]) == [None]
        under_way -= 1
        await own.commit()

    await asyncio.gather(*(complete() for _ in range(10)))

    assert most == 2
    assert await settle(store, held, SUCCEED)


async def test_who_waits_too_long_for_a_turn_is_told(make_store: MakeStore) -> None:
    store = make_store(connections="1", timeout="2")
    first = await store.begin()

    with pytest.raises(StoreUnavailable, match=r"all 1 connections .* are lent to jobs: set a higher connections="):
        await store.begin()

    await first.rollback()
    await (await store.begin()).commit()


async def test_what_a_job_has_set_is_gone_for_the_next(make_store: MakeStore) -> None:
    store = make_store(connections="1")
    first = await store.begin()
    connection = first.connection
    await first.execute("SET statement_timeout = '1h'")
    await first.commit()

    second = await store.begin()

    assert second.connection is connection
    assert await second.fetch("SHOW statement_timeout") == [("0",)]
    await second.rollback()


async def test_one_that_says_nothing_for_a_minute_is_ended_by_the_server(make_store: MakeStore) -> None:
    own = await make_store().begin()

    assert await own.fetch("SHOW idle_in_transaction_session_timeout") == [("1min",)]
    await own.rollback()


async def test_savepoints_are_the_drivers(make_store: MakeStore) -> None:
    store = make_store()
    own = await store.begin()
    await own.execute("CREATE TEMPORARY TABLE effects (n integer)")

    with pytest.raises(asyncpg.PostgresError):
        async with own.connection.transaction():
            await own.execute("INSERT INTO effects VALUES (1)")
            await own.execute("INSERT INTO nowhere VALUES (1)")

    assert await own.fetch("SELECT n FROM effects") == []
    await own.rollback()


async def test_a_connection_that_is_cut_is_the_stores_error(make_store: MakeStore, sql: Any) -> None:
    store = make_store()
    await enqueue(store)
    leased = await lease_one(store)
    own = await store.begin()
    await end_connection_of(own, sql)

    with pytest.raises(StoreUnavailable):
        await own.execute("SELECT 1")
    with pytest.raises(StoreUnavailable):
        await own.caller.arun(store.settling((leased, SUCCEED)))
    with pytest.raises(StoreUnavailable):
        await own.commit()

    assert await store.lease_status(leased) is LeaseStatus.HELD


async def test_a_commit_that_is_cut_off_may_have_been_done(make_store: MakeStore, sql: Any) -> None:  # I19
    """The connection goes while the server commits: a constraint that it checks only then makes that take a while."""
    store = make_store()
    await store.open()
    await sql.execute("""
        CREATE TABLE effects (n integer);
        CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION dawdle();
    """)
    schema = await sql.fetchval("SELECT current_schema()")
    own = await store.begin()
    pid = await own.connection.fetchval("SELECT pg_backend_pid()")
    await own.execute(f"INSERT INTO {schema}.effects VALUES (1)")
    committing = asyncio.create_task(own.commit())
    while await sql.fetchval("SELECT query FROM pg_stat_activity WHERE pid = $1", pid) != "COMMIT;":
        await asyncio.sleep(0.005)

    await sql.fetchval("SELECT pg_terminate_backend($1)", pid)

    with pytest.raises(OutcomeUnknown):
        await committing


async def test_a_constraint_that_fails_at_the_commit_is_the_jobs_error(make_store: MakeStore, sql: Any) -> None:
    store = make_store(connections="1")
    await store.open()
    await sql.execute("CREATE TABLE effects (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    schema = await sql.fetchval("SELECT current_schema()")
    own = await store.begin()
    await own.execute(f"INSERT INTO {schema}.effects VALUES (1), (1)")

    with pytest.raises(asyncpg.UniqueViolationError):
        await own.commit()

    assert await sql.fetch("SELECT * FROM effects") == []
    await (await store.begin()).commit()


async def test_a_transaction_that_a_statement_has_ended_settles_nothing(make_store: MakeStore) -> None:
    store = make_store()
    await enqueue(store)
    leased = await lease_one(store)
    own = await store.begin()
    await own.execute("COMMIT")

    with pytest.raises(InvalidOption):
        await own.caller.arun(store.settling((leased, SUCCEED)))

    await own.rollback()
    assert await store.lease_status(leased) is LeaseStatus.HELD


async def test_a_connection_that_was_ended_while_it_was_idle_is_replaced(make_store: MakeStore, sql: Any) -> None:
    store = make_store(connections="1")
    own = await store.begin()
    pid = await own.connection.fetchval("SELECT pg_backend_pid()")
    await own.commit()
    await sql.fetchval("SELECT pg_terminate_backend($1)", pid)

    other = await store.begin()

    assert await other.connection.fetchval("SELECT pg_backend_pid()") != pid
    await other.commit()


async def test_closing_the_store_ends_what_is_open(make_store: MakeStore) -> None:
    store = make_store()
    own = await store.begin()

    async with asyncio.timeout(20):
        await store.close()

    with pytest.raises(StoreUnavailable):
        await own.execute("SELECT 1")
    await own.rollback()


async def test_a_lock_that_lasts_is_not_waited_for_without_end(make_store: MakeStore) -> None:
    store = make_store()
    await enqueue(store)
    leased = await lease_one(store)
    own = await store.begin()
    await own.caller.arun(store.settling((leased, SUCCEED)))

    with pytest.raises(StoreUnavailable, match="lock timeout"):
        await store.lease_status(leased)
    await own.rollback()


async def test_behind_a_pooler_it_is_the_same(pooled_url: str) -> None:
    store = PostgresStore.from_url(pooled_url)
    await enqueue(store)
    [leased] = await lease(store)
    own = await store.begin()

    await own.caller.arun(store.settling((leased, SUCCEED)))
    await own.commit()

    assert await store.lease_status(leased) is LeaseStatus.SETTLED
    await store.close()
