"""The bridge to Queuert: the scenes of its trace, with Tenure in place of a worker or a producer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure import App, Reschedule, Retry, State, Wait
from tenure.bridges import Continue, Queuert
from tenure.bridges.custody import End, Taken
from tenure.bridges.foreign import ForeignError
from tenure.bridges.queuert.entries import Again, Complete, verdict_of
from tenure.bridges.queuert.layout import QueuertForeign
from tenure.core.job import ErrorInfo, NewJob, new_id
from tenure.errors import InvalidOption
from tests.servers.proxy import Proxy, proxied

from .queuert_tables import QueuertTables, normal, scenes

SCENES = scenes()


@pytest.fixture(scope="module")
def module_tables(postgres_server_url: str) -> Iterator[QueuertTables]:
    tables = QueuertTables(postgres_server_url)
    yield tables
    tables.remove()


@pytest.fixture
def tables(module_tables: QueuertTables) -> QueuertTables:
    module_tables.empty()
    return module_tables


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with App(f"memory://{new_id()}") as app:
        yield app


@pytest.fixture
async def queuert(app: App, tables: QueuertTables) -> AsyncIterator[Queuert]:
    queuert = Queuert(app, tables.url, schema=tables.schema)
    yield queuert
    await queuert.aclose()


@pytest.fixture
async def served(queuert: Queuert) -> Queuert:
    """With the processors of the trace."""

    @queuert.processor("pack", lease=2)
    def pack(given: dict[str, str]) -> dict[str, int] | Continue:
        return {"ok": 1} if given["item"] == "end" else Continue("ship", {"weight": 4})

    @queuert.processor("ship")
    def ship(given: dict[str, int]) -> dict[str, str]:
        return {"shipped": "now"}

    @queuert.processor("flaky")
    def flaky(given: None) -> dict[str, bool]:
        return {"fine": True}

    @queuert.processor("join")
    def join(given: dict[str, int], results: list[Any]) -> dict[str, Any]:
        return {"given": results}

    return queuert


@pytest.fixture
async def foreign(served: Queuert) -> AsyncIterator[QueuertForeign]:
    foreign = served.connect(["*"])
    yield foreign
    await foreign.close()


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def success(job_id: str, result: str) -> End:
    return End(job_id, State.SUCCEEDED, result)


async def until(true: Callable[[], object], patience: float = 15.0) -> None:
    """Wait until this is true."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.02)


# Scenes.


def check(tables: QueuertTables, *names: str) -> None:
    """Check that rows and announcements since the last check are those of these scenes."""
    told = [each for name in names for each in SCENES[name].announced]
    assert sorted(channel for channel, _ in tables.announced()) == sorted(channel for channel, _ in told)
    assert normal(tables.rows()) == normal(SCENES[names[-1]].rows)


async def test_a_chain_runs_to_its_end_as_in_the_trace(
    tables: QueuertTables, foreign: QueuertForeign, served: Queuert
) -> None:
    chain = await served.astart("pack", {"item": "lamp"})
    check(tables, "start-chain")
    [pack] = await foreign.take("w", [new_id()])
    await foreign.record("w", [success(pack.id, '{"$continue":"ship","input":{"weight":4}}')], (), ())
    assert tables.announced() == [("queuert_sched", "ship")]
    [ship] = await foreign.take("w", [new_id()])
    await foreign.record("w", [success(ship.id, '{"shipped":"now"}')], (), ())
    assert tables.announced() == [("queuert_chainc", chain)]
    assert normal(tables.rows()) == normal(SCENES["work-with-continuation"].rows)


async def test_a_row_is_leased_renewed_and_completed_as_in_the_trace(
    tables: QueuertTables, foreign: QueuertForeign
) -> None:
    tables.insert("pack", {"item": "end"})
    [pack] = await foreign.take("w", [new_id()])
    assert normal(tables.rows()) == normal(SCENES["staged-running"].rows)
    [before] = tables.rows()
    assert before["leased_by"] == f"tenure:w:{pack.id}"
    assert await foreign.renew("w", [pack.id, missing := new_id()]) == [missing]
    assert normal(tables.rows()) == normal(SCENES["renewed"].rows)
    assert at(tables.row(before["id"])["leased_until"]) > at(before["leased_until"])
    await foreign.record("w", [success(pack.id, '{"ok":1}')], (), ())
    check(tables, "staged-complete")


@pytest.mark.parametrize(("attempts", "delay"), [(0, 10), (1, 20), (4, 160), (5, 300), (50, 300)])
async def test_an_exception_lets_a_row_run_again_after_its_backoff(
    tables: QueuertTables, foreign: QueuertForeign, attempts: int, delay: int
) -> None:
    row = tables.insert("flaky")
    tables.do("UPDATE queuert_job SET attempt = %s", attempts)
    [taken] = await foreign.take("w", [new_id()])
    error = ErrorInfo("ValueError", "no way", "Traceback …")
    await foreign.record("w", [End(taken.id, State.FAILED, error=error)], (), ())
    found = tables.row(row)
    assert at(found["scheduled_at"]) - at(found["last_attempt_at"]) == pytest.approx(delay)
    assert found["last_attempt_error"] == "ValueError: no way\nTraceback …"
    assert normal([{**found, "attempt": 1}]) == normal(SCENES["failed-attempt"].rows)
    assert tables.announced() == []


async def test_a_job_that_reschedules_itself_has_its_row_at_that_time(
    tables: QueuertTables, queuert: Queuert, app: App
) -> None:
    @queuert.processor("flaky")
    def flaky() -> None:
        raise Reschedule(after=60)

    @queuert.processor("later")
    async def later() -> Reschedule:
        return Reschedule(at=datetime.fromisoformat("2099-01-01T00:00:00+00:00"))

    @queuert.processor("retried")
    def retried() -> None:
        raise Retry("not yet", after=30)

    rows = [tables.insert(each) for each in ("flaky", "later", "retried")]
    async with queuert.worker():
        await until(lambda: all(tables.row(row)["last_attempt_error"] for row in rows))
    first, second, third = (tables.row(row) for row in rows)
    assert normal([first]) == normal(SCENES["rescheduled"].rows)
    assert at(first["scheduled_at"]) - at(first["last_attempt_at"]) == pytest.approx(60)
    assert second["scheduled_at"] == "2099-01-01T00:00:00+00:00"
    assert third["last_attempt_error"] == "Retry: not yet"
    assert at(third["scheduled_at"]) - at(third["last_attempt_at"]) == pytest.approx(30)


async def test_a_job_that_waits_for_chains_gets_their_outputs_in_order(
    tables: QueuertTables, foreign: QueuertForeign
) -> None:
    chains = tables.insert("pack", {"item": "end"}), tables.insert("flaky")
    tables.insert("join", {"n": 2}, after=chains)
    # The trace started all three in one transaction.
    tables.do("UPDATE queuert_job SET created_at = s.at, scheduled_at = s.at FROM (SELECT now() AS at) s")
    assert normal(tables.rows()) == normal(SCENES["blocked"].rows)
    pack, flaky = sorted(
        await foreign.take("w", sorted([new_id(), new_id()])), key=lambda each: each.queue, reverse=True
    )
    await foreign.record("w", [success(pack.id, '{"ok":1}')], (), ())
    assert await foreign.take("w", [new_id()]) == []
    await foreign.record("w", [success(flaky.id, '{"fine":true}')], (), ())
    check(tables, "unblocked")
    [join] = await foreign.take("w", [new_id()])
    assert b'"results": [{"ok": 1}, {"fine": true}]' in join.entry
    await foreign.record("w", [success(join.id, '{"given":[{"ok":1},{"fine":true}]}')], (), ())
    check(tables, "joined")


async def test_a_row_of_a_dead_worker_of_queuert_is_reaped_and_run(tables: QueuertTables, served: Queuert) -> None:
    row = tables.insert("flaky")
    tables.do(
        "UPDATE queuert_job SET status = 'running', attempt = 1, leased_by = 'dead', "
        "leased_until = now() - interval '1 min', last_attempt_at = now() - interval '2 min'"
    )
    assert normal(tables.rows()) == normal([SCENES["reaped"].rows[0]])
    async with served.worker():
        await until(lambda: tables.row(row)["status"] == "completed")
    assert sorted(tables.announced()) == [("queuert_chainc", row), ("queuert_owls", row), ("queuert_sched", "flaky")]
    assert normal(tables.rows()) == normal([SCENES["reaped"].rows[1]])


async def test_foreign_start_a_chain_of_ours_is_a_row_and_an_announcement(
    tables: QueuertTables, foreign: QueuertForeign, served: Queuert
) -> None:
    chain = await served.astart("flaky")
    assert tables.announced() == [("queuert_sched", "flaky")]
    [taken] = await foreign.take("w", [new_id()])
    await foreign.record("w", [success(taken.id, '{"fine":true}')], (), ())
    assert tables.announced() == [("queuert_chainc", chain)]
    assert normal(tables.rows()) == normal(SCENES["foreign-start"].rows)


async def test_foreign_take_and_continue_leave_rows_that_queuert_goes_on_with(
    tables: QueuertTables, foreign: QueuertForeign
) -> None:
    tables.insert("pack", {"item": "lamp"})
    [taken] = await foreign.take("w", [new_id()])
    assert normal(tables.rows()) == normal(SCENES["foreign-take"].rows)
    await foreign.record("w", [success(taken.id, '{"$continue":"ship","input":{"weight":4}}')], (), ())
    assert tables.announced() == [("queuert_sched", "ship")]
    # Queuert's worker runs the next job in the trace, and one of ours here.
    [ship] = await foreign.take("w", [new_id()])
    await foreign.record("w", [success(ship.id, '{"shipped":"now"}')], (), ())
    assert [channel for channel, _ in tables.announced()] == ["queuert_chainc"]
    assert normal(tables.rows()) == normal(SCENES["foreign-continue"].rows)


async def test_foreign_unblock_puts_the_row_that_waits_in_line(tables: QueuertTables, foreign: QueuertForeign) -> None:
    pack = tables.insert("pack", {"item": "end"})
    tables.insert("join", {"n": 1}, after=(pack,))
    tables.do("UPDATE queuert_job SET created_at = s.at, scheduled_at = s.at FROM (SELECT now() AS at) s")
    [taken] = await foreign.take("w", [new_id()])
    await foreign.record("w", [success(taken.id, '{"ok":1}')], (), ())
    assert tables.announced() == [("queuert_chainc", pack), ("queuert_sched", "join")]
    assert normal(tables.rows()) == normal(SCENES["foreign-unblock"].rows)
    [join] = await foreign.take("w", [new_id()])
    await foreign.record("w", [success(join.id, '{"given":[{"ok":1}]}')], (), ())
    assert normal(tables.rows()) == normal(SCENES["foreign-unblocked"].rows)


# Blockers.


@pytest.mark.parametrize("rounds", [20, pytest.param(200, marks=pytest.mark.long)])
async def test_two_blockers_that_end_at_once_unblock(
    tables: QueuertTables, foreign: QueuertForeign, served: Queuert, rounds: int
) -> None:
    other = served.connect(["*"])
    for _ in range(rounds):
        chains = tables.insert("pack", {"item": "end"}), tables.insert("flaky")
        join = tables.insert("join", {"n": 2}, after=chains)
        first, second = await foreign.take("w", sorted([new_id(), new_id()]))
        await asyncio.gather(
            foreign.record("w", [success(first.id, "1")], (), ()), other.record("v", [success(second.id, "2")], (), ())
        )
        assert tables.row(join)["status"] == "pending"
        tables.do("TRUNCATE queuert_job, queuert_job_blocker")
    await other.close()


# Holding.


async def test_an_end_is_written_once_and_only_by_the_holder(tables: QueuertTables, foreign: QueuertForeign) -> None:
    row = tables.insert("pack", {"item": "end"})
    [taken] = await foreign.take("w", [new_id()])
    tables.do("UPDATE queuert_job SET leased_by = 'golden-1', attempt = 2")
    before = tables.row(row)
    for end in (
        success(taken.id, "1"),
        End(taken.id, State.FAILED, error=ErrorInfo("E", "")),
        success(taken.id, '{"$continue":"ship","input":1}'),
    ):
        await foreign.record("w", [end], (), ())
    await foreign.give_back([taken.id])
    assert await foreign.held_there([taken.id]) == [False]
    assert await foreign.renew("w", [taken.id]) == [taken.id]
    assert not await foreign.adopt(taken.id, "w", "v")
    assert [tables.row(row)] == tables.rows() == [before]
    tables.do("UPDATE queuert_job SET leased_by = %s", f"tenure:w:{taken.id}")
    await foreign.record("w", [success(taken.id, "1")], (), ())
    ended = tables.row(row)
    await foreign.record("w", [success(taken.id, "2")], (), ())
    assert (ended["output"], ended["status"]) == (1, "completed")
    assert tables.row(row) == ended


async def test_what_is_given_back_is_as_before_and_next(tables: QueuertTables, foreign: QueuertForeign) -> None:
    rows = [tables.insert("pack", {"item": str(number)}) for number in range(3)]
    before = tables.rows()
    taken = await foreign.take("w", sorted([new_id(), new_id()]))
    ids = [each.id for each in taken]
    await foreign.mark_returning(ids)
    look = await foreign.look()
    assert [(each.id, each.owner, each.queue, each.returning) for each in look.entries] == [
        (each, "w", "pack", True) for each in ids
    ]
    assert [each.entry for each in look.entries] == [each.entry for each in taken]
    assert await foreign.adopt(ids[0], "w", "host:1:v")
    assert {each.owner: each.returning for each in (await foreign.look()).entries} == {"w": True, "host:1:v": True}
    tables.announced()
    await foreign.give_back(ids)
    assert tables.announced() == [("queuert_sched", "pack")]
    assert normal(tables.rows()) == normal(before)
    again = await foreign.take("v", [new_id()])
    assert tables.row(rows[0])["leased_by"] == f"tenure:v:{again[0].id}"


async def test_two_takers_share_what_is_due_and_leave_what_is_not(
    tables: QueuertTables, foreign: QueuertForeign, served: Queuert
) -> None:
    other = served.connect(["pack"])
    rows = {tables.insert("pack", {"item": str(number)}) for number in range(40)}
    flaky = tables.insert("flaky")
    tables.do("UPDATE queuert_job SET scheduled_at = now() + interval '1 hour' WHERE id = %s", flaky)
    takes = [each.take("w", sorted(new_id() for _ in range(5))) for each in (foreign, other) for _ in range(4)]
    taken = [each for some in await asyncio.gather(*takes) for each in some]
    assert len({each.id for each in taken}) == 40
    assert {row["id"] for row in tables.rows() if row["status"] == "running"} == rows
    await other.close()


async def test_an_output_that_postgresql_refuses_lets_the_row_run_again(
    tables: QueuertTables, foreign: QueuertForeign
) -> None:
    good, bad = tables.insert("pack", {"item": "1"}), tables.insert("pack", {"item": "2"})
    first, second = await foreign.take("w", sorted([new_id(), new_id()]))
    await foreign.record("w", [success(first.id, "1"), success(second.id, r'"\u0000"')], (), ())
    assert tables.row(good)["output"] == 1
    assert tables.row(bad)["status"] == "pending"
    assert r"\u0000" in tables.row(bad)["last_attempt_error"]


# Workers.


async def test_workers_run_chains_and_give_processors_what_they_ask_for(
    tables: QueuertTables, served: Queuert, app: App
) -> None:
    lamp = await served.astart("pack", {"item": "lamp"})
    chains = tables.insert("pack", {"item": "end"}), tables.insert("flaky")
    join = tables.insert("join", {"n": 2}, after=chains)
    async with served.worker(concurrency=4):
        await until(lambda: all(row["status"] == "completed" for row in tables.rows()))
    assert tables.row(join)["output"] == {"given": [{"ok": 1}, {"fine": True}]}
    assert [row["type_name"] for row in tables.rows() if row["chain_id"] == lamp] == ["pack", "ship"]
    jobs = await app.ajobs()
    assert {job.queue for job in jobs} == {"queuert:pack", "queuert:ship", "queuert:flaky", "queuert:join"}
    assert {job.state for job in jobs} == {State.SUCCEEDED}


async def test_a_row_that_is_scheduled_wakes_an_idle_worker(tables: QueuertTables, served: Queuert) -> None:
    async with served.worker():
        await asyncio.sleep(0.5)  # it is idle, and waits
        for _ in range(5):
            began = time.monotonic()
            row = await served.astart("flaky")
            await until(lambda row=row: tables.row(row)["status"] == "completed")  # type: ignore[misc]
            assert time.monotonic() - began < 0.8  # a look comes every second


async def test_an_input_that_does_not_fit_and_a_failure_let_the_row_run_again(
    tables: QueuertTables, served: Queuert
) -> None:
    @served.processor("failing")
    def failing(given: int, results: list[Any] | None = None) -> None:
        raise ValueError(f"{given} {results}")

    misfit, failed = tables.insert("ship", {"weight": "heavy"}), tables.insert("failing", 7)
    async with served.worker():
        await until(lambda: all(row["last_attempt_error"] for row in tables.rows()))
    assert tables.row(misfit)["last_attempt_error"].startswith("PayloadError: ")
    assert tables.row(failed)["last_attempt_error"].startswith("ValueError: 7 None\nTraceback")
    assert {row["attempt"] for row in tables.rows()} == {1}


async def test_a_job_whose_row_was_taken_back_is_cancelled_and_writes_nothing(
    tables: QueuertTables, queuert: Queuert, app: App
) -> None:
    began = asyncio.Event()

    @queuert.processor("slow", lease=1)
    async def slow() -> str:
        began.set()
        await asyncio.sleep(60)
        return "late"

    row = tables.insert("slow")
    async with queuert.worker():
        await began.wait()
        tables.do(
            "UPDATE queuert_job SET leased_by = 'golden-1', leased_until = now() + interval '1 hour', attempt = 2"
        )
        before = tables.row(row)
        [job] = await app.ajobs()
        await until(lambda: asyncio.ensure_future(job.arefresh()) and job.state is State.CANCELLED)
    assert tables.row(row) == before


async def test_a_worker_that_stops_gives_back_what_it_interrupts(tables: QueuertTables, queuert: Queuert) -> None:
    began = asyncio.Event()

    @queuert.processor("slow")
    async def slow() -> None:
        began.set()
        await asyncio.sleep(60)

    tables.insert("slow")
    before = tables.rows()
    worker = queuert.worker()
    await worker.start()
    await began.wait()
    assert tables.rows() != before
    await worker.stop(grace=0)
    assert tables.rows() == before


async def test_a_job_that_waits_for_a_person_keeps_its_row_until_it_is_completed(
    tables: QueuertTables, queuert: Queuert, app: App
) -> None:
    @queuert.processor("approve", lease=1)
    def approve() -> str:
        raise Wait

    row = tables.insert("approve")
    async with queuert.worker():
        await until(lambda: tables.row(row)["status"] == "running")
        leased = tables.row(row)["leased_until"]
        await until(lambda: tables.row(row)["leased_until"] > leased)
        [job] = await app.ajobs()
        await job.acomplete("granted")
        await until(lambda: tables.row(row)["status"] == "completed")
    assert tables.row(row)["output"] == "granted"


@contextlib.contextmanager
def program(store: str, tables: QueuertTables, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own, killed at the end."""
    command = [sys.executable, "-m", "tests.bridges.queuert_program", store, tables.url, tables.schema, str(folder)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_the_jobs_of_a_killed_worker_end_by_another_under_the_same_hold(
    tables: QueuertTables, tmp_path: Path
) -> None:
    store, started = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "started"
    started.touch()
    rows = [tables.insert("slow", number) for number in range(3)]
    with program(store, tables, tmp_path) as first:
        await until(lambda: started.read_text().count("\n") == 2)
        holds = {row["id"]: row["leased_by"][-36:] for row in tables.rows() if row["leased_by"]}
        first.kill()
        with program(store, tables, tmp_path):
            (tmp_path / "go").touch()
            await until(lambda: all(row["status"] == "completed" for row in tables.rows()))
    assert [tables.row(row)["output"] for row in rows] == [0, 1, 2]
    assert {row["attempt"] for row in tables.rows()} == {1}  # Queuert never took them back
    assert all(tables.row(row)["completed_by"].endswith(hold) for row, hold in holds.items())
    assert sorted(started.read_text().split()) == ["0", "0", "1", "1", "2"]


@pytest.mark.long
async def test_workers_that_are_killed_again_and_again_lose_nothing(tables: QueuertTables, tmp_path: Path) -> None:
    store, started = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "started"
    started.touch()
    (tmp_path / "go").touch()
    rows = [tables.insert("slow", number) for number in range(300)]
    for kills in range(1, 11):
        with program(store, tables, tmp_path):
            seen = started.read_text().count("\n")
            await until(lambda: started.read_text().count("\n") > seen + kills or _all_complete(tables))  # noqa: B023
    with program(store, tables, tmp_path):
        await until(lambda: _all_complete(tables), 40)
    assert [tables.row(row)["output"] for row in rows] == list(range(300))
    assert {row["attempt"] for row in tables.rows()} == {1}
    assert len(started.read_text().split()) <= 300 + 2 * 10


def _all_complete(tables: QueuertTables) -> bool:
    return all(row["status"] == "completed" for row in tables.rows())


async def test_a_job_that_queuert_has_taken_back_does_not_run_on_after_its_worker_died(
    tables: QueuertTables, queuert: Queuert, app: App
) -> None:
    """Its worker died, Queuert gave the row to another, and only then does a bridge lease the job that is left."""
    ran = asyncio.Event()
    cancelled = asyncio.Event()

    @queuert.processor("slow")
    async def slow() -> None:
        ran.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    row = tables.insert("slow")
    dead = queuert.connect(["*"])
    [taken] = await dead.take("dead", [new_id()])
    await dead.close()
    job = queuert.read(taken)
    assert isinstance(job, NewJob)
    await app.internals.session.store.enqueue([job])
    tables.do("UPDATE queuert_job SET leased_by = 'golden-1'")
    before = tables.row(row)
    worker = queuert.worker()
    await worker.start()
    await ran.wait()
    async with asyncio.timeout(10):
        await cancelled.wait()
    await worker.stop()
    assert tables.row(row) == before


# Producers.


def test_a_chain_starts_with_the_transaction_of_the_caller(tables: QueuertTables) -> None:
    with App(f"memory://{new_id()}") as app:
        queuert = Queuert(app, tables.url, schema=tables.schema)
        with psycopg.connect(tables.url) as database:
            rolled_back = queuert.start("pack", {"item": "lamp"}, connection=database)
            database.rollback()
            committed = queuert.start("pack", {"item": "end"}, connection=database, delay=60)
            assert tables.rows() == []
        [row] = tables.rows()
        assert row["id"] == committed != rolled_back
        assert row["input"] == {"item": "end"}
        assert at(row["scheduled_at"]) - at(row["created_at"]) == pytest.approx(60)
        assert tables.announced() == [("queuert_sched", "pack")]
        assert queuert.start("flaky") in {each["id"] for each in tables.rows()}
        queuert.close()
        with pytest.raises(InvalidOption, match="commits each statement by itself"):
            queuert.start("pack", connection=tables.connection)


async def test_a_chain_starts_with_the_transaction_of_an_async_caller(tables: QueuertTables, queuert: Queuert) -> None:
    database = await asyncpg.connect(tables.url)
    async with database.transaction():
        chain = await queuert.astart("pack", {"item": "end"}, connection=database)
        assert tables.rows() == []
        with pytest.raises(InvalidOption, match="await astart"):
            queuert.start("pack", connection=database)
    await database.close()
    assert [row["id"] for row in tables.rows()] == [chain]


# Refusals.


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "INSERT INTO queuert_migration (name) VALUES ('20270101000000_next')",
            "have the migration 20270101000000_next, which",
        ),
        (
            "DELETE FROM queuert_migration WHERE name LIKE '2026043%%'",
            "lack the migration 20260430000000_rename_chain_indexes: let",
        ),
        ("DELETE FROM queuert_migration", "lack the migration 20240101000000_initial_schema: let"),
        (
            "ALTER TABLE queuert_migration RENAME TO elsewhere",
            "has no tables q[0-9a-f]+.queuert_.* of Queuert: let Queuert make",
        ),
    ],
)
async def test_tables_of_another_version_are_refused_in_a_sentence(
    postgres_server_url: str, app: App, change: str, says: str
) -> None:
    tables = QueuertTables(postgres_server_url)
    queuert = Queuert(app, tables.url, schema=tables.schema)
    queuert.processor("pack")(lambda given: given)
    tables.insert("pack", 1)
    before = tables.rows()
    tables.do(change)
    foreign = queuert.connect(["*"])
    with psycopg.connect(tables.url) as database:
        for start in (
            foreign.take("w", [new_id()]),
            foreign.enter("w", 1),
            queuert.astart("pack"),
            queuert.astart("pack", connection=database),
        ):
            with pytest.raises(ForeignError, match=says):
                await start
            database.rollback()
    assert tables.rows() == before
    await foreign.close()
    await queuert.aclose()
    tables.remove()


async def test_a_worker_waits_for_the_migrations_and_then_works(
    postgres_server_url: str, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    tables = QueuertTables(postgres_server_url)
    queuert = Queuert(app, tables.url, schema=tables.schema)
    queuert.processor("pack")(lambda given: given)
    row = tables.insert("pack", 1)
    tables.do("DELETE FROM queuert_migration WHERE name LIKE '2026043%%'")
    async with queuert.worker():
        await until(lambda: "lack the migration 20260430000000_rename_chain_indexes" in caplog.text)
        assert tables.row(row)["status"] == "pending"
        tables.do("INSERT INTO queuert_migration VALUES ('20260430000000_rename_chain_indexes')")
        await until(lambda: tables.row(row)["status"] == "completed")
    tables.remove()


async def test_a_wrong_processor_is_refused_where_it_is_declared(queuert: Queuert) -> None:
    @queuert.processor("pack")
    def pack(given: int, /, *, results: list[int]) -> int:
        return given + sum(results)

    assert pack(1, results=[2, 3]) == 6
    assert pack.name == "queuert:pack"
    with pytest.raises(InvalidOption, match=r"start a chain with start\('pack', …\)"):
        pack.enqueue(1, results=[])
    with pytest.raises(InvalidOption, match="has a processor already"):
        queuert.processor("pack")
    with pytest.raises(InvalidOption, match="retry is not for jobs of Queuert"):
        queuert.processor("other", retry=3)(lambda given: given)  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="must take one argument, the input"):
        queuert.processor("other")(lambda one, two: one)
    with pytest.raises(InvalidOption, match="lease must be"):
        queuert.processor("other", lease=0)(lambda given: given)
    with pytest.raises(InvalidOption, match="has no processor here"):
        queuert.connect(["pack", "other"])
    with pytest.raises(InvalidOption, match="the name of a type"):
        Continue("")
    with pytest.raises(InvalidOption, match="without braces"):
        Queuert(queuert.app, queuert.url, schema="{}")


# Entries.


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (None, Complete("j", "null")),
        ('{"a":1}', Complete("j", '{"a":1}')),
        ('{"$continue":"ship","input":{"w":1.50}}', Complete("j", None, "ship", '{"w":1.50}')),
        ('{"$again":"Reschedule","after":5.0,"at":null}', Again("j", "Reschedule", 5.0, None)),
    ],
)
def test_the_result_of_a_job_says_what_becomes_of_its_row(result: str | None, verdict: Complete | Again) -> None:
    assert verdict_of(End("j", State.SUCCEEDED, result)) == verdict


def test_a_job_that_did_not_succeed_has_its_row_run_again() -> None:
    assert verdict_of(End("j", State.CANCELLED)) == Again("j", "the job was cancelled in Tenure")
    assert verdict_of(End("j", State.BROKEN, error=ErrorInfo("PayloadError", "a\0b"))) == Again(
        "j", "PayloadError: a\\x00b"
    )


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_characters="\0")),
        lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
        max_leaves=8,
    )
)
@settings(max_examples=50)
def test_any_input_reaches_its_processor_as_it_is(value: object) -> None:
    queuert = Queuert(App(f"memory://{new_id()}"), "postgresql://localhost/none")

    @queuert.processor("any")
    def process(results: list[Any], given: Any) -> None: ...

    document = json.dumps({"row": "r", "attempt": 1, "input": value, "results": [value]}).encode()
    job = queuert.read(Taken(new_id(), "any", document))
    assert isinstance(job, NewJob)
    assert process._call_arguments(job.payload, None) == ((), {"given": value, "results": [value]})
    assert (job.queue, job.keep) == ("queuert:any", 600)


# A network that fails.


@pytest.fixture
def proxy(tables: QueuertTables) -> Iterator[Proxy]:
    with proxied(urlsplit(tables.url).port or 5432) as proxy:
        yield proxy


def through(proxy: Proxy, tables: QueuertTables) -> str:
    parts = urlsplit(tables.url)
    return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}", query="timeout=1"))


async def test_steps_whose_answers_are_lost_can_be_repeated(tables: QueuertTables, app: App, proxy: Proxy) -> None:
    queuert = Queuert(app, through(proxy, tables), schema=tables.schema)
    queuert.processor("pack")(lambda given: given)
    foreign = queuert.connect(["*"])
    first, second = tables.insert("pack", 1), tables.insert("pack", 2)
    await foreign.enter("w", 1)
    proxy.lose_reply(b"w-unheard")
    with pytest.raises(ForeignError):
        await foreign.take("w-unheard", sorted([new_id(), new_id()]))
    assert proxy.lost.is_set()
    entries = (await foreign.look()).entries  # they are in custody all the same
    assert [(each.owner, each.queue) for each in entries] == [("w-unheard", "pack")] * 2
    proxy.lose_reply(entries[0].id.encode())  # rolled back with its connection, and done again by itself
    await foreign.record("w", [success(entries[0].id, "1")], (), ())
    assert proxy.lost.is_set()
    assert tables.row(first)["output"] == 1
    proxy.lose_reply(b"COMMIT;")
    with pytest.raises(ForeignError):
        await foreign.record("w", [success(entries[1].id, "2")], (), ())
    ended = tables.row(second)
    assert ended["output"] == 2
    await foreign.record("w", [success(entries[1].id, "3")], (), ())
    assert tables.row(second) == ended
    await foreign.close()


async def test_an_end_is_written_when_the_server_answers_again(tables: QueuertTables, app: App, proxy: Proxy) -> None:
    queuert = Queuert(app, through(proxy, tables), schema=tables.schema)
    began, go = asyncio.Event(), asyncio.Event()

    @queuert.processor("pack")
    async def pack(given: int) -> int:
        began.set()
        await go.wait()
        return given

    row = tables.insert("pack", 7)
    async with queuert.worker():
        await began.wait()
        proxy.blackhole()
        go.set()
        [job] = await app.ajobs()
        assert await job.aresult(timeout=10) == 7  # jobs do not wait for Queuert
        assert tables.row(row)["status"] == "running"
        await asyncio.sleep(1.2)
        proxy.heal()
        proxy.cut()
        await until(lambda: tables.row(row)["status"] == "completed")
    assert (tables.row(row)["output"], tables.row(row)["attempt"]) == (7, 1)
