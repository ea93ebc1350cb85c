"""`follow` prints jobs as they end, one line each; `follow_job` prints the output of one job while it runs."""

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

__all__ = ["follow", "follow_job", "new_part"]

EVERY = 0.5
"""Seconds between two looks at a job that is followed. Its worker writes its output once a second."""

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


async def follow_job(app: App, job: JobRecord, as_json: bool) -> None:
    """Print the output and the progress of a job until it has ended, or until Ctrl-C. Exit code 1 unless it succeeds.

    With `as_json`: the whole job, one object a line, whenever it has changed.
    """
    here = asyncio.current_task()
    assert here is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, here.cancel)
    printer = _Objects() if as_json else _Lines()
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            printer.show(job)
            if job.state.final:
                break
            await asyncio.sleep(EVERY)
            [found] = await app.internals.session.store.get([job.id])
            if found is None:
                raise CommandError(f"job {job.id} is gone: it has ended, and is not kept")
            job = found
    if job.state.final and job.state.value != "succeeded":
        raise click.exceptions.Exit(1)


class _Objects:
    """Prints a job as JSON whenever it has changed."""

    def __init__(self) -> None:
        self._before = ""

    def show(self, job: JobRecord) -> None:
        document = {**job_document(job), "lease_left": None}
        text = json.dumps(document).replace("\x7f", "\\u007f")
        if text != self._before:
            click.echo(text)
        self._before = text


class _Lines:
    """Prints on stdout what a job puts out, and on stderr its state and its progress, as they change."""

    def __init__(self) -> None:
        self._said = ""
        self._fence = 0
        self._output = ""

    def show(self, job: JobRecord) -> None:
        from tenure.cli.jobs import show_progress
        from tenure.core.job import attempts_of

        if job.fence != self._fence:
            self._fence, self._output = job.fence, ""
        tail = job.progress.tail if job.progress is not None else None
        if tail is None and (past := [each for each in attempts_of(job) if each.fence == job.fence]):
            tail = past[-1].output
        if tail:
            click.echo(_escaped_lines(new_part(self._output, tail)), nl=False)
            self._output = tail
        progress = show_progress(job.progress) if job.progress is not None else ""
        error = f": {job.error.type}: {job.error.message}" if job.error is not None and job.state.final else ""
        where = f", attempt {job.attempt} on {job.worker}" if job.state.value == "running" else ""
        says = f"job {job.id} is {job.label}{where}{f', {progress}' if progress else ''}{error}"
        if says != self._said:
            print_message(says)
        self._said = says


def _escaped_lines(text: str) -> str:
    from tenure.core.escape import escaped

    return "".join(f"{escaped(line)}\n" for line in text.split("\n")[: -1 if text.endswith("\n") else None])


def new_part(before: str, now: str) -> str:
    """What an output has more than before, if `before` and `now` are its ends; all of `now` if the two do not meet."""
    if not before:
        return now
    if (at := now.rfind(before)) >= 0:
        return now[at + len(before) :]
    for start in range(1, len(before)):
        if now.startswith(before[start:]):
            return now[len(before) - start :]
    return now
