"""Behind pgbouncer, where each transaction gets another connection: nothing that the store does outlives its transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.core.job import Writes
from tenure.core.lease import new_nonce
from tenure.stores.callers import Work
from tenure.stores.postgres.store import PostgresStore
from tenure.stores.values import OK, LeaseRequest
from tenure.testing.conformance.run_scene import a_start, a_successor
from tenure.testing.conformance.scene import (
    SUCCEED,
    a_job,
    a_worker,
    assert_counters_equal_a_recount,
    counts,
    lease_one,
    settle,
    success,
)
from tests.servers.postgres import Pooler

from .soundness import unsound_at


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    server, _, options = postgres_url.partition("?")
    pooler = Pooler(server)
    yield f"{pooler.url}?{options}&pooled=true"
    pooler.remove()


async def test_runs_hand_over_in_transactions_and_without(pooled_url: str) -> None:  # F14, I13
    stores = [PostgresStore.from_url(pooled_url) for _ in range(5)]

    async def inside(store: PostgresStore, work: Work[Any]) -> Any:
        own = await store.begin()
        answer = await own.caller.arun(work)
        await own.commit()
        return answer

    async def work(number: int) -> str:
        store, queue = stores[number], f"q{number}"
        await store.open()
        start = a_start({"n": str(number)}, queue=queue, reads=("n",), unique=f"k{number}")
        [answer] = await inside(store, store.enqueueing([start]))
        assert not answer.duplicate
        for step in range(6):
            leased = await lease_one(store, queue)
            assert leased.job.attributes == {"n": str(number)} | ({"step": str(step)} if step else {})
            successor = a_successor(start.id, queue=queue, reads=("n", "step"), needs=("n", "step"))
            finish = success("null", successor=successor, writes=Writes({"step": str(step + 1)}))
            verdict = (
                await inside(store, store.settling((leased, finish)))
                if step % 2
                else await settle(store, leased, finish)
            )
            assert verdict.kind == "ok"
        assert await store.complete(successor.id, success('"end"')) == OK
        return start.id

    runs = await asyncio.gather(*map(work, range(5)))

    for run_id in runs:
        run = await stores[0].run(run_id)
        assert run is not None
        assert (run.step.result, len((await stores[0].steps(run_id)).jobs)) == ('"end"', 7)
    await assert_counters_equal_a_recount(stores[0])
    assert await unsound_at(pooled_url) == []
    for store in stores:
        await store.close()


async def test_many_share_two_connections(pooled_url: str) -> None:  # F14
    stores = [PostgresStore.from_url(pooled_url) for _ in range(5)]

    async def work(number: int) -> None:
        store = stores[number]
        await store.register(a_worker(f"w{number}"))
        for _ in range(5):
            await store.enqueue([a_job(), a_job(unique=f"k{number}")])
            request = LeaseRequest(queues=("q",), limit=2, worker=f"w{number}", ttl=30.0, nonce=new_nonce())
            leases = (await store.lease(request)).leases
            assert {verdict.kind for verdict in await store.settle([(each, SUCCEED) for each in leases])} <= {"ok"}

    await asyncio.gather(*map(work, range(5)))

    info = await counts(stores[0])
    assert info.succeeded == info.totals.succeeded > 0
    await assert_counters_equal_a_recount(stores[0])
    for store in stores:
        await store.close()
