"""What is true of connections to PostgreSQL: errors say whether it was done, and nothing outlives what went wrong."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from tenure.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from tenure.stores.postgres.store import PostgresStore
from tenure.testing.conformance.scene import SUCCEED, a_job, lease_one, settle

from .conftest import MakeStore


async def end_others(sql: Any, *stores: PostgresStore) -> None:
    """End every connection but our own, from the server's side, and come back when these have noticed it in their idle ones."""
    await sql.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    async with asyncio.timeout(20):
        while not all(connection.is_closed() for store in stores for connection in store._link._idle):
            await asyncio.sleep(0.01)


async def test_nobody_there_is_unavailable_and_surely_not_done() -> None:
    with socket.socket() as taken:  # so that nobody else listens there meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        store = PostgresStore.from_url(f"postgresql://nobody@127.0.0.1:{port}/none?connect_timeout=2")

        with pytest.raises(StoreUnavailable):
            await store.enqueue([a_job()])
        await store.close()


async def test_a_database_that_does_not_exist_is_an_error_that_no_patience_mends(postgres_server_url: str) -> None:
    store = PostgresStore.from_url(postgres_server_url.replace("/postgres", "/nowhere"))

    with pytest.raises(StoreError, match="nowhere") as raised:
        await store.open()
    assert not isinstance(raised.value, StoreUnavailable)
    await store.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        # about the server, or about who may use it
        *((code, StoreUnavailable) for code in ("28000", "28P01", "42501", "3F000", "42P01", "42703", "42883")),
        *(
            (code, StoreUnavailable)
            for code in ("57014", "55P03", "25006", "58030", "58P01", "XX000", "XX001", "F0000")
        ),
        ("53100", StoreFull),
        *((code, OutcomeUnknown) for code in ("08006", "40003")),
        # perhaps about what was asked
        *((code, StoreError) for code in ("21000", "22P05", "23514", "42804", "54000", "P0001")),
    ],
)
async def test_a_refusal_says_whether_it_may_be_about_what_was_asked(
    make_store: MakeStore, code: str, kind: type[StoreError]
) -> None:
    link = make_store()._link

    with pytest.raises(StoreError, match="because") as raised:
        await link.fetch(f"DO $$ BEGIN RAISE 'because' USING ERRCODE = '{code}'; END $$")

    assert type(raised.value) is kind
    await link.fetch("SELECT 1")


async def test_connections_that_ended_while_idle_are_replaced(make_store: MakeStore, sql: Any) -> None:  # F14
    store = make_store()
    await store.enqueue([a_job()])
    await end_others(sql, store)

    assert len(await store.queues()) == 1


async def test_a_call_that_was_cut_off_may_have_been_done(make_store: MakeStore, sql: Any) -> None:  # F14, I19
    store = make_store()
    [job] = await store.enqueue([a_job()])
    async with sql.transaction():
        await sql.execute("LOCK TABLE live")
        call = asyncio.create_task(store.cancel([job.id]))
        await _waiting_for_a_lock(sql)
        await end_others(sql)
        with pytest.raises(OutcomeUnknown):
            await call

    assert [verdict.kind for verdict in await store.cancel([job.id])] == ["ok"]


async def test_no_wait_is_longer_than_the_timeout(make_store: MakeStore, sql: Any) -> None:  # F16
    store = make_store(timeout="2")
    await store.open()
    async with sql.transaction():
        await sql.execute("LOCK TABLE live")
        with pytest.raises(OutcomeUnknown, match="not answered"):
            await store.enqueue([a_job()])

    assert len(await store.enqueue([a_job()])) == 1


@pytest.mark.parametrize("how", ["given up", "cancelled"])
async def test_the_server_does_not_go_on_with_what_nobody_waits_for(
    make_store: MakeStore, sql: Any, how: str
) -> None:  # F16
    store = make_store(timeout="1")
    await store.open()
    async with sql.transaction():
        await sql.execute("LOCK TABLE live")
        call = asyncio.create_task(store.enqueue([a_job()]))
        await _waiting_for_a_lock(sql)
        if how == "cancelled":
            call.cancel()
        with pytest.raises((OutcomeUnknown, asyncio.CancelledError)):
            await call

        await _waiting_for_a_lock(sql, waits=False)


async def test_a_cancelled_call_harms_no_other(make_store: MakeStore, sql: Any) -> None:
    store = make_store(connections="1")
    await store.open()
    async with sql.transaction():
        await sql.execute("LOCK TABLE live")
        call = asyncio.create_task(store.enqueue([a_job()]))
        await _waiting_for_a_lock(sql)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    [answer] = await store.enqueue([a_job(id="after")])
    assert answer.id == "after"


async def test_two_that_wait_for_each_other_are_both_done_in_the_end(make_store: MakeStore, sql: Any) -> None:
    await sql.execute("SET deadlock_timeout = '5s'")  # the other one is to give way
    store = make_store(timeout="20")
    await store.enqueue([a_job(id="a"), a_job(id="b")])
    async with sql.transaction():
        await sql.execute("SELECT FROM live WHERE n = (SELECT n FROM jobs WHERE id = 'b') FOR UPDATE")
        call = asyncio.create_task(store.cancel(["a", "b"]))
        await _waiting_for_a_lock(sql)
        await sql.execute("SELECT FROM live WHERE n = (SELECT n FROM jobs WHERE id = 'a') FOR UPDATE")

    assert [verdict.kind for verdict in await call] == ["ok", "ok"]


async def test_a_pooler_may_change_the_server_between_transactions(make_store: MakeStore) -> None:
    store = make_store(pooled="true")
    await store.enqueue([a_job()])

    assert (await settle(store, await lease_one(store), SUCCEED)).kind == "ok"
    [notifications] = [fact for fact in await store.examine() if fact.name == "notifications"]
    assert "pooler" in notifications.value


async def test_a_child_leaves_its_parents_connections_alone(make_store: MakeStore) -> None:  # F22
    store = make_store()
    await store.enqueue([a_job()])
    child = os.fork()
    if child == 0:
        os._exit(0 if not store._link._idle else 1)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert len(await store.queues()) == 1


async def _waiting_for_a_lock(sql: Any, waits: bool = True) -> None:
    async with asyncio.timeout(10):
        while await sql.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)") is not waits:
            await asyncio.sleep(0.01)
