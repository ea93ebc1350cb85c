"""Behind pgbouncer, where each transaction gets another connection: nothing that the store does outlives its transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tenure.lease import new_nonce
from tenure.stores.base import LeaseRequest
from tenure.stores.postgres.store import PostgresStore
from tenure.testing.conformance.scene import SUCCEED, a_job, a_worker, assert_counters_equal_a_recount, counts
from tests.servers.postgres import Pooler


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    server, _, options = postgres_url.partition("?")
    pooler = Pooler(server)
    yield f"{pooler.url}?{options}&pooled=true"
    pooler.remove()


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
