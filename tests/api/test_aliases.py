"""Tasks that have had another name: what is stored under it runs all the same."""

from __future__ import annotations

import asyncio

import pytest

from tenure import App, Next, State, Wait
from tenure.errors import InvalidName, InvalidOption

from .conftest import Do


async def test_a_job_stored_under_an_old_name_is_run_by_the_task_that_has_it_as_an_alias(app: App, do: Do) -> None:
    @app.task(name="mail.send", aliases=["send", "send_mail"])
    async def send(user: int) -> str:
        return f"to {user}"

    old = [await do(app.remote(name).enqueue, 1) for name in ("send", "send_mail")]
    new = await do(send.enqueue, 2)

    async with app.worker(poll=0.05):
        assert [await do(job.result, timeout=20) for job in (*old, new)] == ["to 1", "to 1", "to 2"]
        [worker] = await do(app.workers)
    assert worker.tasks == ("mail.send", "send", "send_mail")
    assert [job.task for job in (*old, new)] == ["send", "send_mail", "mail.send"]


async def test_the_name_of_the_task_is_enough_where_a_worker_is_told_what_to_run(app: App, one_way: Do) -> None:
    @app.task(aliases=["old"])
    def new() -> int:
        return 1

    @app.task(aliases=["other_old"])
    def other() -> int:
        return 2

    job = await one_way(app.remote("old").enqueue)
    async with app.worker(poll=0.05, tasks=[new]):
        assert await one_way(job.result, timeout=20) == 1
        [worker] = await one_way(app.workers)
    assert worker.tasks == ("new", "old")


async def test_equal_calls_are_cancelled_under_every_name(app: App, one_way: Do) -> None:  # T14
    @app.task(aliases=["old"])
    def new(number: int) -> None: ...

    await one_way(app.remote("old").enqueue, number=1)
    await one_way(app.remote("old").enqueue, 2)
    await one_way(new.enqueue, 1)

    assert await one_way(app.cancel, new.bind(1)) == 2


async def test_a_step_that_was_renamed_goes_on_where_runs_are(app: App) -> None:
    before, after = App(app.url), app
    old = before.flow("order")

    @old.step(then="approval", queue="q")
    async def begin() -> None: ...

    @old.step(queue="q", next=["reminder"])
    async def approval() -> Wait:
        return Wait(timeout=3600, on_timeout="reminder")

    @old.step(queue="q", name="reminder")
    async def remind() -> None: ...

    runs = [await old.astart() for _ in range(3)]
    async with before.worker(poll=0.05, concurrency=3):
        async with asyncio.timeout(10):
            while {(await run.arefresh()).state for run in runs} != {State.BLOCKED}:
                await asyncio.sleep(0.01)
    await before.aclose()

    new = after.flow("order")

    @new.step(then="approve", queue="q")
    async def start() -> None: ...

    @new.step(queue="q", next=["remember"], aliases=["approval"])
    async def approve() -> str:
        return "approved"

    @new.step(queue="q", aliases=["reminder"])
    async def remember() -> str:
        return "remembered"

    by_new, by_old, chosen = [await after.arun(run.id) for run in runs]
    assert by_new.step == "approval"
    await by_new.acomplete("fine", step=approve)
    await by_old.acomplete("fine", step="approval")
    await chosen.acomplete(Next("reminder"))
    async with after.worker(poll=0.05):
        assert await chosen.aresult(timeout=20) == "remembered"
    assert [await run.aresult(timeout=20) for run in (by_new, by_old)] == ["fine", "fine"]


def test_two_tasks_cannot_run_the_jobs_of_one_name(no_store: App) -> None:
    @no_store.task(aliases=["old"])
    def new() -> None: ...

    flow = no_store.flow("order")

    @flow.step(aliases=["former"])
    def step() -> None: ...

    for name, aliases, conflict in [
        ("old", [], "tasks 'new' and 'old' would both run jobs of 'old'"),
        ("third", ["new"], "tasks 'new' and 'third' would both run jobs of 'new'"),
        ("third", ["old"], "tasks 'new' and 'third' would both run jobs of 'old'"),
        ("order.former", [], "tasks 'order.step' and 'order.former' would both run jobs of 'order.former'"),
        ("new", [], "there is a task named 'new' already"),
    ]:
        with pytest.raises(InvalidOption, match=conflict):
            no_store.task(name=name, aliases=aliases)(lambda: None)
    assert set(no_store.tasks) == {"new", "old", "order.step", "order.former"}
    no_store.task(name="fine", aliases=["fine", "finer", "finer"])(lambda: None)


def test_an_alias_is_a_name(no_store: App) -> None:
    with pytest.raises(InvalidOption, match=r"aliases must be a list.*write \['old'\]"):
        no_store.task(name="new", aliases="old")(lambda: None)
    with pytest.raises(InvalidName):
        no_store.task(name="new", aliases=["no name"])(lambda: None)
