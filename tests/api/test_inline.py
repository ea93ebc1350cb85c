"""Running jobs where they are enqueued."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest

from tenure import App, Context, Fail, Reschedule, Retry, State, Wait
from tenure.errors import JobFailed, UseAsync

from .conftest import Do


@pytest.fixture
def ran() -> list[Any]:
    return []


async def test_a_job_has_run_when_the_enqueue_returns(no_store: App, do: Do, ran: list[Any]) -> None:  # R9
    @no_store.task
    def blocking(when: datetime) -> str:
        ran.append(when)
        return "blocking"

    @no_store.task
    async def awaited(n: int) -> str:
        ran.append(n)
        return "awaited"

    async with no_store.inline():
        first = await do(blocking.enqueue, datetime(2026, 1, 1))
        second = await do(awaited.using(delay=3600).enqueue, 2)

    assert ran == [datetime(2026, 1, 1), 2]
    assert (first.state, second.state) == (State.SUCCEEDED, State.SUCCEEDED)
    assert (await do(first.result), await do(second.result)) == ("blocking", "awaited")


def test_scripts_need_no_event_loop(no_store: App) -> None:
    @no_store.task
    async def double(n: int) -> int:
        return 2 * n

    with no_store.inline():
        assert double.enqueue(2).result() == 4
        assert [job.result() for job in double.enqueue_many([(1,), (2,)])] == [2, 4]


def test_a_plain_function_runs_in_the_thread_that_enqueued_its_job(no_store: App, ran: list[Any]) -> None:
    @no_store.task
    def here(again: bool) -> None:
        ran.append(threading.current_thread())
        if again:
            here.enqueue(False)

    with no_store.inline():
        here.enqueue(True)

    assert ran == [threading.current_thread()] * 2


async def test_a_failure_is_raised_to_who_enqueued(no_store: App, do: Do, ran: list[Any]) -> None:
    @no_store.task(max_attempts=2)
    def fails(n: int) -> None:
        ran.append(n)
        raise ZeroDivisionError(f"boom {n}")

    @no_store.task
    def parent() -> str:
        fails.enqueue(3)
        return "went on"

    async with no_store.inline():
        with pytest.raises(ZeroDivisionError, match="boom 1"):
            await do(fails.enqueue_many, [(1,), (2,)])
        assert ran == [1, 2, 1, 2]
        with pytest.raises(ZeroDivisionError, match="boom 3"):
            await do(parent.enqueue)
        [job] = [job for job in await do(no_store.jobs) if job.task == "parent"]
        assert await do(job.result) == "went on"


def test_a_function_that_raises_what_ends_iterators_or_programs_has_failed(no_store: App) -> None:
    @no_store.task(retry=None)
    def leave(how: str) -> None:
        raise StopIteration if how == "stop" else SystemExit(3)

    with no_store.inline(raises=False):
        assert leave.enqueue("stop").failed
        assert leave.enqueue("exit").failed


def test_no_delay_is_logged_that_is_not_waited_for(no_store: App, caplog: pytest.LogCaptureFixture) -> None:
    @no_store.task(max_attempts=2)
    def fails() -> None:
        raise ZeroDivisionError

    with caplog.at_level("DEBUG", "tenure"), no_store.inline(raises=False):
        fails.enqueue()
        no_store.internals.audience.listeners.flush()

    told = [record.getMessage() for record in caplog.records if fails.name in record.getMessage()]
    assert told
    assert not [line for line in told if "10 s" in line or "10.0 s" in line]


async def test_failures_and_answers_lead_where_they_always_do(no_store: App, do: Do, ran: list[Any]) -> None:
    @no_store.task(max_attempts=3)
    def act(how: str) -> Any:
        ran.append(how)
        match how:
            case "boom":
                raise ZeroDivisionError("boom")
            case "fail":
                raise Fail("no")
            case "retry":
                return Retry("again", after=60) if ran.count("retry") < 3 else "done"
            case "reschedule":
                return Reschedule(after=60)
            case "wait":
                raise Wait

    async with no_store.inline(raises=False):
        jobs = [await do(act.enqueue, how) for how in ("boom", "fail", "retry", "reschedule", "wait")]

        assert [job.record.label for job in jobs] == ["failed", "failed", "succeeded", "scheduled", "parked"]
        assert (ran.count("boom"), ran.count("retry"), ran.count("reschedule")) == (3, 3, 1)
        assert (await do(no_store.stats)).totals.failed == 2
        with pytest.raises(JobFailed, match="ZeroDivisionError: boom"):
            await do(jobs[0].result)
        await do(jobs[4].complete, 7)
        assert await do(jobs[4].result) == 7


async def test_what_a_job_enqueues_runs_too(no_store: App, do: Do, ran: list[Any]) -> None:
    @no_store.task
    def leaf(n: int) -> None:
        ran.append(n)

    @no_store.task
    def branch(ctx: Context) -> None:
        ctx.enqueue(leaf.using(delay=60).bind(2))
        leaf.enqueue(1)

    async with no_store.inline():
        await do(branch.enqueue)

    assert ran == [1, 2]


async def test_a_batch_runs_at_its_end(no_store: App, ran: list[Any]) -> None:
    @no_store.task
    def note(n: int) -> None:
        ran.append(n)

    async with no_store.inline(), no_store.batch():
        await note.aenqueue(1)
        assert ran == []

    assert ran == [1]


async def test_middleware_wraps_it(no_store: App, do: Do, ran: list[Any]) -> None:  # Q38
    @no_store.middleware
    async def outer(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        ran.append(f"> {ctx.job.task}")
        try:
            return await call_next()
        finally:
            ran.append("<")

    @no_store.task
    def note() -> None:
        ran.append(threading.current_thread().name)

    async with no_store.inline():
        await do(note.enqueue)

    assert [ran[0], ran[2]] == ["> note", "<"]


async def test_a_task_that_is_not_here_stays_waiting(no_store: App, do: Do) -> None:
    async with no_store.inline():
        job = await do(no_store.remote("elsewhere").enqueue, 1)

        assert job.state is State.WAITING


async def test_the_store_of_the_app_is_back_after_the_block(app: App, do: Do) -> None:
    @app.task
    def note() -> None: ...

    before = await do(note.enqueue)
    async with app.inline():
        await do(note.enqueue)
        assert [job.state for job in await do(app.jobs)] == [State.SUCCEEDED]

    assert [job.id for job in await do(app.jobs)] == [before.id]


async def test_a_blocking_block_on_a_running_loop_is_refused(no_store: App) -> None:
    with pytest.raises(UseAsync, match="async with"):
        no_store.inline().__enter__()


async def test_jobs_of_one_block_do_not_wait_for_each_other(no_store: App) -> None:
    met = asyncio.Barrier(2)

    @no_store.task
    async def meet() -> None:
        await met.wait()

    async with no_store.inline():
        jobs = await asyncio.wait_for(asyncio.gather(meet.aenqueue(), meet.aenqueue()), 5)

    assert {job.state for job in jobs} == {State.SUCCEEDED}


def test_lines_of_the_log_are_there_when_the_block_ends(caplog: pytest.LogCaptureFixture) -> None:
    logged = App("memory://")

    @logged.task(max_attempts=3)
    def fails() -> None:
        raise ValueError("no")

    with logged.inline(raises=False):
        fails.enqueue()
    assert [each.levelname for each in caplog.records] == ["WARNING", "WARNING", "ERROR"]
