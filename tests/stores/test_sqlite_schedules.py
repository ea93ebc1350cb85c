"""Schedules in a SQLite file: jobs that are enqueued together end as if one by one, and a look at what is due stays cheap."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tenure.core.job import NewJob
from tenure.core.schedule import Firing, Overlap, SchedulePut, ScheduleSearch
from tenure.errors import MissingAttribute
from tenure.stores.base import Store
from tenure.stores.memory.store import MemoryStore
from tenure.stores.sqlite.queries import sql
from tenure.stores.sqlite.store import SqliteStore
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import a_start
from tenure.testing.conformance.scene import SUCCEED, a_job, enqueue, lease, line
from tests.inspection import counted, recounted, rows

NAMES = "abcdefgh"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock)
    yield store
    await store.close()


def some_firings(chance: random.Random, versions: dict[str, int], known: list[str], number: int) -> list[Firing]:
    """Firings of one call: of several schedules, some twice, some of an old version, with unique keys that they share."""
    firings: list[Firing] = []
    older = sorted(set(known))
    for name in chance.choices(NAMES, k=chance.randint(1, 10)):
        overlap = chance.choice(list(Overlap))
        version = versions.get(name, 1)
        current = chance.random() < 0.9
        versions[name] = version + current
        jobs: list[tuple[float, NewJob]] = []
        for tick in range(chance.randint(1, 3) if overlap is Overlap.ALLOW else 1):
            job_id = f"{number}-{len(firings)}-{tick}"
            if older and chance.random() < 0.1:
                job_id = older.pop(chance.randrange(len(older)))
            options: dict[str, Any] = {"id": job_id, "delay": chance.choice([0.0, 0.0, 60.0])}
            if chance.random() < 0.4:
                options["unique"] = chance.choice("xyz")
            known.append(job_id)
            jobs.append((float(tick), a_job(**options)))
        firings.append(
            Firing(name=name, version=version if current else version + 7, jobs=tuple(jobs), overlap=overlap, next=9.0)
        )
    return firings


async def state_of(store: Store, known: list[str]) -> object:
    """All that a caller can see of the schedules and the jobs, but for the time of day and the seqs."""
    page = await store.schedules(ScheduleSearch())
    jobs = [job and (job.id, job.state, job.fence, job.results, job.blocked_by) for job in await store.get(known)]
    return page.schedules, jobs, await line(store), await store.queues()


@pytest.mark.parametrize("seed", range(20))
async def test_jobs_enqueued_together_end_as_if_one_by_one(
    store: SqliteStore, path: Path, clock: ManualClock, seed: int
) -> None:
    """The memory store enqueues them one by one."""
    chance = random.Random(seed)
    stores: list[Store] = [store, MemoryStore(clock=clock)]
    known: list[str] = ["none"]
    versions: dict[str, int] = {}
    for each in stores:
        await each.put_schedules([SchedulePut(name=name, if_version=0, settings="{}", next=0.0) for name in NAMES])
    for number in range(30):
        firings = some_firings(chance, versions, known, number)
        fired = [await each.fire(firings) for each in stores]
        assert fired[0] == fired[1]
        if chance.random() < 0.3:
            dependent = a_job(id=f"{number}-dependent", after=(firings[0].jobs[0][1].id,))
            if await store.get(list(dependent.after)) != [None]:
                known.append(dependent.id)
                for each in stores:
                    await enqueue(each, dependent)
        leases, ended = chance.randint(1, 3), chance.random() < 0.5
        for each in stores:
            leased = await lease(each, limit=leases)
            if ended:
                await each.settle([(held, SUCCEED) for held in leased])
        seen = [await state_of(each, known) for each in stores]
        assert seen[0] == seen[1]
    assert counted(path) == recounted(path)


async def test_a_job_that_is_refused_leaves_nothing_of_the_call(store: SqliteStore, path: Path) -> None:
    await store.put_schedules([SchedulePut(name=name, if_version=0, settings="{}") for name in "ab"])
    await store.fire([Firing(name="a", version=1, jobs=((1.0, a_job()),))])
    before = await store.schedules(ScheduleSearch())
    jobs = await line(store)
    start = a_start()
    assert start.step is not None
    with pytest.raises(MissingAttribute):
        await store.fire(
            [
                Firing(name="a", version=2, jobs=((2.0, a_job()),), overlap=Overlap.REPLACE),
                Firing(name="b", version=1, jobs=((2.0, replace(start, step=replace(start.step, needs=("x",)))),)),
            ]
        )
    assert (await store.schedules(ScheduleSearch())).schedules == before.schedules
    assert await line(store) == jobs
    assert counted(path) == recounted(path)


PLANS = {
    "next_schedule": ["SEARCH tenure_schedules USING COVERING INDEX tenure_schedules_due (next>?)"],
    "due_schedules": ["SEARCH tenure_schedules USING INDEX tenure_schedules_due (next<?)"],
    "list_schedules": ["SEARCH tenure_schedules USING PRIMARY KEY (name>?)"],
    "move_schedules": ["SEARCH tenure_schedules USING PRIMARY KEY (name=?)"],
}


@pytest.mark.parametrize("query", PLANS)
async def test_no_statement_reads_all_schedules(store: SqliteStore, path: Path, query: str) -> None:
    await store.open()
    plan = [row[3] for row in rows(path, f"EXPLAIN QUERY PLAN {sql[query]}", *[None] * sql[query].count("?"))]
    assert [each for each in plan if "tenure_schedules" in each or "TEMP B-TREE" in each] == PLANS[query]
