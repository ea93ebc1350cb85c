"""Workers that others take for themselves, and workers that are taken for dead."""

from __future__ import annotations

import asyncio
import signal

from tenure import App
from tenure.stores.base import Store
from tenure.worker.worker import Worker

from .cluster import Cluster
from .conftest import on_one


@on_one
def test_workers_of_equal_hosts_and_pids_leave_each_others_jobs_alone(cluster: Cluster) -> None:  # F9, I12
    program = "tests.faults.namesakes:app"
    [live] = cluster.enqueue("nap", 2, queue="live")
    [orphan] = cluster.enqueue("nap", 0.5, queue="dying")
    healthy = cluster.worker("-q", "live", target=program, lease=5)  # renewed once, also on a busy machine
    victim = cluster.worker("-q", "dying", target=program)
    for job in (live, orphan):
        cluster.wait_for_start(job)
    victim.kill()
    heir = cluster.worker("-q", "live,dying", target=program, lease=20)

    records = cluster.wait_for_end()

    assert {(worker.host, worker.pid) for worker in cluster.app.workers()} == {("box", 1)}
    assert (records[live.id].attempt, records[live.id].losses) == (1, 0)
    assert live.result(timeout=1) == str(healthy.pid)
    assert (records[orphan.id].attempt, records[orphan.id].losses) == (2, 1)
    assert orphan.result(timeout=1) == str(heir.pid)
    heir.send(signal.SIGTERM)
    assert heir.wait() == 0
    [after] = cluster.enqueue("nap", 0, queue="live")
    assert after.result(timeout=10) == str(healthy.pid), "who leaves takes nobody else along"
    assert cluster.violations() == []


async def test_what_a_retired_worker_takes_before_it_knows_is_given_back(url: str, store: Store) -> None:  # T2, I7, I12
    app = App(url, lease=30)

    @app.task
    async def nap() -> None:
        await asyncio.sleep(1)

    async with app.worker(beat=0.5, concurrency=3) as worker:
        await retired_while_idle(app, worker)
        naps = await nap.aenqueue_many([()] * 2)
        for job in naps:
            await job.aresult(timeout=20)

    records = await store.get([job.id for job in naps])
    assert [record and (record.state, record.losses, record.attempt) for record in records] == [("succeeded", 0, 1)] * 2
    await app.aclose()


async def retired_while_idle(app: App, worker: Worker) -> None:
    """Retire a worker right after a beat, so that it does not know for a while."""
    while worker.id is None:
        await asyncio.sleep(0.01)
    while (entry := (await app.aworkers())[0]).silent_for > 0.1:
        await asyncio.sleep(0.01)
    assert worker.id == entry.id
    assert await app.aretire(entry.id) == []
