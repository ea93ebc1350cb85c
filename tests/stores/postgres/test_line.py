"""Who stands first in line gets out first, whatever else is done to him in that moment; and how much of the line is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tenure.core.job import State
from tenure.core.lease import AbortReason, Lease
from tenure.core.lifecycle import RELEASE, Finish
from tenure.stores.postgres import settling
from tenure.stores.values import UNCHANGED, Renewal
from tenure.testing.conformance.scene import ask, record
from tests.faults.clients import a_job, take

from .conftest import MakeStore


async def test_a_job_whose_result_somebody_begins_to_wait_for_is_not_passed_over(
    make_store: MakeStore, sql: Any
) -> None:  # I8
    store = make_store()
    first, second = await store.enqueue([a_job(), a_job()])
    async with sql.transaction():
        await sql.fetch("SELECT * FROM wait_for($1, 'a channel')", [first.id])

        assert [lease.job.id for lease in await take(store)] == [first.id]

    assert [lease.job.id for lease in await take(store)] == [second.id]


async def test_a_job_that_was_given_back_while_it_was_renewed_is_not_passed_over(
    make_store: MakeStore, sql: Any
) -> None:  # I9
    store = make_store()
    first, _ = await store.enqueue([a_job(), a_job()])
    [lease] = await take(store)
    await store.settle([(lease, RELEASE)])
    async with sql.transaction():
        assert await renew(sql, [lease]) == ["waiting"]

        assert [lease.job.id for lease in await take(store)] == [first.id]


@pytest.mark.parametrize("how", [{"solo": True}, {"isolated": ("task",)}])
async def test_who_is_too_late_for_a_suspect_gets_what_is_in_line(
    make_store: MakeStore, sql: Any, how: dict[str, Any]
) -> None:  # F6
    store = make_store()
    suspect, other = await store.enqueue([a_job(), a_job()])
    await sql.execute("UPDATE live SET losses = 2, suspect = true WHERE seq = 1")
    async with sql.transaction():
        await sql.fetch("SELECT * FROM lease_jobs(NULL, '{q}', 1, 'quicker', 30, 1, true, NULL)")

        leased = await ask(store, limit=2, **how)

    assert [(lease.job.id, lease.solo) for lease in leased.leases] == [(other.id, False)]
    assert (await record(store, suspect.id)).worker == "quicker"


async def test_what_a_reaper_is_about_to_take_is_not_renewed(make_store: MakeStore, sql: Any) -> None:  # I4, F8
    store = make_store()
    await store.enqueue([a_job()])
    [lease] = await take(store, ttl=0.01)
    async with sql.transaction():
        while not await sql.fetch("SELECT * FROM reap(NULL, '{q}', 10)"):
            pass

        assert await store.renew([Renewal(lease, ttl=30)]) == [AbortReason.TAKEN]

    assert await store.renew([Renewal(lease, ttl=30)]) == [AbortReason.TAKEN]


async def test_what_is_locked_is_held_no_longer_than_before_and_not_said_to_be(
    make_store: MakeStore, sql: Any
) -> None:  # I4, F8
    store = make_store()
    await store.enqueue([a_job()])
    [lease] = await take(store, ttl=30)
    until = "SELECT lease_until FROM live"
    before = await sql.fetchval(until)
    async with sql.transaction():
        await sql.execute("SELECT FROM live FOR UPDATE")

        assert await store.renew([Renewal(lease, ttl=60)]) == [UNCHANGED]

    assert await sql.fetchval(until) == before
    assert await store.renew([Renewal(lease, ttl=60)]) == [None]
    assert await sql.fetchval(until) > before


@pytest.mark.parametrize("settles", [True, False], ids=["settle", "renew"])
async def test_only_the_jobs_in_question_are_looked_at_however_many_run(
    make_store: MakeStore, sql: Any, settles: bool
) -> None:
    store = make_store()
    await store.enqueue([a_job() for _ in range(1000)])
    leases = (await take(store, limit=1000))[::50]
    async with sql.transaction():
        assert await (settle if settles else renew)(sql, leases) is None
        looked_at = await sql.fetchval(
            "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'live' AND schemaname = current_schema()"
        )

    assert looked_at < 10 * len(leases)


async def settle(sql: Any, leases: Sequence[Lease]) -> Any:
    values = settling.settle_all_arguments([(lease, Finish(State.SUCCEEDED, "null")) for lease in leases])
    parameters = ", ".join(f"${at}" for at in range(1, len(values) + 1))
    return await sql.fetchval(f"SELECT settle_all(NULL, {parameters})", *values)


async def renew(sql: Any, leases: Sequence[Lease]) -> Any:
    held = [(lease.number, lease.job.id, lease.token.fence, lease.token.nonce, lease.ttl, None) for lease in leases]
    return await sql.fetchval("SELECT renew(NULL, $1, $2, $3, $4, $5, $6)", *map(list, zip(*held, strict=True)))
