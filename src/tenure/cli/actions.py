"""The commands that act on jobs: cancel, retry, trigger, release, delete, complete."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.audit import act_and_note, note
from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.enqueue import Json
from tenure.cli.ids import resolve_id, resolve_ids
from tenure.cli.jobs import filters, waiting_filter
from tenure.cli.messages import CommandError, print_message
from tenure.core.redaction import redact

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.stores.values import Verdict
    from tenure.tasks.task import Call

__all__ = ["apply_to_each", "cancel", "complete", "delete", "release", "report", "retry", "trigger"]

_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True)


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filters
@click.option("--state", type=click.Choice(["blocked", "waiting", "running"]), help="Only jobs in this state.")
@waiting_filter
@click.option(
    "--arguments",
    type=Json(),
    metavar="JSON",
    help="All of --task with these arguments: an array, or an object by name.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@with_app()
async def cancel(app: App, ids: tuple[str, ...], arguments: Any, yes: bool, as_json: bool, **filters: Any) -> None:
    """Cancel jobs: those with these ids, or all unfinished ones that match every option.

    With options, the command first shows how many jobs match and asks for confirmation. A worker that runs one of the jobs
    stops the attempt. The id of a run means its current step.
    """
    from tenure.jobs.audit import described
    from tenure.jobs.bulk import count_equal, count_found, search_of

    store = app.internals.session.store
    given: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    if bool(ids) == bool(given):
        raise CommandError("name the jobs to cancel, either by their ids or by a filter such as --queue")
    ids = await resolve_ids(app, ids)
    if ids and not as_json:
        return await apply_to_each(app, "cancel", store.cancel, ids, "cancelled")
    if arguments is not None:
        if given.keys() - {"queue"} != {"task"}:
            raise CommandError("--arguments needs --task, and can only be combined with --queue")
        call, queue = _call(app, given["task"], arguments), given.get("queue")
        confirmed = _confirmed(await count_equal(store, call, queue), yes)
        target = f"{described(search_of(given))} arguments={_shown(arguments)}"
        act = functools.partial(app.acancel, call, queue=queue)
        cancelled = await act_and_note(app, "cancel", target, act) if confirmed else 0
    elif ids:
        cancelled = await app.acancel(*ids)
        if cancelled:
            await note(app, "cancel", ids, cancelled)
    else:
        search, act = search_of(given), functools.partial(app.acancel, **given)
        confirmed = _confirmed(await count_found(store, search), yes)
        cancelled = await act_and_note(app, "cancel", described(search), act) if confirmed else 0
    return emit({"cancelled": cancelled}) if as_json else report("cancelled", cancelled, ())


def _confirmed(count: int, yes: bool) -> bool:
    """Ask whether to cancel `count` jobs; False if there are none. Ends the command if the user says no."""
    if not count:
        print_message("no unfinished job matches")
    elif not yes:
        click.confirm(f"Cancel {count:,} unfinished {'job' if count == 1 else 'jobs'}?", abort=True, err=True)
    return count > 0


def _call(app: App, task: str, arguments: Any) -> Call[Any]:
    """A call of the task. With the task's code, arguments by position equal the same arguments by name."""
    args, kwargs = ((), arguments) if isinstance(arguments, dict) else (arguments, {})
    if not isinstance(args, list | tuple):
        raise CommandError('--arguments must be a JSON array, such as [42], or an object, such as {"user": 42}')
    caller = app.tasks.get(task) or app.remote(task)
    return caller.bind(*args, **kwargs)


def _shown(arguments: Any) -> str:
    """Arguments as JSON for the audit, without secrets."""
    import json

    return json.dumps(redact(arguments) if isinstance(arguments, dict) else arguments, ensure_ascii=False)


@click.command()
@_ids
@with_app()
async def retry(app: App, ids: tuple[str, ...]) -> None:
    """Run finished jobs again, as if never tried; a run continues with the step that it ended with."""
    await apply_to_each(app, "retry", app.internals.session.store.retry, await resolve_ids(app, ids), "put back")


@click.command()
@_ids
@with_app()
async def trigger(app: App, ids: tuple[str, ...]) -> None:
    """Make scheduled jobs due now."""
    await apply_to_each(app, "trigger", app.internals.session.store.trigger, await resolve_ids(app, ids), "put in line")


@click.command()
@_ids
@json_option
@with_app()
async def release(app: App, ids: tuple[str, ...], as_json: bool) -> None:
    """Take running jobs from their workers and put them back at the front of their queues, as if never leased.

    The worker stops the attempt, which does not count. The id of a run means its current step.
    """
    act = app.internals.session.store.release
    await apply_to_each(app, "release", act, await resolve_ids(app, ids), "released", as_json=as_json)


@click.command()
@_ids
@click.option("--cascade", is_flag=True, help="Also delete the jobs that wait for these, directly or not.")
@with_app()
async def delete(app: App, ids: tuple[str, ...], cascade: bool) -> None:
    """Delete jobs, and runs with all their steps: all or none.

    A worker that runs one of them stops the attempt.
    """
    ids = await resolve_ids(app, ids)
    gone = await app.internals.session.store.delete(ids, cascade=cascade)
    if gone:
        await note(app, "delete", [job for job in ids if job in gone], len(gone))
    report("deleted", len(gone), [f"there is no job {job}" for job in ids if job not in gone])


@click.command()
@click.argument("job_id", metavar="ID")
@click.argument("value", type=Json(), default="null", metavar="[JSON]")
@click.option("--step", metavar="NAME", help="Only if this is the current step of the run.")
@with_app()
async def complete(app: App, job_id: str, value: Any, step: str | None) -> None:
    """Complete a job, or the current step of a run, as if its function had returned JSON. Default: null.

    A worker that runs it stops the attempt. The code of a flow decides which step follows: with --app the next step is
    created at once; without it, a worker that has the code creates it.
    """
    job_id = await resolve_id(app, job_id)
    job = await app.ajob(job_id)
    record = job.record
    assert record is not None
    if step is not None and record.run_id != job_id:
        raise CommandError(f"--step needs the id of a run, and {job_id} is not one")
    if record.run_id != job_id:
        await job.acomplete(app.internals.converted(record, value))
        await note(app, "complete", job_id, 1)
        return click.echo("completed: 1 job")
    run = await app.arun(job_id)
    assert run.record is not None
    # With the name of the step, because the value was converted for this step and no other.
    await run.acomplete(app.internals.converted(run.record, value), step=step or run.step)
    await note(app, "complete", job_id, 1)
    return click.echo(f"completed: 1 step, run {run.id} is {run.state} in step {run.step}")


async def apply_to_each(
    app: App,
    what: str,
    act: Callable[[Sequence[str]], Awaitable[list[Verdict]]],
    ids: Sequence[str],
    done: str,
    *,
    as_json: bool = False,
) -> None:
    """Call `act` on these jobs, a batch at a time, note it in the audit as `what`, and print how many it succeeded for."""
    from tenure.errors import JobNotFound
    from tenure.stores.base import BATCH
    from tenure.stores.values import VerdictKind

    changed: list[str] = []
    refused: list[str] = []
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        for job, verdict in zip(batch, await act(batch), strict=True):
            match verdict.kind:
                case VerdictKind.OK:
                    changed.append(job)
                case VerdictKind.NOT_FOUND:
                    refused.append(str(JobNotFound(job)))
                case _:
                    refused.append(f"job {job}: {verdict.reason}")
    if changed:
        await note(app, what, changed, len(changed))
    report(done, len(changed), refused, as_json=as_json)


def report(done: str, count: int, refused: Sequence[str], *, as_json: bool = False) -> None:
    """Print how many jobs were `done`, and the reason for each that was refused; exit code 2 if there are any."""
    if as_json:
        emit({done: count})
    elif count or not refused:
        click.echo(f"{done}: {count:,} {'job' if count == 1 else 'jobs'}")
    for reason in refused:
        print_message(reason)
    if refused:
        raise click.exceptions.Exit(2)
