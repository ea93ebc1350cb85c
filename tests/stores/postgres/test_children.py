"""Jobs that come together, by whichever way they go: alike or not, waited for by the next step or not."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.job import NewJob, State, new_id
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish
from tenure.stores.postgres.records import are_alike
from tenure.stores.postgres.store import PostgresStore
from tenure.testing.conformance.run_scene import a_start, a_successor
from tenure.testing.conformance.scene import a_job, counts, enqueue, lease, lease_one, record, settle, success

from .conftest import MakeStore
from .soundness import unsound

CHILDREN = {
    "alike": [a_job(queue="c", payload=b'{"args":[%d]}' % number, tags=("t",), priority=2) for number in range(3)],
    "of several tasks": [a_job(queue="c", task=task) for task in "tuv"],
    "one with a key": [a_job(queue="c"), a_job(queue="c", unique="k"), a_job(queue="c")],
}
AFTER = {"all": [0, 1, 2], "in another order": [2, 0, 1], "one": [1], "one twice": [0, 1, 1, 2]}


def renewed(job: NewJob, **changes: Any) -> NewJob:
    return a_job(**{name: getattr(job, name) for name in NewJob.__struct_fields__} | {"id": new_id()} | changes)


async def a_join(store: PostgresStore, children: str, after: str, **options: Any) -> tuple[Lease, Finish]:
    """A first step that is held, and its end: with children, some of which the next step waits for."""
    await enqueue(store, a_start({}, queue="q", **options))
    held = await lease_one(store)
    jobs = [renewed(job) for job in CHILDREN[children]]
    awaited = tuple(jobs[at].id for at in AFTER[after])
    successor = a_successor(held.job.run_id or "", queue="q", after=awaited, delay=0.0, priority=1)
    return held, success("null", children=tuple(jobs), successor=successor)


@pytest.mark.parametrize("children", CHILDREN)
@pytest.mark.parametrize("after", AFTER)
async def test_the_next_step_waits_for_the_children_that_it_names(
    make_store: MakeStore, sql: Any, children: str, after: str
) -> None:  # I13
    store = make_store()
    held, end = await a_join(store, children, after, unique="run")
    assert end.successor is not None

    assert (await settle(store, held, end)).kind == "ok"
    assert await unsound(sql) == []
    assert await store.blockers(end.successor.id) == list(end.successor.after)
    assert (await settle(store, held, end)).kind == "ok", "again"
    assert await lease(store) == []
    leased = await lease(store, "c", limit=3)
    assert [each.job.payload for each in leased] == [job.payload for job in CHILDREN[children]]
    await store.settle([(each, success(f'"{each.job.id}"')) for each in leased])

    [joined] = await lease(store)
    assert joined.job.results == tuple(f'"{id_}"' for id_ in end.successor.after)
    assert (joined.job.id, joined.job.priority, joined.job.run_id) == (end.successor.id, 1, held.job.run_id)
    assert await unsound(sql) == []


async def test_children_whose_ids_exist_are_those(make_store: MakeStore, sql: Any) -> None:  # I2
    store = make_store()
    held, end = await a_join(store, "alike", "all")
    assert end.successor is not None
    await store.enqueue([end.children[1]])

    assert (await settle(store, held, end)).kind == "ok"

    assert (await counts(store, "c")).waiting == 3
    assert await store.blockers(end.successor.id) == [job.id for job in end.children]
    assert await unsound(sql) == []


async def test_jobs_that_are_alike_are_stored_as_each_is(make_store: MakeStore) -> None:
    store = make_store()
    options = {"priority": 3, "tags": ("a", "b"), "keep": 5.0, "lease": 7.0, "max_attempts": 4, "max_losses": 2}
    jobs = [a_job(payload=bytes([number]), raw=True, expires=60.0, **options) for number in range(3)]
    later = [a_job(delay=60.0) for _ in range(2)]
    assert are_alike(jobs)
    assert are_alike(later)
    assert not are_alike([*jobs, *later])

    await store.enqueue(jobs)
    await store.enqueue(later)

    found = [await record(store, job.id) for job in jobs]
    assert [each.payload for each in found] == [b"\0", b"\1", b"\2"]
    assert [each.seq for each in found] == sorted(each.seq for each in found)
    for each in found:
        assert {name: getattr(each, name) for name in options} == options
        assert (each.raw, each.state, each.run_at) == (True, State.WAITING, None)
        assert each.expires_at == pytest.approx(each.created_at + 60)
    for job in later:
        each = await record(store, job.id)
        assert each.run_at == pytest.approx(each.created_at + 60)
    info = await counts(store)
    assert (info.waiting, info.scheduled) == (3, 2)
