"""Enqueueing in the caller's own transaction on PostgreSQL, by every kind of connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest

from tenure import App
from tenure.core.job import JobRecord
from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.stores.postgres.address import Address
from tenure.tasks.task import Caller as TaskCaller
from tenure.testing.conformance.scene import a_job
from tests.servers.postgres import Pooler

from .callers import CALLERS, Caller, OpenCaller, asyncpg_connection, psycopg_connection
from .postgres_app import Add, add, app, exists, postgres_url, server, sql, waiting

__all__ = ["add", "app", "postgres_url", "server", "sql"]


@pytest.fixture(params=CALLERS.values(), ids=list(CALLERS))
async def caller(request: pytest.FixtureRequest, server: str) -> AsyncIterator[Caller]:
    """A transaction of each kind of connection."""
    async with request.param(server) as caller:
        yield caller


class Sleeper:
    """Somebody who waits for work in every queue."""

    def __init__(self, sql: Any) -> None:
        self._sql = sql
        self.heard: list[str] = []

    async def lie_down(self) -> None:
        await self._sql.add_listener("sleeper", lambda *said: self.heard.append(said[-1]))
        await self._sql.fetchval("SELECT go_idle('sleeper', 1, '.*', '^$', 60)")

    async def is_woken(self) -> bool:
        await self._sql.execute("SELECT 1")  # whatever was notified before comes before the answer
        return bool(self.heard)


@pytest.fixture
async def sleeper(app: App, sql: Any) -> Sleeper:
    await app.internals.session.store.open()
    sleeper = Sleeper(sql)
    await sleeper.lie_down()
    return sleeper


# Q51
async def test_what_commits_is_there_and_wakes_an_idle_worker_then(
    caller: Caller, app: App, add: Add, sleeper: Sleeper
) -> None:
    job = await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)
    await caller.execute("SELECT 1")
    assert not await exists(job)
    assert not await sleeper.is_woken()

    await caller.commit()

    assert await exists(job)
    assert await waiting(app) == 1
    assert await sleeper.is_woken()
    assert sleeper.heard == ["work 1"]


# Q51, Q36
async def test_what_is_rolled_back_never_was_and_wakes_nobody(
    caller: Caller, app: App, add: Add, sleeper: Sleeper
) -> None:
    job = await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)

    await caller.rollback()

    assert not await exists(job)
    assert await app.aqueues() == []
    assert not await sleeper.is_woken()


async def test_a_caller_that_dies_leaves_nothing(server: str, app: App, add: Add, sleeper: Sleeper, sql: Any) -> None:
    async with asyncpg_connection(server) as caller:
        job = await add.using(unique="k", connection=caller.connection).aenqueue(1, 2)
        await sql.fetchval("SELECT pg_terminate_backend($1, 5000)", caller.connection.get_server_pid())

    assert not await exists(job)
    assert not await sleeper.is_woken()
    assert not (await add.using(unique="k").aenqueue(1, 2)).duplicate


BOTH_FORMS = pytest.mark.parametrize("open_caller", [asyncpg_connection, psycopg_connection], ids=["async", "blocking"])


@BOTH_FORMS
async def test_a_worker_runs_what_has_come_with_the_callers_own_rows(
    open_caller: OpenCaller, server: str, app: App, add: Add, sql: Any, postgres_url: str
) -> None:
    await app.internals.session.store.open()
    await sql.execute("CREATE TABLE orders (n integer)")
    async with open_caller(server) as caller, app.worker(["sums"]):
        await caller.execute(f'INSERT INTO "{Address.from_url(postgres_url).schema}".orders VALUES (42)')
        job = await caller.call(add.using(connection=caller.connection).enqueue, 40, 2)
        await caller.commit()

        assert await job.aresult(timeout=10) == 42
    assert await sql.fetchval("SELECT n FROM orders") == 42


async def test_many_go_at_once(caller: Caller, app: App, add: Add) -> None:
    report = app.remote("report", queue="other")
    many = await caller.call(add.using(connection=caller.connection).enqueue_many, [(n, n) for n in range(100)])
    mixed = await caller.call(app.enqueue, add.bind(1, 2), report.bind("€"), connection=caller.connection)
    assert not await exists(many[0])

    await caller.commit()

    assert [job.id for job in await app.ajobs(state="waiting", queue="sums", limit=200)] == [
        *(job.id for job in many),
        mixed[0].id,
    ]
    assert await exists(mixed[1])


OPTIONS: list[dict[str, Any]] = [
    {},
    {"delay": 60, "priority": -3, "tags": ["a", "b"], "keep": 5.5, "max_attempts": 7, "expires": 1000},
    {"delay": 60, "unique": "k", "window": 100, "tags": ["a"], "max_attempts": None},
    {"queue": "other", "unique": True, "keep": 0},
]


AWKWARD = "%s %(x)s {} :value $1 \\ ' \" €\n\0"


async def test_every_byte_arrives(caller: Caller, app: App) -> None:
    raw, text = app.remote("raw", raw=True), app.remote("text")
    jobs = await caller.call(
        app.enqueue,
        raw.bind(bytes(range(256))),
        text.using(unique="%s {} :value €").bind(AWKWARD),
        connection=caller.connection,
    )
    await caller.commit()

    [first, second] = await app.internals.session.store.get([job.id for job in jobs])
    assert first is not None
    assert first.payload == bytes(range(256))
    assert second is not None
    assert second.unique == "%s {} :value €"
    assert text._decode(second.payload) == ((AWKWARD,), {})


@pytest.mark.parametrize("options", OPTIONS, ids=str)
async def test_it_is_the_job_that_would_have_come_without_a_connection(
    server: str, app: App, add: Add, options: dict[str, Any]
) -> None:
    theirs = add.using(**options)
    alone = await theirs.aenqueue(1, 2)
    [expected] = await app.internals.session.store.get([alone.id])
    await app.adelete(alone)
    async with asyncpg_connection(server) as caller:
        [job, *others] = await theirs.using(connection=caller.connection).aenqueue_many([(1, 2)])
        await caller.commit()
    [found] = await app.internals.session.store.get([job.id])

    assert (found is None or expected is None, job.state, others) == (False, alone.state, [])
    for field in set(JobRecord.__struct_fields__) - {"id", "seq", "created_at", "run_at", "expires_at"}:
        assert getattr(found, field) == getattr(expected, field), field
    for instant in ("run_at", "expires_at"):
        assert _after_enqueue(found, instant) == pytest.approx(_after_enqueue(expected, instant))


def _after_enqueue(record: Any, field: str) -> float | None:
    instant: float | None = getattr(record, field)
    return None if instant is None else instant - record.created_at


async def test_a_refusal_leaves_the_transaction_usable(caller: Caller, app: App, add: Add) -> None:
    await app.internals.session.store.open()
    held = await add.using(unique="k").aenqueue(1, 1)
    mine = add.using(connection=caller.connection)
    before = await caller.call(mine.enqueue, 1, 2)

    with pytest.raises(UniqueConflict) as refused:
        await caller.call(mine.using(unique="k", unique_raises=True).enqueue, 1, 1)
    with pytest.raises(BlockerNotFound):
        await caller.run(app.internals.session.store.enqueueing([a_job(), a_job(after=("nobody",))]))
    duplicate = await caller.call(mine.using(unique="k").enqueue, 1, 1)
    after = await caller.call(mine.enqueue, 3, 4)
    await caller.commit()

    assert refused.value.holder == duplicate.id == held.id
    assert duplicate.duplicate
    assert await exists(before)
    assert await exists(after)
    assert await waiting(app) == 3


async def test_a_savepoint_takes_back_what_came_after_it(  # Q36
    caller: Caller, app: App, add: Add, sleeper: Sleeper
) -> None:
    mine = add.using(connection=caller.connection)
    await caller.execute("SAVEPOINT one")
    gone = await caller.call(mine.enqueue, 1, 1)
    await caller.execute("ROLLBACK TO one")
    await caller.execute("SAVEPOINT two")
    kept = await caller.call(mine.using(queue="kept").enqueue, 2, 2)
    await caller.execute("RELEASE two")
    await caller.commit()

    assert not await exists(gone)
    assert await exists(kept)
    assert [queue.name for queue in await app.aqueues()] == ["kept"]
    assert await sleeper.is_woken()


async def test_an_idle_worker_does_not_wait_for_an_open_transaction(
    server: str, add: Add, sleeper: Sleeper, sql: Any
) -> None:
    async with asyncpg_connection(server) as caller:
        await add.using(connection=caller.connection).aenqueue(1, 2)
        await sql.execute("SET lock_timeout = '500ms'")

        await sql.fetchval("SELECT go_idle('sleeper', 1, '.*', '^$', 60)")
        await sql.fetchval("SELECT stop_waiting('sleeper', 1)")


@BOTH_FORMS
async def test_the_store_is_made_beside_the_transaction(
    open_caller: OpenCaller, server: str, add: Add, sql: Any, postgres_url: str
) -> None:
    await sql.execute(f"DROP SCHEMA IF EXISTS {Address.from_url(postgres_url).schema} CASCADE")
    async with open_caller(server) as caller:
        job = await caller.call(add.using(connection=caller.connection).enqueue, 1, 2)
        await caller.rollback()

    assert not await exists(job)
    assert await sql.fetchval("SELECT count(*) FROM layout") == 1


# One round trip


class Turns:
    """A server behind a server, which counts how often the client has spoken and then been answered."""

    def __init__(self, url: str) -> None:
        self._behind = urlsplit(url)
        self._speaker = ""
        self.count = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = self._behind._replace(netloc=f"{self._behind.username}@127.0.0.1:{port}").geturl()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(self._behind.hostname, self._behind.port)
        await asyncio.gather(self._hand_on(reader, forth, "client"), self._hand_on(back, writer, "server"))

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, who: str) -> None:
        while said := await reader.read(1 << 16):
            if who == "server" and self._speaker == "client":
                self.count += 1
            self._speaker = who
            writer.write(said)
        writer.close()

    async def of(self, action: Callable[[], Awaitable[Any]]) -> int:
        """How many round trips this takes."""
        before = self.count
        await action()
        return self.count - before


@pytest.mark.parametrize("open_caller", CALLERS.values(), ids=CALLERS)
async def test_it_costs_one_round_trip(open_caller: OpenCaller, server: str, add: Add) -> None:
    async with Turns(server) as turns, open_caller(turns.url) as caller:
        enqueue = add.using(connection=caller.connection).enqueue
        await caller.call(enqueue, 1, 2)  # the library may prepare the statement, or begin the transaction, by itself

        assert await turns.of(lambda: caller.call(enqueue, 3, 4)) == 1
        assert (
            await turns.of(lambda: caller.call(add.using(connection=caller.connection).enqueue_many, [(1, 2)] * 50))
            == 1
        )
        await caller.commit()


# Beside each other


@pytest.mark.parametrize("commits", [True, False])
async def test_of_two_open_transactions_with_one_key_the_second_waits_for_the_first(  # I14
    server: str, app: App, add: Add, sql: Any, commits: bool
) -> None:
    async with asyncpg_connection(server) as one, asyncpg_connection(server) as other:
        keyed: list[TaskCaller[[int, int], int]] = [
            add.using(unique="k", connection=caller.connection) for caller in (one, other)
        ]
        first = await keyed[0].aenqueue(1, 1)
        waits = asyncio.create_task(keyed[1].aenqueue(1, 1))
        while not await sql.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"):
            await asyncio.sleep(0.01)

        await (one.commit() if commits else one.rollback())
        second = await waits
        await other.commit()

    assert second.duplicate is commits
    assert (second.id == first.id) is commits
    assert await waiting(app) == 1


async def test_the_holder_of_a_key_ends_while_a_transaction_that_has_met_it_is_open(
    server: str, app: App, add: Add
) -> None:
    held = await add.using(unique="k", keep=0).aenqueue(1, 1)
    async with asyncpg_connection(server) as caller:
        met = await add.using(unique="k", connection=caller.connection).aenqueue(1, 1)
        assert (met.duplicate, met.id) == (True, held.id)

        await held.acancel()
        fresh = await add.using(unique="k").aenqueue(1, 1)
        await caller.commit()

    assert not fresh.duplicate


async def test_nobody_else_waits_for_an_open_transaction(server: str, app: App, add: Add) -> None:
    async with asyncpg_connection(server) as caller, app.worker(["sums"]):
        kept = await add.using(connection=caller.connection).aenqueue(0, 0)

        for number in range(20):
            assert await (await add.aenqueue(number, 1)).aresult(timeout=10) == number + 1

        assert not await exists(kept)
        await caller.commit()
        assert await kept.aresult(timeout=10) == 0


async def test_a_caller_behind_a_pooler_is_one_as_well(server: str, add: Add) -> None:  # F14
    pooler = Pooler(server, connections=1)
    connection = await asyncpg.connect(pooler.url, statement_cache_size=0)
    async with connection.transaction():
        job = await add.using(connection=connection).aenqueue(1, 2)
    await connection.close()
    pooler.remove()

    assert await exists(job)


async def test_a_batch_does_not_gather_what_has_a_connection(server: str, app: App, add: Add) -> None:
    async with asyncpg_connection(server) as caller, app.batch():
        gathered = await add.aenqueue(1, 1)
        job = await add.using(connection=caller.connection).aenqueue(1, 2)
        await caller.commit()
        assert await exists(job)
        assert not await exists(gathered)


async def test_inline_runs_at_once_and_asks_for_no_connection(app: App, add: Add) -> None:
    async with app.inline():
        job = await add.using(connection=object()).aenqueue(1, 2)

        assert await job.aresult() == 3


async def test_a_blocking_connection_can_be_used_where_others_await(server: str, app: App, add: Add) -> None:
    with psycopg.connect(server) as connection:
        job = await add.using(connection=connection).aenqueue(1, 2)
        assert not await exists(job)

    assert await exists(job)
