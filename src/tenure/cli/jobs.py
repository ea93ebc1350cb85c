"""Jobs: finding them, and looking at one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, job_document, json_option
from tenure.cli.refusal import note
from tenure.job import State

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.job import JobRecord, Progress

__all__ = ["job", "jobs"]


@click.command()
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only jobs in this state.")
@click.option("-q", "--queue", help="Only jobs of this queue.")
@click.option("--task", help="Only jobs of this task.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@click.option("--cursor", help="Go on where an earlier listing ended.")
@json_option
@with_app()
async def jobs(
    app: App,
    state: str | None,
    queue: str | None,
    task: str | None,
    tag: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List jobs: the newest first, or in line with --state waiting."""
    from tenure.cli import display

    page = await app.ajobs(state=state, queue=queue, task=task, tag=tag, limit=limit, cursor=cursor)
    records = [job.record for job in page if job.record is not None]
    if as_json:
        return emit({"jobs": [job_document(record) for record in records], "cursor": page.cursor})
    if records:
        listing = display.table(
            "id", ("task", "gives"), ("queue", "gives"), "state", ("created", "right"), ("", "gives")
        )
        for job in records:
            listing.add_row(
                display.text(job.id),
                display.text(job.task),
                display.text(job.queue),
                display.state(job.label),
                display.text(display.distance(job.created_at)),
                display.remark(_remark(job)),
            )
        display.console().print(listing)
    else:
        note("no such job found")
    if page.cursor is not None:
        note(f"there are more: --cursor {page.cursor}")
    return None


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
@with_app()
async def job(app: App, job_id: str, as_json: bool) -> None:
    """Show everything about one job."""
    from tenure.cli import display

    found = (await app.ajob(job_id)).record
    assert found is not None
    if as_json:
        return emit(job_document(found))
    facts = display.table("", "")
    facts.show_header = False
    facts.add_row(display.text("job", "bold"), display.text(found.id))
    facts.add_row(display.text("state", "bold"), display.state(found.label))
    for name, value in _facts(found):
        facts.add_row(display.text(name, "bold"), display.lines(value))
    return display.console().print(facts)


def _facts(job: JobRecord) -> Iterator[tuple[str, str]]:
    """What there is to say about a job, most wanted first; nothing about what it does not have."""
    from tenure.cli.display import duration, moment

    yield "task", job.task
    yield "queue", job.queue + (f", priority {job.priority}" if job.priority else "")
    if job.run_id is not None:
        yield "run", job.run_id
    if job.tags:
        yield "tags", ", ".join(job.tags)
    if job.unique is not None:
        yield "unique", job.unique
    limit = f" of {job.max_attempts}" if job.max_attempts else ""
    yield "attempt", f"{job.attempt}{limit}" + (f", {job.losses} lost" if job.losses else "")
    yield "created", moment(job.created_at)
    if job.run_at is not None:
        yield "due", moment(job.run_at)
    if job.expires_at is not None and not job.state.final:
        yield "expires", moment(job.expires_at)
    if job.started_at is not None:
        yield "started", moment(job.started_at)
    if job.ended_at is not None:
        yield "ended", moment(job.ended_at)
    if job.worker is not None:
        yield "worker", job.worker
    if job.lease_left is not None:
        yield "lease", f"{duration(job.lease_left)} left" if job.lease_left > 0 else "expired"
    if job.progress is not None:
        yield "progress", _progress(job.progress)
    if job.blocked_by:
        yield "waits for", f"{job.blocked_by} jobs"
    yield "payload", repr(job.payload) if job.raw else job.payload.decode(errors="backslashreplace")
    if job.result is not None:
        yield "result", job.result
    if job.error is not None:
        yield "error", f"{job.error.type}: {job.error.message}"
    if job.error is not None and job.error.traceback:
        yield "", job.error.traceback
    if job.error is not None and job.error.output:
        yield "output", job.error.output


def _remark(job: JobRecord) -> str:
    """What one would ask next about a job in this state."""
    from tenure.cli.display import distance

    parts = []
    if job.state is State.WAITING and job.run_at is not None:
        parts.append(f"due {distance(job.run_at)}")
    if job.state is State.RUNNING:
        parts.append(f"on {job.worker}")
        if job.progress is not None:
            parts.append(_progress(job.progress))
    if job.state is State.BLOCKED:
        parts.append(f"waits for {job.blocked_by}")
    if job.attempt > 1:
        parts.append(f"attempt {job.attempt}")
    if job.error is not None:
        parts.append(f"{job.error.type}: {job.error.message}")
    return ", ".join(parts)


def _progress(progress: Progress) -> str:
    total = "" if progress.total is None else f"/{progress.total:g}"
    return f"{progress.done:g}{total}" + (f" {progress.note}" if progress.note else "")
