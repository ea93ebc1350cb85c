"""A store that is there and refuses: rights that are revoked, passwords that change, tables that are away. No job is to blame."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tenure import App, State
from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.jobs import session
from tenure.stores.postgres.address import Address
from tenure.worker import health
from tenure.worker.worker import Worker
from tests.inspection import run

JOBS = 100


class Condition(ABC):
    """Something that makes a store refuse everything until it ends."""

    url: str
    advice: str
    """What an error tells the reader to do."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def end(self) -> None: ...


class TableAway(Condition):
    """SQLite: another program has renamed a table."""

    advice = "bring back what was there"

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path

    def begin(self) -> None:
        run(self._path, "ALTER TABLE tenure_jobs RENAME TO away")

    def end(self) -> None:
        run(self._path, "ALTER TABLE away RENAME TO tenure_jobs")


class InRedis(Condition):
    """The user of a Redis is changed by its administrator."""

    def __init__(self, server: str, url: str, begin: str, end: str, advice: str) -> None:
        self.advice = advice
        self._server = server
        self._begin, self._end = begin, end
        self._user = f"u{secrets.token_hex(4)}"
        self.url = url.replace("redis://", f"redis://{self._user}:right@")
        self._set("on >right ~* &* +@all")

    def _set(self, rules: str) -> None:
        with redis.Redis.from_url(self._server) as client:
            client.execute_command("ACL", "SETUSER", self._user, *rules.split())
            if "+" not in rules and "-" not in rules:  # else connections that are open already go on
                client.execute_command("CLIENT", "KILL", "USER", self._user)

    def begin(self) -> None:
        self._set(self._begin)

    def end(self) -> None:
        self._set(self._end)

    def remove(self) -> None:
        with redis.Redis.from_url(self._server) as client:
            client.execute_command("ACL", "DELUSER", self._user)


class InPostgres(Condition):
    """The role or the schema of a PostgreSQL is changed by its administrator."""

    def __init__(self, url: str, begin: str, end: str, advice: str) -> None:
        self.advice = advice
        self._begin, self._end = begin, end
        self._role = f"r{secrets.token_hex(4)}"
        self._schema = Address.from_url(url).schema
        self.url = url.replace("tenure@", f"{self._role}@")
        self._admin: psycopg.Connection[Any] = psycopg.connect(url.partition("?")[0], autocommit=True)
        for statement in (
            "CREATE ROLE {role} LOGIN",
            "GRANT USAGE ON SCHEMA {schema} TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
            "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
        ):
            self._do(statement)

    def _do(self, statements: str) -> None:
        for statement in statements.split(";"):
            self._admin.execute(statement.format(schema=self._schema, role=self._role).encode())

    def begin(self) -> None:
        self._do(self._begin)

    def end(self) -> None:
        self._do(self._end)

    def remove(self) -> None:
        self._do("DROP OWNED BY {role};DROP ROLE {role}")
        self._admin.close()


IN_REDIS = {
    "redis-command": ("-evalsha -eval", "+@all", "give this user the rights"),
    "redis-keys": ("resetkeys -@fast", "~* +@all", "give this user the rights"),
    "redis-password": ("resetpass >other", "resetpass >right", "correct the user and the password"),
    "redis-off": ("off", "on", "correct the user and the password"),
}
LOGGED_OUT = "ALTER ROLE {role} NOLOGIN;SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
IN_POSTGRES = {
    "postgres-schema-right": (
        "REVOKE USAGE ON SCHEMA {schema} FROM {role}",
        "GRANT USAGE ON SCHEMA {schema} TO {role}",
        "grant this role its rights",
    ),
    "postgres-table-right": (
        "REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} FROM {role}",
        "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "grant this role its rights",
    ),
    "postgres-login": (LOGGED_OUT, "ALTER ROLE {role} LOGIN", "correct the user and the password"),
    "postgres-schema-away": (
        "ALTER SCHEMA {schema} RENAME TO {schema}_away",
        "ALTER SCHEMA {schema}_away RENAME TO {schema}",
        "tenure schema apply",
    ),
}


@pytest.fixture(params=["sqlite-table-away", *IN_REDIS, *IN_POSTGRES])
def condition(request: pytest.FixtureRequest, path: Path) -> Iterator[Condition]:
    if request.param in IN_REDIS:
        server = request.getfixturevalue("redis_server_url")
        in_redis = InRedis(server, request.getfixturevalue("redis_url"), *IN_REDIS[request.param])
        yield in_redis
        in_redis.remove()
    elif request.param in IN_POSTGRES:
        in_postgres = InPostgres(request.getfixturevalue("emptied_postgres_url"), *IN_POSTGRES[request.param])
        yield in_postgres
        in_postgres.remove()
    else:
        yield TableAway(path)


@pytest.fixture
async def app(condition: Condition) -> AsyncIterator[App]:
    app = App(condition.url, retry=None)
    await app.aqueues()  # its tables are made, where it makes them
    yield app
    await app.aclose()


Warnings = Callable[[], list[logging.LogRecord]]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Warnings:
    """What was logged so far as a warning, or as worse; without what a worker finds out about the server at its start."""
    caplog.set_level(logging.WARNING, logger="tenure")
    return lambda: [each for each in caplog.records if "the store's" not in each.getMessage()]


TIMES = (0.010, 0.150, 0.030, 0.080)
"""Seconds that a condition lasts, each time that it begins."""


async def come_and_go(condition: Condition, finish: asyncio.Event) -> None:
    """Have the condition begin and end, again and again; jobs that wait to finish do so each time that it has begun."""
    for length in TIMES:
        finish.clear()
        await asyncio.sleep(0.050)
        await asyncio.to_thread(condition.begin)
        finish.set()
        await asyncio.sleep(length)
        await asyncio.to_thread(condition.end)


async def test_every_good_job_succeeds_though_the_store_refuses_again_and_again(
    app: App, condition: Condition, warnings: Warnings
) -> None:
    finish = asyncio.Event()

    @app.task
    async def task(number: int) -> int:
        await finish.wait()
        return number

    jobs = await task.aenqueue_many([(number,) for number in range(JOBS)])
    worker = app.worker(["default"], concurrency=10)
    await worker.start()
    await come_and_go(condition, finish)
    assert [await job.aresult(timeout=20) for job in jobs] == list(range(JOBS))
    await worker.stop()

    records = [(await job.arefresh()).record for job in jobs]
    assert {(record.state, record.attempt, record.losses) for record in records if record} == {(State.SUCCEEDED, 1, 0)}
    assert not [each for each in warnings() if each.exc_info]
    assert len(warnings()) <= 2 * (len(TIMES) + 1), "one when it begins, one when it ends"


async def test_a_store_that_refuses_is_said_once_and_shown_by_the_health(
    app: App, condition: Condition, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "STUCK_SECONDS", 0.3)
    started, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def task() -> str:
        started.set()
        await finish.wait()
        return "kept"

    job = await task.aenqueue()
    worker = app.worker(["default"], poll=0.05, beat=0.05, health_port=0)
    await worker.start()
    await started.wait()
    condition.begin()
    finish.set()
    await eventually(lambda: asyncio.to_thread(is_shown, worker, condition.advice))
    condition.end()
    assert await job.aresult(timeout=20) == "kept"
    said = [each.getMessage() for each in warnings()]
    await worker.stop()

    assert (await app.ajob(job.id)).state is State.SUCCEEDED
    assert not [each for each in warnings() if each.exc_info]
    assert sum("the store is down, retrying" in line for line in said) == 1, said
    assert sum("the store is gone while callers wait for results" in line for line in said) <= 1, said


def is_shown(worker: Worker, advice: str) -> bool:
    asked = http.client.HTTPConnection("127.0.0.1", worker.health_port, timeout=10)
    asked.request("GET", "/")
    answer = asked.getresponse()
    trouble = json.loads(answer.read())["trouble"]
    asked.close()
    return answer.status == 503 and trouble.startswith("the store has been down for") and advice in trouble


async def test_an_enqueue_rides_it_out(app: App, condition: Condition) -> None:
    @app.task(queue="later")
    async def task() -> None: ...

    await task.aenqueue()
    condition.begin()
    threading.Timer(0.2, condition.end).start()
    there = await task.aenqueue()
    condition.begin()
    threading.Timer(0.2, condition.end).start()
    also = await asyncio.to_thread(task.enqueue)

    assert {there.id, also.id} <= {job.id for job in await app.ajobs()}


async def test_an_enqueue_that_is_refused_for_too_long_says_what_to_do(
    app: App, condition: Condition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ENQUEUE_TIMEOUT", 0.1)

    @app.task(queue="later")
    async def task() -> None: ...

    condition.begin()
    # The second, if the condition has cut a connection just then.
    with pytest.raises((StoreUnavailable, OutcomeUnknown), match=condition.advice):
        await task.aenqueue()
    with pytest.raises((StoreUnavailable, OutcomeUnknown), match=condition.advice):
        await asyncio.to_thread(task.enqueue)
    condition.end()

    assert await app.ajobs() == []


async def eventually(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await true():
            await asyncio.sleep(0.01)
