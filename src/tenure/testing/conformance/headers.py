"""Tests of headers: short texts that travel with a job."""

from __future__ import annotations

import json

from tenure.core.job import RunStep, State
from tenure.core.schedule import Firing, SchedulePut
from tenure.stores.base import Store
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.run_scene import a_start, hand_over
from tenure.testing.conformance.scene import (
    RELEASE,
    RETRY,
    SUCCEED,
    PutIn,
    a_job,
    enqueue,
    everything,
    lease,
    lease_one,
    record,
    settle,
    success,
)

__all__ = ["Headers"]

TENANT = {"tenant": "t1"}


class Headers:
    async def test_headers_come_back_with_every_record(self, store: Store, clock: ManualClock) -> None:
        [plain] = await enqueue(store, a_job(headers=TENANT))
        [later] = await enqueue(store, a_job(headers=TENANT, delay=1.0))
        [waits] = await enqueue(store, a_job(headers=TENANT, after=(plain,)))
        [keyed] = await enqueue(store, a_job(headers=TENANT, unique="k", queue="x"))
        for job_id in (plain, later, waits, keyed):
            assert (await record(store, job_id)).headers == TENANT
        assert [job.headers for job in await everything(store)] == [TENANT] * 4
        clock.advance(1)

        first, second = await lease(store)
        await settle(store, first, RELEASE)
        await settle(store, second, RETRY)
        again = await lease_one(store)
        await settle(store, again, SUCCEED)
        third, fourth = await lease(store)

        for leased in (first, second, again, third, fourth):
            assert leased.job.headers == TENANT
        assert (await record(store, again.job.id)).headers == TENANT
        await store.retry([again.job.id])
        assert (await lease_one(store)).job.headers == TENANT

    async def test_a_job_without_headers_has_none(self, store: Store) -> None:
        [plain] = await enqueue(store)
        assert (await record(store, plain)).headers is None

        leased = await lease_one(store)

        assert leased.job.headers is None
        await settle(store, leased, SUCCEED)
        assert [job.headers for job in await everything(store)] == [None]

    async def test_headers_are_kept_as_they_were_given(self, store: Store) -> None:
        headers = {
            "b": "",
            "a-1": "Zoë “quoted” 😀\\ \n",
            **{f"name-{number}": str(number) for number in range(12)},
            "long": "x" * 1500,
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        }
        [job_id, other] = await enqueue(store, a_job(headers=headers), a_job())

        leased, plain = await lease(store)

        assert leased.job.headers == headers == (await record(store, job_id)).headers
        assert plain.job.headers is None
        assert (await record(store, other)).headers is None

    async def test_headers_are_part_of_no_unique_key(self, store: Store) -> None:
        [first] = await enqueue(store, a_job(unique="k", headers=TENANT))

        [second] = await store.enqueue([a_job(unique="k", headers={"tenant": "t2"})])

        assert (second.id, second.duplicate) == (first, True)
        assert (await record(store, first)).headers == TENANT

    async def test_an_entry_of_an_inbox_may_have_headers(self, store: Store, put_in: PutIn) -> None:
        await put_in("q", json.dumps({"task": "t", "headers": {"tenant": "Zoë"}}).encode())
        await put_in("q", json.dumps({"task": "t"}).encode())
        await put_in("q", json.dumps({"task": "t", "headers": {"No Name": "x"}}).encode())

        assert await store.take_in(["q"]) == 3

        first, second = await lease(store)
        assert (first.job.headers, second.job.headers) == ({"tenant": "Zoë"}, None)
        assert [job.state for job in await everything(store)].count(State.BROKEN) == 1

    async def test_children_and_successors_have_the_headers_that_they_were_given(self, store: Store) -> None:
        [run_id] = await enqueue(store, a_start(headers=TENANT))
        first = await lease_one(store)
        assert first.job.headers == TENANT

        second = await hand_over(store, first, headers={"tenant": "t2"})

        leased = await lease_one(store)
        assert (leased.job.id, leased.job.headers) == (second, {"tenant": "t2"})
        child, plain = a_job(headers=TENANT, queue="x"), a_job(queue="x")
        await settle(store, leased, success(children=(child, plain)))
        assert [each.job.headers for each in await lease(store, "x")] == [TENANT, None]
        run = await store.run(run_id)
        assert run is not None
        assert run.step.headers == {"tenant": "t2"}
        assert [step.headers for step in (await store.steps(run_id)).jobs] == [TENANT, {"tenant": "t2"}]

    async def test_jobs_of_schedules_have_the_headers_of_their_schedule(self, store: Store) -> None:
        await store.put_schedules([SchedulePut(name="s", if_version=0, settings="{}", next=0.0)])
        plain, started = a_job(headers=TENANT), a_start(headers=TENANT, queue="x")
        assert isinstance(started.step, RunStep)

        await store.fire([Firing(name="s", version=1, jobs=((1.0, plain), (2.0, started)))])

        assert (await lease_one(store)).job.headers == TENANT
        assert (await lease_one(store, "x")).job.headers == TENANT
