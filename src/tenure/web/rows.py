"""`JobRow` is a job as a row of a listing; `row_of` makes it."""

from __future__ import annotations

import msgspec

from tenure.core.job import JobRecord, State
from tenure.web.arguments import Naming, brief, unnamed

__all__ = ["JobRow", "row_of"]


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a row of a listing."""

    id: str
    task: str
    queue: str
    label: str
    arguments: str
    attempt: str
    at: float | None
    """The instant that matters in its state."""

    at_kind: str
    worker: str
    says: str


def row_of(job: JobRecord, show: str, naming: Naming = unnamed) -> JobRow:
    """A job as a row."""
    at, kind = _instant(job)
    limit = job.max_attempts
    error = "" if job.error is None else f"{job.error.type}: {job.error.message}".partition("\n")[0]
    progress = "" if job.progress is None or job.progress.percent is None else f"{job.progress.percent:.0f} %"
    return JobRow(
        id=job.id,
        task=job.task,
        queue=job.queue,
        label=job.label,
        arguments=brief(job, show, naming),
        attempt="" if not job.attempt else f"{job.attempt} of {limit}" if limit else str(job.attempt),
        at=at,
        at_kind=kind,
        worker=job.worker or "" if job.state is State.RUNNING else "",
        says=progress if job.state is State.RUNNING and progress else error if job.state is not State.SUCCEEDED else "",
    )


def _instant(job: JobRecord) -> tuple[float | None, str]:
    if job.ended_at is not None:
        return job.ended_at, "ended"
    if job.state is State.RUNNING:
        return job.started_at, "started"
    if job.run_at is not None:
        return job.run_at, "due"
    return job.created_at if job.ready_at is None else job.ready_at, "ready"
