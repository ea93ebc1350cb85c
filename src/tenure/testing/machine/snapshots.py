"""`snapshot` reads all that callers can see of a store, in the shape of `Model.snapshot`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tenure.core.job import JobRecord, NewJob, State
from tenure.core.schedule import ScheduleSearch
from tenure.errors import BlockerNotFound, UniqueConflict
from tenure.stores.base import Store
from tenure.stores.values import Action, RunSearch, Search
from tenure.testing.machine.strategies import KEYS, TASKS

__all__ = ["audit", "close_view", "difference", "found", "found_jobs", "snapshot"]

SHOWN = ("state", "attempt", "losses", "fence", "misses", "run_at", "expires_at", "worker", "started_at", "ended_at",
         "lease_left", "result", "error", "progress", "attempts", "blocked_by", "results", "run_id", "successor", "headers", "on_timeout")  # fmt: skip
"""The fields of each job that are compared, besides when it was ready."""


async def snapshot(store: Store, ids: Sequence[str]) -> dict[str, Any]:
    """All that callers can see, without what `close_view`, `found`, `found_jobs`, `blockers` and `edges` read."""
    records = {job.id: job for job in await store.get(ids) if job is not None}
    known = await store.queues()
    listed = await store.search(Search(limit=1000))
    lines = {}
    for queue in known:
        page = await store.search(Search(state=State.WAITING, queue=queue.name, limit=1000))
        lines[queue.name] = [job.id for job in page.jobs]
    workers = await store.workers()
    runs = await store.runs(RunSearch(limit=1000))
    schedules = await store.schedules(ScheduleSearch(limit=1000))
    return {
        "jobs": {
            job_id: {"ready_at": job.created_at if job.ready_at is None else job.ready_at}
            | {name: getattr(job, name) for name in SHOWN}
            for job_id, job in records.items()
        },
        "newest first": [job.id for job in listed.jobs],
        "lines": lines,
        "counts": {queue.name: {place: getattr(queue, place) for place in ("scheduled", *State)} for queue in known},
        "oldest": {queue.name: None if queue.oldest is None else round(queue.oldest, 2) for queue in known},
        "totals": {queue.name: _nonzero(queue.totals) for queue in known},
        "paused": {queue.name for queue in known if queue.paused},
        "workers": {
            worker.id: (worker.held, worker.order, worker.silent_for, _nonzero(worker.totals)) for worker in workers
        },
        "keys": {(task, key): holder for task in TASKS for key in KEYS if (holder := await _holder(store, task, key))},
        "runs": [
            (run.id, run.flow, run.created_at, run.step.id, run.step.state, run.completed_queue) for run in runs.runs
        ],
        "schedules": {each.name: each for each in schedules.schedules},
        "audit": await audit(store),
    }


async def close_view(store: Store, run_id: str) -> tuple[list[str], dict[str, str]]:
    """The steps and the attributes of a run."""
    page = await store.steps(run_id, limit=1000)
    return [step.id for step in page.jobs], await store.attributes(run_id)


async def found(store: Store, flow: str, name: str, value: str) -> list[str]:
    """The runs of a flow with this lookup."""
    page = await store.runs(RunSearch(flow=flow, lookup=(name, value), limit=1000))
    return [run.id for run in page.runs]


async def found_jobs(store: Store, search: Search) -> list[JobRecord]:
    """The jobs of all pages of a search."""
    jobs: list[JobRecord] = []
    while True:
        page = await store.search(search)
        assert len(page.jobs) <= min(page.searched, search.limit), page
        assert page.searched <= search.look, page
        jobs += page.jobs
        if page.cursor is None:
            return jobs
        search = replace(search, cursor=page.cursor)


async def audit(store: Store, limit: int = 1000) -> list[Action]:
    """The actions of all pages of the audit."""
    actions: list[Action] = []
    cursor = None
    while True:
        page = await store.actions(limit, cursor)
        assert len(page.actions) <= limit, page
        actions += page.actions
        cursor = page.cursor
        if cursor is None:
            return actions


def _nonzero(totals: Any) -> dict[str, int]:
    return {name: getattr(totals, name) for name in totals.__struct_fields__ if getattr(totals, name)}


async def _holder(store: Store, task: str, key: str) -> str | None:
    """The owner of a unique key, found by a call that is refused in any case, so that it changes nothing."""
    probe = NewJob(id="probe", task=task, queue="probe", unique=key, unique_raises=True)
    impossible = NewJob(id="impossible", task="t", queue="probe", after=("missing",))
    try:
        await store.enqueue([probe, impossible])
    except UniqueConflict as conflict:
        return conflict.holder
    except BlockerNotFound:
        return None
    raise AssertionError("a call that had to be refused was not")


def difference(shown: Any, value: Any) -> str:
    """A text with the parts in which a store differs from the model."""
    if isinstance(shown, dict) and isinstance(value, dict):
        keys = [key for key in shown.keys() | value.keys() if shown.get(key) != value.get(key)]
        return "; ".join(f"{key}: {difference(shown.get(key), value.get(key))}" for key in keys)
    return f"{shown!r}, not {value!r}"
