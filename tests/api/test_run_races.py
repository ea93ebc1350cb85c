"""Jobs and runs of many hands at one instant."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tenure import App, State
from tenure.core.after import BoundCall
from tenure.core.outcome import Next
from tenure.tasks.flow import Flow
from tests.faults.scale import LONGEST, lengths

from .finisher import fails, finish_in_step


def make_flow(app: App) -> Flow:
    flow = app.flow("flow")

    @flow.step(next=["join"])
    async def split() -> None: ...

    @flow.step(queue="join")
    async def join() -> None: ...

    return flow


async def arrange(app: App, rounds: int) -> None:
    """In each round a plain job, or the join step of a run, waits for one job in each of the two queues."""
    flow = make_flow(app)

    def blockers() -> list[BoundCall]:
        return [app.remote("b", queue=queue).bind() for queue in ("first", "second")]

    for run in await flow.astart_many([{}] * (rounds // 4)):
        await run.acomplete(Next("join").using(after=blockers(), if_blocker_fails="proceed"))
    task = app.remote("t", queue="join").using(if_blocker_fails="proceed")
    await app.aenqueue(*(task.using(after=blockers()).bind() for _ in range(rounds - rounds // 4)))


async def race(url: str, rounds: int, folder: Path) -> None:
    if url.startswith("memory"):
        barrier = threading.Barrier(2, timeout=60)

        def meet(_: int) -> None:
            barrier.wait()

        def finish(queue: str) -> None:
            asyncio.run(finish_in_step(url, queue, rounds, meet))

        await asyncio.gather(*(asyncio.to_thread(finish, queue) for queue in ("first", "second")))
        return
    meeting = folder / "meeting"
    meeting.write_bytes(bytes(16))
    program = [sys.executable, "-m", "tests.api.finisher", url]
    processes = [subprocess.Popen([*program, queue, str(rounds), str(meeting)]) for queue in ("first", "second")]
    try:
        for process in processes:
            assert await asyncio.to_thread(process.wait, LONGEST) == 0
    finally:
        for process in processes:
            process.kill()


@pytest.mark.parametrize("rounds", lengths(200, 5_000))
async def test_two_last_blockers_at_one_instant_free_who_waits(
    url: str, app: App, rounds: int, tmp_path: Path
) -> None:  # F25, I13
    await arrange(app, rounds)

    await race(url, rounds, tmp_path)

    [queue] = [queue for queue in await app.aqueues() if queue.name == "join"]
    assert (queue.waiting, queue.blocked, queue.failed) == (rounds, 0, 0)
    seen: dict[int, tuple[str | None, ...]] = {}
    while leases := await app.alease("join", limit=1000):
        for held in leases:
            first, second = held.job.results
            assert held.job.state is State.RUNNING
            assert first is not None
            assert second is not None
            assert ("$failure" in second) is fails(int(first))
            assert fails(int(first)) or second == first
            seen[int(first)] = held.job.results
            await held.afinish()
    assert len(seen) == rounds


async def test_starts_at_the_same_time_with_one_key_are_one_run(app: App, url: str) -> None:  # Q56, I14
    apps = [App(url) for _ in range(4)]
    starters = [make_flow(each).using(unique="k") for each in apps]
    for _ in range(5):
        runs = await asyncio.gather(*(starter.astart() for starter in starters for _ in range(5)))
        assert len({run.id for run in runs}) == 1
        assert sum(not run.duplicate for run in runs) == 1
        await runs[0].adelete()
    assert await app.aflows() == []
    for each in apps:
        await each.aclose()


async def test_many_runs_are_waited_for_together(app: App) -> None:
    count = app.flow("count")

    @count.step(then="last")
    async def first(n: int) -> None: ...

    @count.step
    async def last(n: int) -> int:
        return n

    runs = await count.astart_many([{"n": n} for n in range(500)])
    waiters = [asyncio.create_task(run.aresult(timeout=60)) for run in runs]
    async with app.worker(concurrency=50, poll=0.1):
        assert await asyncio.gather(*waiters) == list(range(500))
    assert app.internals.session.waiting._waiters == {}
