"""Enqueueing by plain SQL on PostgreSQL: one function, for programs in any language and for triggers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest

from tenure import App
from tenure.core import checks
from tenure.core.job import JobRecord, new_id
from tenure.core.versions import version_of
from tenure.errors import JobBroken
from tenure.tasks.task import Task
from tests.stores.postgres.conftest import sql

__all__ = ["sql"]

Add = Task[..., int]


@pytest.fixture
async def app(postgres_url: str) -> AsyncIterator[App]:
    app = App(postgres_url)
    await app.internals.session.store.open()
    yield app
    await app.aclose()


@pytest.fixture
def add(app: App) -> Add:
    @app.task(queue="sums")
    def add(a: int, b: int = 0) -> int:
        return a + b

    return add


async def record(app: App, job_id: str) -> JobRecord:
    [found] = await app.internals.session.store.get([job_id])
    assert found is not None
    return found


async def test_a_worker_runs_it(app: App, add: Add, sql: Any) -> None:
    async with app.worker(["sums"]):
        # By the simplest protocol, which psql uses too.
        await sql.execute(
            """SELECT enqueue(task => 'add', args => '[40]', kwargs => '{"b": 2}', queue => 'sums', id => 'mine')"""
        )

        assert await (await app.ajob("mine")).aresult(timeout=10) == 42


async def test_it_is_the_job_that_python_would_have_stored(app: App, sql: Any) -> None:
    theirs = app.remote("t", queue="q").using(
        priority=-3,
        run_at=datetime(2040, 1, 1, tzinfo=UTC),
        unique="€",
        window=60,
        tags=["a", "b"],
        keep=5.5,
        max_attempts=7,
        expires=1000,
        headers={"tenant": "Zoë “1”", "b": ""},
    )
    python = await record(app, (await theirs.aenqueue(1, "€", None, x=[1.5, {}])).id)
    await app.adelete(python.id)
    plain = await record(
        app,
        await sql.fetchval(
            """
            SELECT enqueue(
                task => 't', queue => 'q', args => '[1, "€", null]', kwargs => '{"x": [1.5, {}]}', priority => -3,
                run_at => '2040-01-01 00:00Z', unique_key => '€', unique_window => 60, tags => '{a,b}', keep => 5.5,
                max_attempts => 7, expires => 1000, headers => '{"tenant": "Zoë “1”", "b": ""}'
            )
            """
        ),
    )

    assert python.expires_at is not None
    assert plain.expires_at == pytest.approx(plain.created_at + 1000)
    assert app.remote("t")._decode(plain.payload) == app.remote("t")._decode(python.payload)
    its_own = {"id", "seq", "payload", "created_at", "expires_at"}
    for field in set(JobRecord.__struct_fields__) - its_own:
        assert getattr(plain, field) == getattr(python, field), field


async def test_what_is_not_given_is_as_python_has_it(app: App, sql: Any) -> None:
    python = await record(app, (await app.remote("t").aenqueue()).id)
    for nothing in (
        "",
        ", args => '[]', kwargs => '{}'",
        ", args => NULL, queue => NULL, tags => NULL, delay => NULL",
        ", headers => '{}'",
        ", version => 1",
        ", version => NULL",
    ):
        plain = await record(app, await sql.fetchval(f"SELECT enqueue(task => 't'{nothing})"))

        assert msgspec.structs.replace(plain, id="", seq=0, created_at=0.0) == msgspec.structs.replace(
            python, id="", seq=0, created_at=0.0
        )


async def test_arguments_may_be_for_a_later_version(app: App, sql: Any) -> None:
    remote = app.remote("t", version=2)
    for given, python in (
        ("version => 2", remote.bind()),
        ("version => 2, args => '[1]'", remote.bind(1)),
        ("""version => 2, args => '[1]', kwargs => '{"a": 2}', unique_key => 'k'""", remote.bind(1, a=2)),
    ):
        job = await record(app, await sql.fetchval(f"SELECT enqueue('t', {given})"))

        assert json.loads(job.payload) == json.loads(python.payload)
        assert version_of(job.payload) == 2


async def test_ids_are_made_as_python_makes_them(app: App, sql: Any) -> None:
    before = new_id()
    made = [await sql.fetchval("SELECT enqueue('t')") for _ in range(3)]

    assert {(UUID(each).version, UUID(each).variant) for each in made} == {(UUID(before).version, UUID(before).variant)}
    assert len(set(made)) == 3
    # Of the same second, if not of the same millisecond: two clocks may have been asked.
    assert all(abs(int(each[:8] + each[9:13], 16) - int(before[:8] + before[9:13], 16)) < 60_000 for each in made)


async def test_an_id_and_a_key_are_enqueued_once(app: App, sql: Any) -> None:
    assert [await sql.fetchval("SELECT enqueue('t', id => 'mine')") for _ in range(2)] == ["mine", "mine"]
    holder = await sql.fetchval("SELECT enqueue('t', unique_key => 'k')")

    assert await sql.fetchval("SELECT enqueue('t', unique_key => 'k', args => '[2]')") == holder
    assert sum(queue.waiting for queue in await app.aqueues()) == 2


async def test_a_delay_is_counted_from_the_call(app: App, sql: Any) -> None:
    job = await record(app, await sql.fetchval("SELECT enqueue('t', delay => 60)"))

    assert job.run_at == pytest.approx(job.created_at + 60)


async def test_a_trigger_enqueues_with_the_row_and_not_without_it(app: App, add: Add, sql: Any) -> None:
    await sql.execute("""
        CREATE TABLE orders (n integer);
        CREATE FUNCTION ordered() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM enqueue('add', jsonb_build_array(NEW.n), queue => 'sums', id => 'order-' || NEW.n);
            RETURN NULL;
        END
        $$;
        CREATE TRIGGER ordered AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION ordered();
    """)
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("INSERT INTO orders VALUES (1)")
    await transaction.rollback()
    async with app.worker(["sums"]):
        await sql.execute("INSERT INTO orders VALUES (2), (3)")

        assert await (await app.ajob("order-2")).aresult(timeout=10) == 2
        assert await (await app.ajob("order-3")).aresult(timeout=10) == 3
    assert [job.id for job in await app.ajobs()] == ["order-3", "order-2"]


REFUSED = [
    "task => NULL",
    "task => ''",
    "task => 'a b'",
    "task => repeat('a', 128)",
    "task => 'ä'",
    "task => 't', queue => '-q'",
    "task => 't', queue => E'q\\n'",
    "task => 't', id => 'a/b'",
    "task => 't', tags => ARRAY['ok', 'no t']",
    "task => 't', tags => ARRAY[NULL]",
    "task => 't', args => '{}'",
    "task => 't', args => 'null'",
    "task => 't', kwargs => '[]'",
    "task => 't', delay => -1",
    "task => 't', delay => 'NaN'",
    "task => 't', expires => 'Infinity'",
    "task => 't', keep => -0.5",
    "task => 't', unique_key => 'k', unique_window => -1",
    "task => 't', unique_key => ''",
    "task => 't', unique_key => repeat('k', 501)",
    "task => 't', run_at => 'infinity'",
    "task => 't', run_at => now(), delay => 1",
    "task => 't', max_attempts => -1",
    "task => 't', version => 0",
    "task => 't', version => -2",
    "task => 't', headers => '[]'",
    "task => 't', headers => 'null'",
    """task => 't', headers => '{"Tenant": "x"}'""",
    """task => 't', headers => '{"": "x"}'""",
    """task => 't', headers => '{"a\\n": "x"}'""",
    "task => 't', headers => jsonb_build_object(repeat('a', 65), '')",
    """task => 't', headers => '{"a": 1}'""",
    """task => 't', headers => '{"a": null}'""",
    """task => 't', headers => '{"a": {}}'""",
    "task => 't', headers => (SELECT jsonb_object_agg('a' || n, '') FROM generate_series(1, 17) AS n)",
    "task => 't', headers => jsonb_build_object('a', repeat('é', 1000))",
    "task => 't', headers => jsonb_build_object('a', repeat('x', 1000), 'b', repeat('y', 999))",
]


async def test_what_python_refuses_is_refused(app: App, sql: Any) -> None:
    for given in REFUSED:
        with pytest.raises(asyncpg.InvalidParameterValueError, match=r"must be .*, got |not both"):
            await sql.fetchval(f"SELECT enqueue({given})")

    assert await app.aqueues() == []


async def test_as_many_headers_are_taken_as_python_takes(app: App, sql: Any) -> None:
    for given in (
        "(SELECT jsonb_object_agg('a' || n, 'é') FROM generate_series(1, 16) AS n)",
        "jsonb_build_object('a', repeat('é', 999), repeat('b', 1), '')",
        "jsonb_build_object(repeat('a', 64), E' \\n\\t😀')",
    ):
        for more in ("", ", unique_key => 'k' || random()"):
            job = await record(app, await sql.fetchval(f"SELECT enqueue('t', headers => {given}{more})"))

            assert job.headers == json.loads(await sql.fetchval(f"SELECT {given}"))
            assert checks.headers(job.headers) == job.headers


async def test_arguments_that_the_task_does_not_take_make_a_broken_job(app: App, add: Add, sql: Any) -> None:
    jobs = [await sql.fetchval(f"SELECT enqueue('add', '{given}', queue => 'sums')") for given in ("[]", '["one"]')]
    async with app.worker(["sums"]):
        for each in jobs:
            with pytest.raises(JobBroken):
                await (await app.ajob(each)).aresult(timeout=10)


@pytest.mark.parametrize("setting", ["search_path = ''", "default_transaction_isolation = 'serializable'"])
async def test_the_settings_of_the_session_do_not_matter(app: App, sql: Any, postgres_url: str, setting: str) -> None:
    schema = postgres_url.rpartition("=")[2]
    await sql.execute(f"SET {setting}")

    job = await sql.fetchval(f"SELECT {schema}.enqueue('t', unique_key => 'k', args => '[1]')")

    assert (await record(app, job)).payload == b'{"args":[1]}'
