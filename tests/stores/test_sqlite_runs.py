"""Runs in a SQLite file: what the layout before them makes of their steps, and what a disk or a process that fails leaves of a hand-over."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.core.job import NewJob, State, Writes
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish, Park
from tenure.core.options import Retention
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import OK, RunSearch, Settlement, VerdictKind
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import a_start, a_successor
from tenure.testing.conformance.scene import RETRY, a_job, enqueue, lease, lease_one, line, record, settle, success
from tests.inspection import rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock=clock)
    await store.open()
    yield store
    await store.close()


def handing_over(leased: Lease, **changes: object) -> Finish:
    assert leased.job.run_id is not None
    return success("null", successor=a_successor(leased.job.run_id, **changes), writes=Writes({"a": "1"}))


# What a program of the layout before sees. The statements are its own, word for word.

OLD_JOBS = "SELECT id FROM tenure_jobs WHERE ended_at IS NOT NULL AND queue = 'q' AND state = 'succeeded' AND keep_until IS NULL"
OUTLIVED = "SELECT id FROM tenure_jobs WHERE keep_until IS NOT NULL AND keep_until <= ?1"
PARKED = "SELECT id FROM tenure_jobs WHERE parked_until IS NOT NULL AND parked_until <= ?2 AND queue = ?1"
KEPT = "SELECT count(*) FROM tenure_jobs WHERE keep_until IS NOT NULL AND queue = 'q' AND state IN ('succeeded', 'cancelled')"


async def test_the_layout_before_prunes_no_step_that_has_handed_over(
    path: Path, store: SqliteStore, clock: ManualClock
) -> None:
    await enqueue(store, a_start(), a_start(keep=0.0), a_job())
    one, two, plain = await lease(store)
    await store.settle([(one, handing_over(one)), (two, handing_over(two)), (plain, success())])
    clock.advance(1e6)

    assert rows(path, OLD_JOBS) == [(plain.job.id,)]
    assert rows(path, OUTLIVED, clock.wall()) == []
    assert rows(path, KEPT) == [(2,)], "nor does it count them"


async def test_the_layout_before_fails_no_step_that_is_to_go_on_when_its_time_is_over(
    path: Path, store: SqliteStore, clock: ManualClock
) -> None:
    await enqueue(store, a_start(), a_job())
    step, plain = await lease(store)
    await store.settle([(step, Park(10.0, "f.late")), (plain, Park(10.0))])
    clock.advance(10)

    assert rows(path, PARKED, "q", clock.wall()) == [(plain.job.id,)]
    await store.reap(["q"])
    assert (await record(store, step.job.id)).on_timeout == "f.late"


# Retention, which goes by counters.


async def test_steps_that_have_handed_over_are_not_counted_for_retention(
    path: Path, store: SqliteStore, clock: ManualClock
) -> None:
    jobs = await enqueue(store, *(a_job() for _ in range(3)))
    await store.settle([(one, success()) for one in await lease(store)])
    runs = await enqueue(store, *(a_start() for _ in range(3)))
    for _ in range(4):
        await store.settle([(one, handing_over(one)) for one in await lease(store)])
    clock.advance(1)

    assert await store.prune(Retention(succeeded=1000, failed=1000, count=2), {}) == 1

    assert await store.get(jobs[:1]) == [None], "of three finished jobs the oldest is one too many"
    assert len((await store.runs(RunSearch())).runs) == 3
    assert rows(path, "SELECT succeeded, passed FROM tenure_queues WHERE name = 'q'") == [(14, 12)]
    await store.delete(runs)
    assert rows(path, "SELECT succeeded, passed FROM tenure_queues WHERE name = 'q'") == [(2, 0)]
    assert rows(path, "SELECT count(*) FROM tenure_attributes") == [(0,)]


# Hand-overs that go together, and some that cannot.


async def test_hand_overs_beside_others_keep_the_order_of_the_call(store: SqliteStore) -> None:  # I9
    await enqueue(store, a_start(), a_job(), a_start(), a_job(), a_start())
    held = await lease(store)
    steps: list[Settlement] = [(one, handing_over(one) if one.job.run_id else RETRY) for one in held]

    assert await store.settle(steps) == [OK] * 5

    expected = [step.successor.id if isinstance(step, Finish) and step.successor else one.job.id for one, step in steps]
    assert await line(store) == expected


async def test_a_stale_hand_over_among_many_is_the_only_one_refused(store: SqliteStore, clock: ManualClock) -> None:
    ids = await enqueue(store, *(a_start() for _ in range(10)))
    held = await lease(store)
    await store.cancel([ids[3]])

    verdicts = await store.settle(
        [(one, handing_over(one, needs=("x",) if one.job.id == ids[5] else ())) for one in held]
    )

    kinds = [verdict.kind for verdict in verdicts]
    assert kinds.pop(5) is VerdictKind.REFUSED
    assert kinds.pop(3) is VerdictKind.LEASE_LOST
    assert set(kinds) == {VerdictKind.OK}
    lengths = [len((await store.steps(run_id)).jobs) for run_id in ids]
    assert lengths == [2, 2, 2, 1, 2, 1, 2, 2, 2, 2]


async def test_many_children_that_end_together_let_the_joins_come_in_their_order(store: SqliteStore) -> None:  # I13
    await enqueue(store, a_start(), a_start())
    joins: list[NewJob] = []
    for one in await lease(store):
        assert one.job.run_id is not None
        children = tuple(a_job(queue="c") for _ in range(100))
        joins.append(a_successor(one.job.run_id, after=tuple(child.id for child in children)))
        assert await settle(store, one, success("null", children=children, successor=joins[-1])) == OK
    held = await lease(store, "c", limit=200)
    last_of_each = [held[199], held[99]]

    first = [(one, success(str(number))) for number, one in enumerate(held) if one not in last_of_each]
    assert await store.settle(first) == [OK] * 198
    assert await line(store) == []
    assert await store.settle([(one, success('"last"')) for one in last_of_each]) == [OK] * 2

    assert await line(store) == [joins[1].id, joins[0].id]
    assert (await lease_one(store)).job.results == (*(str(number) for number in range(100, 199)), '"last"')


async def test_an_attribute_is_given_by_its_very_name(store: SqliteStore) -> None:  # G18
    names = ('a"b', ",", "a", "ä", "a\\", "$x", "A")
    [run_id] = await enqueue(
        store, a_start({name: f'"{number}"' for number, name in enumerate(names)}, reads=("a", "b"))
    )
    leased = await lease_one(store)
    assert leased.job.attributes == {"a": '"2"'}
    await settle(store, leased, success("1", successor=a_successor(run_id, reads=(*names, "missing"))))

    assert (await lease_one(store)).job.attributes == {name: f'"{number}"' for number, name in enumerate(names)}


# Several processes.

CHAIN = """
import asyncio, sys
from tenure.core.job import NewJob, RunStep, State, Writes, new_id
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Finish
from tenure.stores.values import LeaseRequest
from tenure.stores.sqlite.store import SqliteStore

def a_job(step):
    return NewJob(id=new_id(), task="f.two", queue="q", step=step, max_losses=0)

def ended(job):
    number = int(job.attributes["n"]) + 1
    writes = Writes({"n": str(number), "by": f'"{sys.argv[2]}"'})
    if number == 20:
        return Finish(State.SUCCEEDED, "null", writes=writes)
    step = RunStep(run_id=job.run_id, flow="f", reads=("n",), needs=("n",))
    return Finish(State.SUCCEEDED, "null", successor=a_job(step), writes=writes)

async def main():
    store = SqliteStore(sys.argv[1])
    print("ready", flush=True)
    while True:
        request = LeaseRequest(queues=("q",), limit=7, worker=sys.argv[2], ttl=1.0, nonce=new_nonce())
        leased = (await store.lease(request)).leases
        await store.settle([(lease, ended(lease.job)) for lease in leased])
        await store.reap(["q"])
        if not leased:
            await asyncio.sleep(0.01)

asyncio.run(main())
"""


async def test_processes_that_hand_over_and_are_killed_leave_every_run_whole(path: Path) -> None:  # F25, I13, F1
    store = SqliteStore(path)
    ids = await enqueue(store, *(a_start({"n": "0"}, reads=("n",), max_losses=0) for _ in range(50)))  # however slow
    workers: list[subprocess.Popen[str]] = []

    def begin() -> None:
        command = [sys.executable, "-c", CHAIN, str(path), f"w{len(workers)}"]
        workers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert workers[-1].stdout is not None
        assert workers[-1].stdout.readline() == "ready\n"

    async def total() -> int:
        return sum(queue.succeeded for queue in await store.queues())

    try:
        begin()
        begin()
        async with asyncio.timeout(60):
            for number in (150, 350, 550):
                while await total() < number:
                    await asyncio.sleep(0.005)
                workers[-2].kill()
                begin()
            while await total() < 50 * 20:
                await asyncio.sleep(0.02)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()

    for run_id in ids:
        steps = (await store.steps(run_id, limit=100)).jobs
        assert [step.successor for step in steps] == [*(step.id for step in steps[1:]), None]
        assert len(steps) == 20
        assert {step.state for step in steps} == {State.SUCCEEDED}
        assert (await store.attributes(run_id))["n"] == "20"
    await store.close()
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "SELECT succeeded, passed, waiting, running FROM tenure_queues WHERE name = 'q'") == [
        (1000, 950, 0, 0)
    ]
