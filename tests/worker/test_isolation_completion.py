"""Isolated jobs that are completed in a transaction: the child's own connection, and what the worker knows of it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import App, Backoff, Context
from tenure.core.job import State
from tenure.errors import Aborted, JobFailed, LeaseLost
from tenure.stores.base import Store
from tenure.tasks.completion.stage import Stage
from tenure.worker.isolation import process as child_process

from .completing import effects, url
from .conftest import Lines, MakeApp, Start, eventually, record_of, single_try_app
from .effects import Effects

__all__ = ["effects", "url"]

app = single_try_app


async def test_a_child_completes_its_job_with_its_writes_and_its_children(
    app: App, effects: Effects, store: Store, start: Start, lines: Lines
) -> None:
    insert, table = effects.insert, effects.table

    @app.task(queue="nobody")
    async def child_job() -> None: ...

    @app.task(isolation="process")
    def blocking(ctx: Context, n: int) -> str:
        with ctx.prepare() as tx:
            before = tx.fetchval(f"SELECT count(*) FROM {table}")
        ctx.enqueue(child_job.bind())
        with ctx.complete() as tx:
            tx.execute(insert, n)
            tx.result = f"{before} before"
        return "dropped"

    @app.task(isolation="process")
    async def awaited(ctx: Context, n: int) -> Any:
        async with ctx.prepare() as tx:
            before = await tx.fetchval(f"SELECT count(*) FROM {table}")
        ctx.enqueue(child_job.bind())
        async with ctx.complete() as tx:
            await tx.execute(insert, n)
            tx.result = f"{before} before"
        os._exit(1)  # too late to change anything

    await start(app, "default")
    assert await (await blocking.aenqueue(1)).aresult(timeout=30) == "0 before"
    job = await awaited.aenqueue(2)
    assert await job.aresult(timeout=30) == "1 before"
    await eventually(lambda: lines(f"job {job.id} of task awaited succeeded"))
    assert await effects.rows() == [1, 2]
    assert len(await app.ajobs(queue="nobody")) == 2
    assert lines("was completed in its transaction, so the rest is ignored: its return value is dropped")
    assert not lines("ended as failed")
    assert not lines("lost its lease")


async def test_what_a_job_wrote_that_its_own_transaction_has_ended_goes_to_the_log(
    app: App, store: Store, start: Start, lines: Lines
) -> None:
    @app.task(isolation="process", output=1000)
    def writes(ctx: Context) -> None:
        print("before")
        with ctx.complete():
            pass
        print("after")

    await start(app)
    job = await writes.aenqueue()
    await job.aresult(timeout=30)
    await eventually(lambda: len(lines(" wrote ")) == 2)
    assert [line.rpartition(" wrote ")[2] for line in lines(" wrote ")] == ["'before'", "'after'"]
    assert [(attempt.outcome, attempt.output) for attempt in await job.aattempts()] == [("succeeded", None)]


async def test_a_block_that_raises_in_a_child_is_rolled_back(
    app: App, effects: Effects, store: Store, start: Start
) -> None:
    insert = effects.insert

    @app.task(isolation="process")
    def raises(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(insert, 1)
            raise ValueError("no")

    @app.task(isolation="process")
    def dies(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(insert, 1)
            os._exit(4)

    await start(app, concurrency=2)
    jobs = [await raises.aenqueue(), await dies.aenqueue()]
    for job, why in zip(jobs, ("ValueError: no", "exit code 4"), strict=True):
        with pytest.raises(JobFailed, match=why):
            await job.aresult(timeout=30)
    assert await effects.rows() == []


@pytest.mark.parametrize("again", [False, True])
async def test_a_child_completes_its_job_in_a_connection_of_its_own(
    app: App, url: str, effects: Effects, start: Start, again: bool
) -> None:
    insert = effects.insert if url.startswith("sqlite") else effects.insert.replace("$1", "%s")

    @app.task(isolation="process")
    def joins(ctx: Context, n: int) -> Any:
        connection: Any = (
            sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10)
            if url.startswith("sqlite")
            else psycopg.connect(Effects.dsn(url))
        )
        for committed in (False, True) if again else (True,):
            with ctx.complete(connection=connection) as tx:
                connection.execute(insert, (n,))
                tx.result = n
            if committed:
                connection.commit()
            else:
                connection.rollback()

    await start(app)
    if url.startswith("sqlite"):
        app = App(f"{url}?library=sqlite3")
    assert await (await joins.aenqueue(5)).aresult(timeout=30) == 5
    assert await effects.rows() == [5]


async def test_whatever_instant_a_child_dies_at_its_effects_happen_once(
    make_app: MakeApp, effects: Effects, store: Store, start: Start
) -> None:  # F1
    app = make_app(retry=Backoff(initial=0.01, jitter=0))
    insert = effects.insert

    @app.task(isolation="process", max_attempts=None)
    def dies_while_it_commits(ctx: Context, n: int) -> None:
        def die() -> None:
            while ctx._completion is None or ctx._completion.stage is not Stage.SETTLING:
                time.sleep(0)
            time.sleep(0.0005 * n)
            os._exit(1)

        if ctx.attempt < 3:
            threading.Thread(target=die, daemon=True).start()
        with ctx.complete() as tx:
            tx.execute(insert, n)

    await start(app, concurrency=2)
    jobs = [await dies_while_it_commits.aenqueue(n) for n in range(6)]
    for job in jobs:
        await job.aresult(timeout=30)
    assert await effects.rows() == list(range(6))
    assert [(await record_of(store, job.id)).losses for job in jobs] == [0] * 6


async def test_a_child_whose_job_is_cancelled_commits_nothing(
    app: App, effects: Effects, store: Store, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # F8
    monkeypatch.setattr(child_process, "LOST_GRACE", 10.0)
    insert = effects.insert

    @app.task(isolation="process")
    def works(ctx: Context) -> None:
        (tmp_path / "here").touch()
        try:
            time.sleep(60)
        except Aborted:
            try:
                with ctx.complete() as tx:
                    tx.execute(insert, 1)
            except LeaseLost as lost:
                (tmp_path / "lost").write_text(lost.reason)

    await start(app)
    job = await works.aenqueue()
    await eventually((tmp_path / "here").exists)
    await job.acancel()
    await eventually(lambda: (tmp_path / "lost").exists() and (tmp_path / "lost").read_text())
    assert (tmp_path / "lost").read_text() == "cancelled"
    assert await effects.rows() == []
    assert (await record_of(store, job.id)).state is State.CANCELLED


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_leases_outlive_a_childs_transaction_that_keeps_others_from_writing(
    app: App, effects: Effects, store: Store, start: Start, tmp_path: Path
) -> None:
    insert = effects.insert

    @app.task(isolation="process", lease=1)
    def slow(ctx: Context) -> None:
        with ctx.complete() as tx:
            tx.execute(insert, 1)
            (tmp_path / "inside").touch()
            time.sleep(2)

    @app.task(lease=1)
    async def beside(ctx: Context) -> None:
        assert await ctx.signal.wait() == "never"

    await start(app, concurrency=2)
    other = await beside.aenqueue()
    await eventually(lambda: _running(store, other.id))
    job = await slow.aenqueue()
    await job.aresult(timeout=30)
    for each in (job, other):
        record = await record_of(store, each.id)
        assert (record.attempt, record.losses, record.fence) == (1, 0, 1)


async def _running(store: Store, job_id: str) -> bool:
    return (await record_of(store, job_id)).state is State.RUNNING
