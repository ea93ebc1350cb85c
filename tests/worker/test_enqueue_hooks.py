"""Hooks around what jobs enqueue: asked where the job runs, told of it once it is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tenure
from tenure import App, Context, Next, State
from tenure.errors import EnqueueRefused, JobFailed
from tenure.stores.base import Store

from .conftest import Start, eventually, record_of, retrying_app, whatever_the_store
from .hooked import Notes, a_task, lanes, notes

__all__ = ["notes"]

app = retrying_app


@whatever_the_store
@lanes
async def test_what_a_job_enqueues_is_asked_about_there_and_told_of_when_it_is_stored(
    app: App, start: Start, notes: Notes, lane: str
) -> None:  # R3, R4
    @app.task(queue="nobody")
    def child(n: int) -> None: ...

    def job(n: int) -> None:
        tenure.current().enqueue(child.bind(0), child.bind(n))

    task = a_task(app, lane, job, max_attempts=1)
    child.before_enqueue(lambda call: call.args != (13,))
    child.before_enqueue(lambda call: notes.take("asked", *call.args))

    @child.after_enqueue
    async def told(child: Any) -> None:
        notes.take("told", (await child.arefresh()).state)

    await start(app, "default")
    await (await task.aenqueue(1)).aresult(timeout=20)
    await eventually(lambda: len(notes()) == 4)
    assert notes() == [("asked", 0), ("asked", 1), ("told", "waiting"), ("told", "waiting")]
    with pytest.raises(JobFailed, match=EnqueueRefused.__name__):
        await (await task.aenqueue(13)).aresult(timeout=20)
    assert notes()[4:] == [("asked", 0), ("asked", 13)]
    assert len(await app.ajobs(queue="nobody")) == 2


@pytest.mark.parametrize("isolation", [None, "process"])
async def test_what_a_step_lets_the_next_wait_for_is_asked_about_and_the_next_is_not(
    app: App, store: Store, start: Start, notes: Notes, isolation: Any
) -> None:  # R4
    flow = app.flow("f")

    @app.task
    def part(n: int) -> int:
        return n

    @flow.step(isolation=isolation, max_attempts=1)
    def split(n: int) -> Next:
        return Next("join").using(after=[part.bind(1), part.bind(n)])

    @flow.step
    async def join(results: list[int]) -> list[int]:
        return results

    @app.before_enqueue
    async def asked(call: Any) -> bool:
        await asyncio.sleep(0)
        notes.take(call.task, call.flow)
        return bool(call.args != (13,))

    split.after_perform(lambda ctx, result: notes.take(type(result).__name__))
    await start(app, concurrency=2)
    assert await (await flow.astart(n=2)).aresult(timeout=20) == [1, 2]
    assert notes() == [("f.split", "f"), "Next", ("part", None), ("part", None)]
    with pytest.raises(JobFailed, match=EnqueueRefused.__name__):
        await (await flow.astart(n=13)).aresult(timeout=20)
    assert {job.state for job in await app.ajobs(task="part")} == {State.SUCCEEDED}
    assert (await record_of(store, (await app.aflows(state="failed"))[0].id)).state is State.FAILED


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("lane", ["loop", "thread", "process of a function"])
async def test_a_refusal_rolls_a_completion_back(app: App, start: Start, notes: Notes, lane: str) -> None:  # R4
    flow = app.flow("f")

    @app.task(queue="nobody")
    def part(n: int) -> int:
        return n

    if lane == "loop":

        @flow.step(max_attempts=1)
        async def split(ctx: Context, n: int) -> None:
            async with ctx.complete() as tx:
                tx.result = Next("join").using(after=[part.bind(n)])
    else:

        @flow.step(max_attempts=1, isolation="process" if lane.startswith("process") else None)
        def split(ctx: Context, n: int) -> None:
            with ctx.complete() as tx:
                tx.result = Next("join").using(after=[part.bind(n)])

    @flow.step
    def join(results: list[int]) -> None: ...

    @part.before_enqueue
    async def refuse(call: Any) -> bool:
        await asyncio.sleep(0)
        return bool(call.args != (13,))

    part.after_enqueue(lambda job: notes.take(job.task))
    await start(app, "default")
    with pytest.raises(JobFailed, match=EnqueueRefused.__name__):
        await (await flow.astart(n=13)).aresult(timeout=20)
    assert await app.ajobs(queue="nobody") == []
    await flow.astart(n=1)
    await eventually(lambda: notes() == ["part"])
    assert len(await app.ajobs(queue="nobody")) == 1
