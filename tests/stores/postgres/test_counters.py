"""Counters: rows that are only ever added, and folded without changing a sum."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure.testing.conformance.scene import (
    RETRY,
    SUCCEED,
    a_job,
    a_worker,
    ageless_queues,
    assert_counters_equal_a_recount,
    counts,
    enqueue,
    lease,
)

from .conftest import MakeStore


async def test_folding_leaves_every_sum_as_it_is(make_store: MakeStore, sql: Any) -> None:  # I20
    store = make_store()
    await store.register(a_worker())
    for _ in range(20):
        await enqueue(store, a_job(), a_job())
    leases = await lease(store, limit=30)
    await store.settle([(each, SUCCEED) for each in leases[:20]] + [(each, RETRY) for each in leases[20:]])
    before = await ageless_queues(store), await store.workers()
    rows = await sql.fetchval("SELECT count(*) FROM tallies")

    await store.reap(["q"])

    after = await ageless_queues(store), await store.workers()
    assert after[0] == before[0]
    assert after[1][0].totals == before[1][0].totals
    assert await sql.fetchval("SELECT count(*) FROM tallies") < rows / 2
    await assert_counters_equal_a_recount(store)


async def test_those_who_fold_at_once_count_nothing_twice(make_store: MakeStore) -> None:
    stores = [make_store() for _ in range(4)]

    async def work(number: int) -> None:
        for _ in range(10):
            await enqueue(stores[number], a_job())
            await stores[number].reap(["q"])

    await asyncio.gather(*map(work, range(4)))

    assert (await counts(stores[0])).waiting == 40


async def test_totals_of_a_worker_that_is_gone_are_folded_away(make_store: MakeStore, sql: Any) -> None:  # I16
    store = make_store()
    await store.register(a_worker())
    await enqueue(store)
    await store.settle([(each, SUCCEED) for each in await lease(store)])
    await store.leave("w")
    await store.reap(["q"])

    assert await sql.fetchval("SELECT count(*) FROM tallies WHERE worker IS NOT NULL") == 0
