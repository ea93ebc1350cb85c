"""Jobs that wait for others: `using(after=…)` on any mixture of jobs, runs, bound calls and bound starts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Job, State
from tenure.core.outcome import Next
from tenure.errors import BlockerNotFound, HasDependents, InvalidOption, JobFailed
from tenure.tasks.flow import Flow
from tenure.tasks.task import Caller, Task

from .conftest import Do, one_way

do = one_way


def make_add(app: App) -> Task[[int], int]:
    @app.task
    async def add(a: int) -> int:
        return a + 1

    return add


def make_join(app: App) -> Task[[], list[Any]]:
    @app.task(queue="join", retry=None)
    async def join(results: list[Any] = []) -> list[Any]:  # noqa: B006 - never changed
        return results

    return join


def make_flow(app: App) -> Flow:
    count = app.flow("count")

    @count.step(then="last", queue="count")
    async def first(n: int) -> dict[str, int]:
        return {"m": n * 10}

    @count.step(queue="count")
    async def last(m: int) -> int:
        return m

    return count


async def finish_all(app: App, *queues: str) -> None:
    """Run everything that can be run in these queues, or in all."""
    worker = app.worker(queues or ["*"], concurrency=8, poll=0.05)
    await asyncio.to_thread(worker.run, until_empty=True)


async def test_a_job_waits_for_jobs_and_is_given_their_results_in_order(app: App, do: Do) -> None:  # Q52, Q53
    add, join = make_add(app), make_join(app)
    one, two = await do(add.enqueue_many, [(1,), (2,)])

    waiting = await do(join.using(after=[two, one]).enqueue)

    assert waiting.state is State.BLOCKED
    await finish_all(app)
    assert await do(waiting.result, timeout=10) == [3, 2]


async def test_new_calls_come_to_exist_with_who_waits_for_them(app: App, do: Do) -> None:  # Q55
    add, join = make_add(app), make_join(app)

    waiting = await do(join.using(after=[add.bind(n) for n in range(5)]).enqueue)

    assert len(await do(app.jobs, task=add)) == 5
    await finish_all(app)
    assert await do(waiting.result, timeout=10) == [1, 2, 3, 4, 5]


async def test_any_mixture_of_jobs_runs_calls_and_starts_is_one_atomic_step(app: App, do: Do) -> None:
    add, join, count = make_add(app), make_join(app), make_flow(app)
    job, run = await do(add.enqueue, 1), await do(count.start, n=1)
    after = [count.bind(n=2), job, add.bind(2), run, add.bind(3)]

    waiting = await do(join.using(after=after).enqueue)
    with pytest.raises(BlockerNotFound):
        await do(join.using(after=[count.bind(n=3), add.bind(4), "nobody"]).enqueue)

    assert len(await do(app.flows)) == 2
    assert len(await do(app.jobs, task=add)) == 3
    await finish_all(app)
    assert await do(waiting.result, timeout=10) == [20, 2, 3, 10, 4]


async def test_an_id_stands_for_what_has_it(app: App, do: Do) -> None:
    job = await do(make_add(app).enqueue, 1)
    waiting = await do(make_join(app).using(after=[job.id]).enqueue)
    await finish_all(app)
    assert await do(waiting.result, timeout=10) == [2]


async def test_a_finished_blocker_counts_at_once(app: App, do: Do) -> None:  # Q52
    job = await do(make_add(app).enqueue, 1)
    await do(job.complete, 7)

    waiting = await do(make_join(app).using(after=[job, job]).enqueue)

    assert waiting.state is State.WAITING
    await finish_all(app)
    assert await do(waiting.result, timeout=10) == [7, 7]


async def test_a_blocker_may_be_shared(app: App, do: Do) -> None:  # Q55
    add, join = make_add(app), make_join(app)
    shared = add.bind(1)

    waiting = await do(app.enqueue, join.using(after=[shared]).bind(), join.using(after=[add.bind(2), shared]).bind())

    assert len(await do(app.jobs, task=add)) == 2
    await finish_all(app)
    assert [await do(each.result, timeout=10) for each in waiting] == [[2], [3, 2]]


@pytest.mark.parametrize("order", ["before", "behind"])
async def test_a_call_that_is_enqueued_beside_who_waits_for_it_is_one_job(app: App, do: Do, order: str) -> None:
    add, join = make_add(app), make_join(app)
    call = add.bind(1)
    calls = [call, join.using(after=[call]).bind()]

    jobs = await do(app.enqueue, *(calls if order == "before" else calls[::-1]))

    first, waiting = jobs if order == "before" else jobs[::-1]
    assert [job.id for job in await do(app.jobs, task=add)] == [first.id]
    await do(first.complete, 5)
    await finish_all(app)
    assert await do(waiting.result, timeout=10) == [5]


async def test_a_call_enqueued_twice_is_two_jobs_and_the_first_is_waited_for(app: App, do: Do) -> None:
    add, join = make_add(app), make_join(app)
    call = add.bind(1)

    one, two, waiting = await do(app.enqueue, call, call, join.using(after=[call]).bind())

    assert one.id != two.id
    await do(one.complete, 1)
    assert (await do(waiting.refresh)).state is State.WAITING


async def test_calls_that_wait_for_calls_may_nest(app: App, do: Do) -> None:
    add, join = make_add(app), make_join(app)
    last = join.using(after=[add.bind(1)]).bind()
    for _ in range(3):
        last = join.using(after=[last, add.bind(2)]).bind()

    [job] = await do(app.enqueue, last)

    await finish_all(app)
    assert await do(job.result, timeout=10) == [[[[2], 3], 3], 3]


async def test_calls_may_nest_deeper_than_python_calls_can(app: App) -> None:
    add = make_add(app)
    last = add.bind(0)
    for n in range(1, 1200):  # the limit is 1,000
        last = add.using(after=[last]).bind(n)

    [job] = await app.aenqueue(last)

    await job.arefresh()
    assert job.state is State.BLOCKED
    assert (await app.aqueues())[0].blocked == 1199


async def test_in_a_batch_a_job_may_wait_for_one_that_is_not_stored_yet(app: App, do: Do) -> None:
    add, join, count = make_add(app), make_join(app), make_flow(app)
    async with app.batch():
        job = await add.aenqueue(1)
        run = await count.astart(n=1)
        waiting = await join.using(after=[job, run]).aenqueue()

    assert waiting.state is State.BLOCKED
    await finish_all(app)
    assert await do(waiting.result, timeout=10) == [2, 10]


async def test_a_blocker_that_turns_out_a_duplicate_stands_for_its_holder(app: App, do: Do) -> None:  # Q56
    add, join = make_add(app).using(unique="k"), make_join(app)
    holder = await do(add.enqueue, 1)

    waiting = await do(join.using(after=[add.bind(5)]).enqueue)

    await do(holder.complete, 9)
    await finish_all(app)
    assert await do(waiting.result, timeout=10) == [9]


async def test_children_of_a_job_may_wait_for_each_other_and_come_with_its_success(app: App) -> None:  # G46
    add, join = make_add(app), make_join(app)
    children: list[Job[Any]] = []

    @app.task(queue="parent", retry=None)
    async def parent(fails: bool) -> None:
        from tenure import current

        [child] = current().enqueue(add.bind(1))
        children[:] = current().enqueue(join.using(after=[child, add.bind(2)]).bind())
        if fails:
            raise ValueError("after all")

    failed = await parent.aenqueue(True)
    await finish_all(app)
    with pytest.raises(JobFailed):
        await failed.aresult(timeout=10)
    assert len(await app.ajobs()) == 1

    await parent.aenqueue(False)
    await finish_all(app)
    assert await children[0].aresult(timeout=10) == [2, 3]


# What becomes of a job whose blocker fails.


def waiting_for(join: Caller[[], Any], blocker: Any, policy: Any) -> Caller[[], Any]:
    return join.using(after=[blocker], if_blocker_fails=policy)


@pytest.mark.parametrize("end", ["failed", "cancelled", "deleted"])
@pytest.mark.parametrize("policy", ["fail", "proceed", "wait"])
async def test_a_blocker_without_success_has_a_defined_end(app: App, policy: Any, end: str) -> None:  # F25, T9
    blocker = await make_add(app).aenqueue(1)
    join = make_join(app)
    waiting = await waiting_for(join, blocker, policy).aenqueue()
    match end:
        case "failed":
            [held] = await app.alease("default")
            await held.afail("no")
        case "cancelled":
            await blocker.acancel()
        case "deleted":
            with pytest.raises(HasDependents):
                await blocker.adelete()
            assert await app.apurge("default") == 1

    await waiting.arefresh()

    match policy:
        case "proceed":
            assert waiting.state is State.WAITING
            await finish_all(app, "join")
            [failure] = await waiting.aresult(timeout=10)
            assert (failure["$failure"]["job"], failure["$failure"]["state"]) == (blocker.id, end)
        case "wait" if end != "deleted":
            assert waiting.state is State.BLOCKED
            await blocker.aretry()
            await finish_all(app)
            assert await waiting.aresult(timeout=10) == [2]
        case _:
            assert waiting.state is State.FAILED
            assert waiting.error is not None
            assert waiting.error.type == "BlockerFailed"
            assert blocker.id in waiting.error.message


async def test_a_failed_run_acts_as_a_failed_job_does(app: App) -> None:  # F25
    count, join = make_flow(app), make_join(app)
    run = await count.astart(n=1)
    waiting = await join.using(after=[run]).aenqueue()
    [held] = await app.alease("count")
    assert held.job.id == run.id
    await held.afail("no")

    await waiting.arefresh()
    assert waiting.state is State.FAILED


async def test_retrying_a_job_whose_blocker_is_gone_says_so(app: App, do: Do) -> None:
    blocker = await do(make_add(app).enqueue, 1)
    waiting = await do(make_join(app).using(after=[blocker]).enqueue)
    await do(app.purge, "default")

    with pytest.raises(BlockerNotFound) as refusal:
        await do(waiting.retry)

    assert refusal.value.blocker == blocker.id
    assert waiting.state is State.FAILED


# What is refused before any I/O.


@pytest.mark.parametrize("after", [1, "01a1", None, [1], [None], [("a",)]])
async def test_what_cannot_be_waited_for_is_refused(no_store: App, after: Any) -> None:
    with pytest.raises(InvalidOption, match="after"):
        make_add(no_store).using(after=after)


async def test_a_task_without_arguments_bound_is_refused_with_a_hint(no_store: App) -> None:
    add = make_add(no_store)
    with pytest.raises(InvalidOption, match=r"\.bind"):
        add.using(after=[add])  # type: ignore[list-item]
    with pytest.raises(InvalidOption, match=r"write after=\["):
        add.using(after=add.bind(1))  # type: ignore[call-overload]


async def test_an_unknown_policy_is_refused(no_store: App) -> None:
    with pytest.raises(InvalidOption, match="fail, proceed, wait"):
        make_add(no_store).using(if_blocker_fails="ignore")  # type: ignore[call-overload]


async def test_using_again_replaces_what_is_waited_for(app: App) -> None:
    add = make_add(app)
    one = await add.aenqueue(1)
    waiting = add.using(after=[one])
    assert (await waiting.using(priority=1).aenqueue(1)).state is State.BLOCKED
    assert (await waiting.using(after=[]).aenqueue(1)).state is State.WAITING


# Many.


async def many_blockers(app: App, count: int) -> None:
    add, join = make_add(app), make_join(app)
    waiting = await join.using(after=[add.bind(n) for n in range(count)]).aenqueue()
    assert waiting.state is State.BLOCKED
    assert {queue.name: queue.waiting for queue in await app.aqueues()} == {"default": count, "join": 0}

    async with app.worker(["default", "join"], concurrency=100, poll=0.1):
        assert await waiting.aresult(timeout=300) == [n + 1 for n in range(count)]


async def test_a_call_may_have_a_thousand_new_blockers(app: App) -> None:
    await many_blockers(app, 1_000)


@pytest.mark.long
async def test_a_call_may_have_ten_thousand_new_blockers(app: App) -> None:
    await many_blockers(app, 10_000)


async def many_children(app: App, count: int) -> None:
    add, album = make_add(app), app.flow("album")

    @album.step(queue="split")
    async def split(count: int) -> Next:
        return Next("join").using(after=[add.bind(n) for n in range(count)])

    @album.step(queue="join")
    async def join(results: list[int]) -> int:
        assert results == [n + 1 for n in range(count)]
        return len(results)

    run = await album.astart(count=count)
    async with app.worker(concurrency=100, poll=0.1):
        assert await run.aresult(timeout=300) == count
    assert [(step.name, step.attempts) for step in await run.asteps()] == [("split", 1), ("join", 1)]


async def test_a_step_may_have_a_thousand_children(app: App) -> None:  # G46
    await many_children(app, 1_000)


@pytest.mark.long
async def test_a_step_may_have_ten_thousand_children(app: App) -> None:
    await many_children(app, 10_000)


async def test_many_may_wait_for_one(app: App) -> None:  # Q55
    add, join = make_add(app), make_join(app)
    blocker = await add.aenqueue(1)
    waiting = await app.aenqueue(*[join.using(after=[blocker]).bind() for _ in range(500)])

    await blocker.acomplete(3)

    assert {(await job.arefresh()).state for job in itertools.islice(waiting, 0, None, 50)} == {State.WAITING}
    [queue] = [queue for queue in await app.aqueues() if queue.name == "join"]
    assert (queue.waiting, queue.blocked) == (500, 0)


# In the caller's transaction.


async def test_what_is_waited_for_goes_through_the_connection_of_any_of_them(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    app = App(f"sqlite:///{path}")
    add, join = make_add(app), make_join(app)
    await app.internals.session.open()
    with contextlib.closing(sqlite3.connect(path)) as mine, contextlib.closing(sqlite3.connect(path)) as other:
        for connection in (mine, other):
            connection.execute("BEGIN")
        waiting = join.using(after=[add.using(connection=mine).bind(1), add.bind(2)])
        with pytest.raises(InvalidOption, match="several"):
            await waiting.using(connection=other).aenqueue()

        job = await waiting.aenqueue()

        assert await app.ajobs() == []
        mine.commit()
        assert len(await app.ajobs()) == 3
        assert (await job.arefresh()).state is State.BLOCKED
    await app.aclose()
