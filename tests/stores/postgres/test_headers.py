"""Headers on PostgreSQL, by each of the ways in which a job is stored."""

from __future__ import annotations

import pytest

from tenure.core.job import NewJob, RunStep
from tenure.testing.conformance.run_scene import a_start
from tenure.testing.conformance.run_transactions import enqueue_in, settle_in
from tenure.testing.conformance.scene import a_job, enqueue, lease, lease_one, settle, success

from .conftest import MakeStore

TENANT, OTHER = {"tenant": "Zoë “1”"}, {"tenant": "t2", "b": ""}

WAYS: dict[str, list[NewJob]] = {
    "single": [a_job(headers=TENANT)],
    "alike": [a_job(headers=TENANT) for _ in range(3)],
    "new": [a_job(headers=TENANT), a_job(headers=OTHER), a_job()],
    "starts": [a_start(headers=TENANT), a_job(headers=OTHER), a_job()],
    "special": [a_job(headers=TENANT, unique="k"), a_job(headers=OTHER), a_job()],
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_headers_are_stored_in_every_way(make_store: MakeStore, way: str, inside: bool) -> None:
    store, jobs = make_store(), WAYS[way]
    await store.open()
    if inside:
        own = await store.begin()
        await enqueue_in(own, store, *jobs)
        await own.commit()
    else:
        await enqueue(store, *jobs)

    leased = {each.job.id: each.job.headers for each in await lease(store)}

    assert leased == {job.id: job.headers for job in jobs}
    found = await store.get([job.id for job in jobs])
    assert [job and job.headers for job in found] == [job.headers for job in jobs]


@pytest.mark.parametrize("inside", [False, True])
async def test_a_successor_that_waits_for_children_has_its_headers(make_store: MakeStore, inside: bool) -> None:
    store = make_store()
    [run_id] = await enqueue(store, a_start())
    first = await lease_one(store)
    children = [a_job(headers=TENANT, queue="c"), a_job(headers=TENANT, queue="c")]
    successor = a_job(headers=OTHER, after=tuple(child.id for child in children), step=RunStep(run_id=run_id, flow="f"))
    finish = success(children=tuple(children), successor=successor)
    if inside:
        own = await store.begin()
        await settle_in(own, store, first, finish)
        await own.commit()
    else:
        await settle(store, first, finish)

    assert [each.job.headers for each in await lease(store, "c")] == [TENANT, TENANT]
    [waiting] = await store.get([successor.id])
    assert waiting is not None
    assert (waiting.state, waiting.headers) == ("blocked", OTHER)
