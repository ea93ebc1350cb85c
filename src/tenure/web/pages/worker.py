"""One worker: what it runs, what it may run, and what can be ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tenure.core.checks import name as checked_name
from tenure.jobs.attention import Attention
from tenure.web.page import Address, Page, Region
from tenure.web.pages.workers import RunningJob, WorkerRow, read_jobs_of, read_workers, row_of_worker, running_jobs

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["worker"]


class WorkerHead(msgspec.Struct, frozen=True):
    row: WorkerRow
    attention: tuple[Attention, ...]
    until: float | None
    """Of a missing worker: when the last lease that it is known to hold expires."""


class WorkerJobs(msgspec.Struct, frozen=True):
    worker: str
    jobs: tuple[RunningJob, ...]
    missing: bool
    more: int


async def worker(site: Site, at: Address) -> Page:
    """The worker with this id."""
    id_ = checked_name("worker", at.names["id"])
    snapshot = await site.snapshot()
    registered, now = await read_workers(site)
    info = next((each for each in registered if each.id == id_), None)
    if info is None:
        return Page(
            title="No such worker", kind="worker", regions=(Region("head", "places/no_worker.html", id_),), status=404
        )
    jobs = running_jobs(info, await read_jobs_of(site, info), now)
    row = row_of_worker(info, jobs, now)
    ends = [job.lease_ends for job in jobs if job.lease_ends is not None]
    until = max(ends, default=None) if info.missing else None
    attention = tuple(each for each in snapshot.attention or () if each.worker == id_)
    return Page(
        title=f"{id_} ({row.label.replace('_', ' ')})",
        kind="worker",
        every=1.5,
        regions=(
            Region("head", "places/worker_head.html", WorkerHead(row, attention, until)),
            Region("jobs", "places/worker_jobs.html", WorkerJobs(id_, jobs, info.missing, row.more_jobs)),
            Region("tasks", "places/worker_tasks.html", info.tasks),
        ),
    )
