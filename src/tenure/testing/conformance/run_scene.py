"""Helpers for tests of runs."""

from __future__ import annotations

from typing import Any

from tenure.core.job import JobRecord, NewJob, RunStep, Writes, new_id
from tenure.core.lease import Lease
from tenure.core.lifecycle import Finish
from tenure.stores.base import Store
from tenure.stores.values import OK, RunRecord, RunSearch
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import a_job, enqueue, lease_one, settle, success

__all__ = ["a_run", "a_start", "a_successor", "found", "hand_over", "handing_over", "run_record", "start", "steps"]


def a_start(
    attributes: dict[str, str] | None = None, lookups: dict[str, tuple[str, ...]] | None = None, **changes: Any
) -> NewJob:
    """The first step of a run of flow `f`."""
    id_ = changes.pop("id", None) or new_id()
    reads, flow = changes.pop("reads", ()), changes.pop("flow", "f")
    step = RunStep(run_id=id_, flow=flow, reads=reads, writes=Writes(attributes or {}, lookups or {}))
    return a_job(**{"id": id_, "task": "f.one", "step": step} | changes)


def a_successor(run_id: str, **changes: Any) -> NewJob:
    """A further step of this run."""
    reads, needs, flow = changes.pop("reads", ()), changes.pop("needs", ()), changes.pop("flow", "f")
    step = RunStep(run_id=run_id, flow=flow, reads=reads, needs=needs)
    return a_job(**{"task": "f.two", "step": step} | changes)


def handing_over(to: NewJob, attributes: dict[str, str] | None = None, **more: Any) -> Finish:
    writes = Writes(attributes or {}, more.pop("lookups", {}))
    return success("null", successor=to, writes=writes, **more)


async def hand_over(store: Store, leased: Lease, **changes: Any) -> str:
    """Let a step hand over; returns the id of its successor."""
    assert leased.job.run_id is not None
    successor = a_successor(leased.job.run_id, **changes)
    assert await settle(store, leased, handing_over(successor)) == OK
    return successor.id


async def start(store: Store, *args: Any, **changes: Any) -> str:
    [run_id] = await enqueue(store, a_start(*args, **changes))
    return run_id


async def a_run(store: Store, clock: ManualClock | None = None, **changes: Any) -> tuple[str, str]:
    """Start a run whose first step hands over; returns the ids of both steps."""
    run_id = await start(store, **changes)
    return run_id, await hand_over(store, await lease_one(store))


async def run_record(store: Store, run_id: str) -> RunRecord:
    found = await store.run(run_id)
    assert found is not None, f"there is no run {run_id}"
    return found


async def steps(store: Store, run_id: str) -> list[JobRecord]:
    return (await store.steps(run_id, limit=100)).jobs


async def found(store: Store, **search: Any) -> list[str]:
    """The ids of the runs in all pages of a listing."""
    ids: list[str] = []
    cursor = None
    while True:
        page = await store.runs(RunSearch(**{"limit": 100} | search, cursor=cursor))
        ids += [run.id for run in page.runs]
        if (cursor := page.cursor) is None:
            return ids
