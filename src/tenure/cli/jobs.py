"""The commands jobs and job: list jobs, and show one with its timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.ids import resolve_id
from tenure.cli.messages import print_message
from tenure.cli.names import QUEUE, TASK
from tenure.cli.values import Ago
from tenure.core.job import State, attempts_of
from tenure.core.origin import user_tags
from tenure.core.redaction import redact
from tenure.documents import job_document, whole_job_document

if TYPE_CHECKING:
    from rich.table import Table

    from tenure.app import App
    from tenure.core.job import AttemptRecord, JobRecord, Progress
    from tenure.stores.values import EdgeInfo

__all__ = [
    "awaited",
    "before_filter",
    "filters",
    "job",
    "jobs",
    "list_jobs",
    "paging",
    "show_headers",
    "show_job",
    "show_progress",
    "waiting_filter",
]

Command = TypeVar("Command", bound=Callable[..., Any])

EDGES = 200
"""The most blockers of a job that `tenure job` lists."""

before_filter = click.option(
    "--before", type=Ago(), metavar="TIME", help="Only jobs that ended by this time, such as 2h (ago)."
)
waiting_filter = click.option(
    "--scheduled/--in-line", default=None, help="Only waiting jobs that are not due yet, or that are."
)


def filters(command: Command) -> Command:
    """Add the options that filter jobs in any state."""
    for option in (
        click.option("--worker", metavar="ID", help="Only jobs that this worker holds, or held last."),
        click.option("--text", help="Only jobs with this text in arguments or error; case matters."),
        click.option("--error", metavar="TYPE", help="Only jobs with this type of error."),
        click.option("--tag", help="Only jobs with this tag."),
        click.option("--task", type=TASK, help="Only jobs of this task."),
        click.option("-q", "--queue", type=QUEUE, help="Only jobs of this queue."),
    ):
        command = option(command)
    return command


def paging(command: Command) -> Command:
    """Add the options that choose the page of a listing, and its format."""
    for option in (
        json_option,
        click.option("--cursor", help="Continue where an earlier listing ended."),
        click.option(
            "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="The most jobs to list."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only jobs in this state.")
@filters
@before_filter
@waiting_filter
@click.option("--schedule", help="Only jobs of this schedule.")
@click.option("--follow", "following", is_flag=True, help="Print jobs as they end, one line each, until Ctrl-C or --limit; with --json, one object a line.")  # fmt: skip
@paging
@with_app()
async def jobs(app: App, as_json: bool, following: bool, **search: Any) -> None:
    """List jobs, the newest first; with --state waiting, in queue order."""
    if not following:
        return await list_jobs(app, as_json, **search)
    from tenure.cli.follow import follow

    del search["cursor"]
    if click.get_current_context().get_parameter_source("limit") is click.core.ParameterSource.DEFAULT:
        search["limit"] = None
    return await follow(app, as_json, **search)


async def list_jobs(app: App, as_json: bool, **search: Any) -> None:
    """Print a page of the jobs that this search finds."""
    from tenure.cli import display

    page = await app.ajobs(**search)
    records = [job.record for job in page if job.record is not None]
    if as_json:
        return emit({"jobs": [job_document(record) for record in records], "cursor": page.cursor})
    if records:
        ended = search.get("state") is not None and State(search["state"]).final
        listing = display.table(
            "id", ("task", "gives"), ("queue", "gives"), "state", ("ended" if ended else "created", "right"), ("", "gives")
        )  # fmt: skip
        for job, job_id in zip(records, display.short_ids([job.id for job in records]), strict=True):
            listing.add_row(
                display.text(job_id),
                display.text(job.task),
                display.text(job.queue),
                display.state(job.label),
                display.text(display.distance((job.ended_at if ended else None) or job.created_at)),
                display.remark(_remark(job)),
            )
        display.show(listing)
    else:
        print_message("no job matches so far" if page.cursor is not None else _none(**search))
    if page.cursor is not None:
        print_message(f"there are more: --cursor {page.cursor}")
    return None


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--follow", "following", is_flag=True, help="Print its output and its progress while it runs, until it ends; exit code 1 unless it succeeds.")  # fmt: skip
@json_option
@with_app()
async def job(app: App, job_id: str, following: bool, as_json: bool) -> None:
    """Show everything about one job, and its timeline."""
    found = (await app.ajob(await resolve_id(app, job_id))).record
    assert found is not None
    if not following:
        return await show_job(app, found, as_json)
    from tenure.cli.follow import follow_job

    return await follow_job(app, found, as_json)


async def show_job(app: App, found: JobRecord, as_json: bool) -> None:
    """Print everything about a job that `get` returned."""
    from tenure.cli import display

    edges = await app.internals.session.store.edges(found.id, EDGES + 1)
    if as_json:
        return emit(whole_job_document(found, edges[:EDGES]))
    facts = [("job", display.text(found.id)), ("state", display.state(found.label))]
    display.show_facts([*facts, *((name, display.lines(value)) for name, value in _facts(found, edges))])
    click.echo()
    return display.show(_timeline(found, narrow=display.console().width < display.ROOM))


def _timeline(job: JobRecord, *, narrow: bool) -> Table:
    """Past and coming events of a job, in order of time. If `narrow`, worker and error go below their attempt."""
    from tenure.cli import display

    if narrow:
        listing = display.table("when", ("", "right"), ("", "gives"))
    else:
        listing = display.table("when", ("", "right"), "", ("took", "right"), ("worker", "gives"), ("", "gives"))

    def add(at: float, what: str, took: float | None = None, worker: str = "", remark: str = "") -> None:
        spent = "" if took is None else display.duration(max(took, 0.0))
        when = display.text(display.instant(at)), display.text(display.distance(at))
        if narrow:
            listing.add_row(*when, display.text(what + (f" after {spent}" if spent else "")))
            for below in filter(None, (f"on {worker}" if worker else "", remark)):
                listing.add_row("", "", display.remark(below))
        else:
            listing.add_row(
                *when, display.text(what), display.text(spent), display.text(worker), display.remark(remark)
            )

    add(job.created_at, "enqueued")
    for each in attempts_of(job):
        took = None if each.ended_at is None else each.ended_at - each.started_at
        outcome = "running" if each.outcome is None else each.outcome.value
        add(each.started_at, f"attempt {each.number}: {outcome}", took, each.worker or "", _attempt_remark(each))
    if job.run_at is not None:
        add(job.run_at, "due")
    if job.expires_at is not None and not job.state.final and job.attempt == 0:
        add(job.expires_at, "expires")
    if job.ended_at is not None:
        add(job.ended_at, f"ended: {job.state}")
    return listing


def _attempt_remark(attempt: AttemptRecord) -> str:
    """The error of an attempt, or the last line of its output."""
    if attempt.error is not None:
        return f"{attempt.error.type}: {attempt.error.message}"
    return "wrote: " + attempt.output.strip().rpartition("\n")[2] if attempt.output else ""


def _facts(job: JobRecord, edges: Sequence[EdgeInfo]) -> Iterator[tuple[str, str]]:
    """Names and values of the facts about a job, the most important first; facts that it lacks are left out."""
    from tenure.cli.display import duration, utc

    yield "task", job.task
    yield "queue", job.queue + (f", priority {job.priority}" if job.priority else "")
    if job.run_id is not None:
        yield "run", job.run_id
    if job.schedule is not None and job.tick is not None:
        yield "schedule", f"{job.schedule}, for the tick {utc(job.tick)} UTC"
    if tags := user_tags(job.tags):
        yield "tags", ", ".join(tags)
    if job.unique is not None:
        yield "unique", job.unique
    if job.headers:
        yield "headers", show_headers(job.headers)
    limit = f" of {job.max_attempts}" if job.max_attempts else ""
    yield "attempt", f"{job.attempt}{limit}" + (f", {job.losses} lost" if job.losses else "")
    if job.worker is not None:
        yield "worker", job.worker
    if job.lease_left is not None:
        yield "lease", f"{duration(job.lease_left)} left" if job.lease_left > 0 else "expired"
    if job.progress is not None and (progress := show_progress(job.progress)):
        yield "progress", progress
    if job.parked:
        yield "waits for", f"{awaited(job)}: tenure complete {job.id}, or job.complete(value)"
    elif job.blocked_by and not edges:
        yield "waits for", awaited(job)
    if edges:
        yield "waited for" if job.parked or not job.blocked_by else "waits for", _blockers(job, edges)
    yield "payload", repr(job.payload) if job.raw else job.payload.decode(errors="backslashreplace")
    if job.result is not None:
        yield "result", job.result
    if job.error is not None:
        yield "error", f"{job.error.type}: {job.error.message}"
    if job.error is not None and job.error.traceback:
        yield "traceback", job.error.traceback.rstrip("\n")
    if output := job.progress.tail if job.progress is not None and job.progress.tail else _output(job):
        yield "output", output


def _blockers(job: JobRecord, edges: Sequence[EdgeInfo]) -> str:
    """The jobs and runs that a job was enqueued to wait for, a line each, and whether it still waits for them."""
    lines = [f"{'open' if edge.open else 'closed':<7}{edge.blocker or 'not recorded'}" for edge in edges[:EDGES]]
    if len(edges) > EDGES:
        lines.append(f"and others: these are the first {EDGES}")
    return "\n".join(([awaited(job)] if job.blocked_by and not job.parked else []) + lines)


def show_headers(headers: Mapping[str, str]) -> str:
    """The headers of a job, a line each; values that may be secrets are hidden."""
    return "\n".join(f"{name} = {value}" for name, value in redact(headers).items())


def awaited(job: JobRecord) -> str:
    """What a blocked job waits for, as a phrase."""
    if job.parked:
        return "its completion"
    return f"{job.blocked_by:,} {'job' if job.blocked_by == 1 else 'jobs'}"


def _none(state: str | None, **search: Any) -> str:
    """The message if no job matches."""
    from tenure.cli.display import instant

    kinds = ("queue", "task", "tag", "schedule")
    of = [f"{kind} {search[kind]}" for kind in kinds if search.get(kind) is not None]
    having = [f"{kind} {search[kind]}" for kind in ("error", "text", "worker") if search.get(kind) is not None]
    if search.get("scheduled") is not None:
        state = "scheduled" if search["scheduled"] else "waiting"
    return (
        f"there are no {f'{state} ' if state else ''}jobs"
        + (f" of {', '.join(of)}" if of else "")
        + (f" with {', '.join(having)}" if having else "")
        + (f" that ended by {instant(search['before'].timestamp())}" if search.get("before") else "")
    )


def _output(job: JobRecord) -> str | None:
    """The output of the attempt that failed last, or that succeeded; None if there is none."""
    if job.error is not None:
        return job.error.output
    attempts = attempts_of(job)
    return attempts[-1].output if attempts else None


def _remark(job: JobRecord) -> str:
    """The remark about a job in a listing: what matters most in its state."""
    from tenure.cli.display import distance

    parts = []
    if job.state is State.WAITING and job.run_at is not None:
        parts.append(f"due {distance(job.run_at)}")
    if job.state is State.RUNNING:
        parts.append(f"on {job.worker}")
        if job.progress is not None and (progress := show_progress(job.progress)):
            parts.append(progress)
    if job.state is State.BLOCKED:
        parts.append(f"waits for {awaited(job)}")
    if job.attempt > 1:
        parts.append(f"attempt {job.attempt}")
    if job.error is not None:
        parts.append(f"{job.error.type}: {job.error.message}")
    return ", ".join(parts)


def show_progress(progress: Progress) -> str:
    """The progress that a job has reported, as a phrase; empty if it has reported none, and only its output is there."""
    if not progress.done and progress.total is None and progress.note is None and progress.tail:
        return ""
    total = "" if progress.total is None else f"/{progress.total:g}"
    percent = "" if progress.percent is None else f" ({progress.percent:.0f}%)"
    return f"{progress.done:g}{total}{percent}" + (f" {progress.note}" if progress.note else "")
