"""The workers: who works, on what, and how well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from tenure.core.job import JobRecord, State
from tenure.stores.values import Order, Totals, WorkerInfo
from tenure.web.page import Address, Page, Region
from tenure.web.paging import Pager, paged

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["RunningJob", "WorkerRow", "read_workers", "row_of_worker", "running_jobs", "workers"]

KEPT = 1.0
"""Seconds for which the list of workers, and the jobs that they run, are shown again."""

LENGTH = 50
"""Workers of a page."""

JOBS_EACH, JOBS = 3, 60
"""Running jobs that are shown of each worker, and of all workers of a page."""


class RunningJob(msgspec.Struct, frozen=True):
    """A job that a worker runs."""

    id: str
    task: str
    queue: str
    started_at: float | None
    percent: float | None
    note: str
    lease_ends: float | None
    """When its lease expires unless it is renewed."""


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, as it is shown. Instants are seconds since the epoch."""

    id: str
    host: str
    pid: int
    label: str
    """Its state in one word: working, quiet, stopping, troubled, missing."""

    says: str
    """What is wrong with it, or what it was told, as a phrase."""

    busy: int
    slots: int
    """0: it has none, or is missing, so that it is not known how many of them are busy."""

    ahead: int
    """Jobs that it has leased ahead."""

    queues: tuple[str, ...]
    lanes: str
    memory: int
    started_at: float
    heard_at: float
    release: str
    totals: Totals
    order: str
    missing: bool
    by_hand: bool
    """Whether it is an app that leases jobs by hand, which obeys no orders."""

    jobs: tuple[RunningJob, ...]
    more_jobs: int


class WorkersView(msgspec.Struct, frozen=True):
    rows: tuple[WorkerRow, ...]
    pager: Pager
    number: int
    missing: int
    busy: int
    slots: int


async def workers(site: Site, at: Address) -> Page:
    """A page of the workers: those in trouble and missing ones first, then by their start."""
    registered, now = await read_workers(site)
    found = sorted(registered, key=lambda each: _label(each) not in {"troubled", "missing"})
    shown, pager = paged(found, at, LENGTH)
    each = min(JOBS_EACH, max(JOBS // max(len(shown), 1), 1))
    records = await _read_jobs(site, [id_ for worker in shown for id_ in worker.jobs[:each]][:JOBS])
    rows = tuple(row_of_worker(worker, running_jobs(worker, records, now), now) for worker in shown)
    missing = sum(worker.missing for worker in found)
    live = [row_of_worker(worker, (), now) for worker in found if not worker.missing]
    view = WorkersView(rows, pager, len(found), missing, sum(row.busy for row in live), sum(row.slots for row in live))
    title = f"({missing}) Workers" if missing else "Workers"
    return Page(title=title, kind="workers", every=1.5, regions=(Region("workers", "places/workers.html", view),))


async def read_workers(site: Site) -> tuple[list[WorkerInfo], float]:
    """The registered workers, and the time of the store when they were read."""

    async def read() -> tuple[list[WorkerInfo], float]:
        return await site.read(site.store.workers()), (await site.snapshot()).now

    return await site.recent.get("workers", KEPT, read)


async def _read_jobs(site: Site, ids: Sequence[str]) -> dict[str, JobRecord]:
    found = await site.read(site.store.get(ids)) if ids else []
    return {job.id: job for job in found if job is not None}


async def read_jobs_of(site: Site, worker: WorkerInfo) -> dict[str, JobRecord]:
    """The jobs that a worker has named with its last beat, by id; those that do not exist any more are left out."""
    return await _read_jobs(site, worker.jobs)


def running_jobs(worker: WorkerInfo, records: dict[str, JobRecord], now: float) -> tuple[RunningJob, ...]:
    """Those of the records that the worker still runs, in the order of their start."""
    found = (records.get(id_) for id_ in worker.jobs)
    return tuple(
        _running(job, now)
        for job in found
        if job is not None and job.state is State.RUNNING and job.worker == worker.id
    )


def _running(job: JobRecord, now: float) -> RunningJob:
    progress = job.progress
    return RunningJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        started_at=job.started_at,
        percent=None if progress is None or progress.percent is None else round(min(max(progress.percent, 0.0), 100.0)),
        note="" if progress is None else progress.note or "",
        lease_ends=None if job.lease_left is None else float(round(now + job.lease_left)),
    )


def row_of_worker(worker: WorkerInfo, jobs: tuple[RunningJob, ...], now: float) -> WorkerRow:
    """A worker as a row, with the jobs that it runs."""
    by_hand = not worker.lanes and not worker.tasks
    busy = min(worker.held, worker.concurrency)
    return WorkerRow(
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        label=_label(worker),
        says=_says(worker),
        busy=busy,
        slots=0 if by_hand or worker.missing else worker.concurrency,
        ahead=0 if by_hand or worker.missing else max(worker.held - busy, 0),
        queues=worker.queues,
        lanes="leases by hand" if by_hand else ", ".join(worker.lanes),
        memory=worker.memory,
        started_at=worker.started_at,
        heard_at=float(round(now - worker.silent_for)),
        release=worker.release,
        totals=worker.totals,
        order=worker.order.value,
        missing=worker.missing,
        by_hand=by_hand,
        jobs=jobs,
        more_jobs=max(busy - len(jobs), 0) if jobs else 0,
    )


def _label(worker: WorkerInfo) -> str:
    if worker.missing:
        return "missing"
    if worker.trouble and worker.order is Order.GO_ON:
        return "troubled"
    return {Order.GO_ON: "working", Order.QUIET: "quiet", Order.STOP: "stopping"}[worker.order]


def _says(worker: WorkerInfo) -> str:
    if worker.missing:
        held = f"{worker.held:,} {'job' if worker.held == 1 else 'jobs'}" if worker.held else "no job"
        return f"it held {held} when it fell silent"
    strays = f"{worker.strays:,} stray {'thread' if worker.strays == 1 else 'threads'}" if worker.strays else ""
    return ", ".join(filter(None, [worker.trouble, strays]))
