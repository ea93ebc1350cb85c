"""`follow` prints jobs as they end, one line each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from typing import TYPE_CHECKING

import click

from tenure.cli.messages import CommandError, print_message
from tenure.documents import job_document

if TYPE_CHECKING:
    from datetime import datetime

    from tenure.app import App
    from tenure.core.job import JobRecord

__all__ = ["follow"]

ENDS = ("succeeded", "failed", "broken", "cancelled", "expired", "completed")
"""The events after which a job is final."""


async def follow(
    app: App,
    as_json: bool,
    *,
    state: str | None,
    queue: str | None,
    task: str | None,
    limit: int | None,
    before: datetime | None,
    scheduled: bool | None,
    **filters: str | None,
) -> None:
    """Print jobs that match all of these as they end, until Ctrl-C or until `limit` are printed."""
    from tenure.core.job import State
    from tenure.events import JobEvent
    from tenure.stores import masked

    if state is not None and not State(state).final:
        raise CommandError(f"--follow shows jobs as they end, and no job ends {state}: leave --state out")
    if before is not None or scheduled is not None:
        raise CommandError("--follow shows jobs as they end: leave --before, --scheduled and --in-line out")
    here = asyncio.current_task()
    assert here is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, here.cancel)
    shown = 0
    with contextlib.suppress(asyncio.CancelledError):
        async with app.watch(queue=queue, task=task, kinds=ENDS) as events:
            print_message(f"following {masked(app.url)}, Ctrl-C stops it")
            async for event in events:
                assert isinstance(event, JobEvent)
                [job] = await app.internals.session.store.get([event.job_id])
                # A job that is not kept is gone by now, and one that was retried has not ended.
                if job is None or not job.state.final or not _matches(job, state, **filters):
                    continue
                _show(job, as_json)
                shown += 1
                if shown == limit:
                    break


def _matches(
    job: JobRecord,
    state: str | None,
    *,
    tag: str | None,
    schedule: str | None,
    error: str | None,
    text: str | None,
    worker: str | None,
) -> bool:
    return (
        state in (None, job.state)
        and (tag is None or tag in job.tags)
        and schedule in (None, job.schedule)
        and worker in (None, job.worker)
        and (error is None or (job.error is not None and job.error.type == error))
        and (text is None or _contains(job, text))
    )


def _contains(job: JobRecord, text: str) -> bool:
    error = () if job.error is None else (job.error.type, job.error.message)
    return text.encode() in job.payload or any(text in part for part in error)


def _show(job: JobRecord, as_json: bool) -> None:
    if as_json:
        return click.echo(json.dumps(job_document(job)).replace("\x7f", "\\u007f"))
    from tenure.cli import display

    line = display.text(display.instant(job.ended_at or job.created_at), "dim").append("  ")
    line.append(display.text(f"{job.state:<9}", display.STATE_STYLES[job.state]))
    line.append(display.text(f"  {job.task}  {job.queue}  {job.id}"))
    if job.started_at is not None and job.ended_at is not None:
        line.append(display.text(f"  ran {display.duration(max(job.ended_at - job.started_at, 0.0))}", "dim"))
    if job.error is not None:
        line.append(display.text(f"  {job.error.type}: {job.error.message}", "red"))
    return display.console().print(line, soft_wrap=True)
