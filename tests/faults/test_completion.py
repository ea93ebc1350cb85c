"""Effects that are written in the completing transaction happen once, whatever dies, and whenever."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Iterator

import asyncpg  # type: ignore[import-untyped]
import pytest

from tenure import App
from tenure.core.job import State
from tenure.stores import open_store
from tenure.tasks.flow import Step
from tests.servers.postgres import Postgres
from tests.worker.completing import effects, url
from tests.worker.effects import Effects

from .completing import INSTANTS, STEPS, TASKS, die_at_every_instant, make_app, work_and_be_killed
from .processes import Processes
from .scale import lengths

__all__ = ["effects", "url"]


@pytest.fixture
async def app(url: str) -> AsyncIterator[App]:
    async with make_app(url) as app:
        yield app


async def enqueue(app: App, numbers: range, queue: str | None = None) -> None:
    for each, name in enumerate(TASKS):
        task = app.tasks[name] if queue is None else app.tasks[name].using(queue=f"{name}.{queue}")
        await task.aenqueue_many([(n,) for n in numbers if n % len(TASKS) == each])


async def work_off(app: App, number: int) -> None:
    """Let a worker that nobody kills do what is left of so many jobs."""
    async with app.worker(concurrency=4), asyncio.timeout(40 + number / 20):
        while any(q.waiting + q.scheduled + q.blocked + q.running for q in await app.aqueues()):
            await asyncio.sleep(0.05)


async def everything_happened_once(app: App, effects: Effects, number: int) -> None:
    assert await effects.rows() == list(range(number))
    totals = (await app.astats()).totals
    assert (totals.succeeded, totals.failed) == (number, 0)


@pytest.mark.parametrize("times", lengths(1, 20))
async def test_each_effect_happens_once_though_workers_die_at_every_instant(
    app: App, url: str, effects: Effects, processes: Processes, times: int
) -> None:  # F1, I6
    each = len(TASKS) * times
    for at, instant in enumerate(INSTANTS):
        await enqueue(app, range(at * each, (at + 1) * each), instant)
    dying = processes.start(die_at_every_instant, url, times)
    loop = asyncio.get_running_loop()

    [died] = await loop.run_in_executor(None, dying.hear, "died", 30.0 * (1 + times))
    await work_off(app, len(died))

    assert died == [-signal.SIGKILL] * len(INSTANTS) * each, processes.last_words()
    await everything_happened_once(app, effects, len(INSTANTS) * each)
    records = [job.record for job in await app.ajobs(state=State.SUCCEEDED, limit=1000) if job.record]
    lost = {record.queue for record in records if record.losses}
    assert all(record.attempt == record.losses + 1 for record in records), "an attempt that crashed has counted"
    unharmed = {record.queue for record in records if not record.losses}
    assert lost >= {f"{task}.{instant}" for task in TASKS for instant in ("before", "inside", "settled")}
    assert unharmed >= {f"{task}.committed" for task in TASKS}


@pytest.mark.parametrize("times", lengths(1, 20))
async def test_an_effect_and_the_next_step_are_one_though_workers_die_at_every_instant(
    app: App, url: str, effects: Effects, processes: Processes, times: int
) -> None:  # F25, I13
    [name] = STEPS
    step = app.tasks[name]
    assert isinstance(step, Step)
    numbers = range(len(INSTANTS) * times)
    runs = [await step.flow.using(queue=f"{name}.{INSTANTS[n % len(INSTANTS)]}").astart(n=n) for n in numbers]
    dying = processes.start(die_at_every_instant, url, times, STEPS)
    loop = asyncio.get_running_loop()

    [died] = await loop.run_in_executor(None, dying.hear, "died", 30.0 * (1 + times))
    await work_off(app, len(died))

    assert died == [-signal.SIGKILL] * len(numbers), processes.last_words()
    assert await effects.rows() == list(numbers)
    assert [await run.aresult(0) for run in runs] == list(numbers)
    assert [len(await run.asteps()) for run in runs] == [2] * len(runs)
    assert (await app.astats()).totals.succeeded == 2 * len(runs), "no step came to exist twice"


@pytest.mark.parametrize("kills", lengths(6, 100))
async def test_each_effect_happens_once_though_workers_are_killed_again_and_again(
    app: App, url: str, effects: Effects, processes: Processes, kills: int
) -> None:  # F1, F12
    number = kills * 20
    await enqueue(app, range(number))
    loop = asyncio.get_running_loop()

    await loop.run_in_executor(None, processes.start(work_and_be_killed, url, kills).hear, "killed", 30.0 + kills)
    await work_off(app, number)

    await everything_happened_once(app, effects, number)


# On a server that is harmed.


@pytest.fixture
def server() -> Iterator[Postgres]:
    server = Postgres().start()
    yield server
    server.remove()


@pytest.mark.parametrize("seconds", lengths(2, 30))
async def test_each_effect_happens_once_though_connections_are_ended_all_the_time(
    server: Postgres, seconds: float
) -> None:  # F14, I19
    store, app = open_store(server.url), make_app(server.url)
    effects = await Effects.made(server.url, store)
    number = int(seconds) * 150
    await enqueue(app, range(number))
    chance = random.Random(number)

    async def end_connections() -> int:
        ended = 0
        admin = await asyncpg.connect(server.url)
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline or ended <= 10:
            ended += await admin.fetchval(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.5"
            )
            await asyncio.sleep(chance.uniform(0, 0.1))
        await admin.close()
        return ended

    async with app.worker(concurrency=4):
        ended = await end_connections()
    await work_off(app, number)

    assert ended > 10
    await everything_happened_once(app, effects, number)
    await store.close()
    await app.aclose()


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_each_effect_happens_once_though_the_server_dies_again_and_again() -> None:  # F14
    server = Postgres().start()
    loop = asyncio.get_running_loop()
    store, app = open_store(server.url), make_app(server.url)
    effects = await Effects.made(server.url, store)
    await enqueue(app, range(3000))

    async with app.worker(concurrency=4):
        for _ in range(15):
            await asyncio.sleep(random.uniform(0.5, 2))
            await loop.run_in_executor(None, server.stop, signal.SIGQUIT)
            await loop.run_in_executor(None, server.start)
    await work_off(app, 3000)

    await everything_happened_once(app, effects, 3000)
    await store.close()
    await app.aclose()
    server.remove()
