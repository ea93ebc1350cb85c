"""Jobs that have failed, and those that are broken: looking at them, putting them back in line, or away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tenure.cli.actions import each, report
from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.ids import meant, meant_by
from tenure.cli.jobs import filters, list_jobs, paging, show_job
from tenure.cli.refusal import Refusal, note
from tenure.core.job import State

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["broken", "failed"]

Command = TypeVar("Command", bound=Callable[..., Any])


class Ended(click.Group):
    """Commands about the jobs that have ended in one state, which are listed if none is named."""

    def __init__(self, state: State, about: str) -> None:
        commands = {each.name or "": each for each in (show, retry, delete)}
        super().__init__(
            state.value, commands, invoke_without_command=True, callback=listing, params=listing_options, help=about
        )
        self._state = state

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        ctx.obj = self._state
        return super().invoke(ctx)


def choosing(command: Command) -> Command:
    """Let a command be told which of these jobs are meant: some by their ids, or all that fit."""
    for option in (
        json_option,
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--error", metavar="TYPE", help="Only jobs that ended with this type of error."),
        filters,
        click.option("--all", "everything", is_flag=True, help="All of them, unless other options say which."),
        click.argument("ids", metavar="[ID]...", nargs=-1),
    ):
        command = option(command)
    return command


@click.command()
@filters
@paging
@with_app()
async def list_(app: App, as_json: bool, **search: Any) -> None:
    await list_jobs(app, as_json, state=_state(), **search)


def listing(**given: Any) -> None:
    """List jobs, unless that is left to another command."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, **given)
    elif any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in given):
        raise Refusal(f"put the options behind {ctx.invoked_subcommand}: here they are of the listing")


listing_options = list_.params


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
@with_app()
async def show(app: App, job_id: str, as_json: bool) -> None:
    """Show one of them, and its timeline."""
    job_id = await meant_by(app, job_id)
    found = (await app.ajob(job_id)).record
    assert found is not None
    if found.state is not _state():
        raise Refusal(f"job {job_id} is {found.state}, not {_state()}: tenure job {job_id} shows it")
    show_job(found, as_json)


@click.command()
@choosing
@with_app()
async def retry(app: App, ids: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Put them back in line, as if never tried.

    Their arguments are byte for byte what they were. How many jobs are meant is told before anything happens; those that cannot be
    retried are left.
    """
    ids = await meant(app, ids)
    if not await _meant(app, ids, "put {} back in line", **given):
        return _told("retried", "put back", 0, as_json)
    if ids and not as_json:
        return await each(app.internals.session.store.retry, ids, "put back")
    return _told("retried", "put back", await app.aretry(*ids, **_search(ids, given)), as_json)


@click.command()
@choosing
@click.option(
    "--cascade", is_flag=True, help="Also delete the jobs that wait for these; without it, --all leaves such."
)
@with_app()
async def delete(app: App, ids: tuple[str, ...], cascade: bool, as_json: bool, **given: Any) -> None:
    """Remove them, runs with all their steps.

    How many jobs are meant is told before anything happens.
    """
    ids = await meant(app, ids)
    if not await _meant(app, ids, "delete {}", **given):
        return _told("deleted", "deleted", 0, as_json)
    return _told("deleted", "deleted", await app.adelete(*ids, cascade=cascade, **_search(ids, given)), as_json)


async def _meant(app: App, ids: tuple[str, ...], what: str, everything: bool, yes: bool, **filters: Any) -> int:
    """How many jobs are meant, once whoever asks has said yes to that number; refuses ids of jobs in another state."""
    from tenure.jobs.bulk import count_finished, search_of

    error, state = filters.pop("error"), _state()
    if bool(ids) == bool(everything or error or any(filters.values())):
        raise Refusal(f"say which {state} jobs are meant: by their ids, or by --queue, --task, --tag, --error or --all")
    if ids:
        for job in [await app.ajob(job_id) for job_id in ids]:
            if job.state is not state:
                raise Refusal(f"job {job.id} is {job.state}, not {state}: nothing was done")
        return len(ids)
    found = await count_finished(app.internals.session.store, search_of(state, **filters), error)
    question = what.format(f"{found:,} {state} {'job' if found == 1 else 'jobs'}")
    if not found:
        note(f"no such {state} job found")
    elif not yes:
        click.confirm(f"{question[0].upper()}{question[1:]}?", abort=True, err=True)
    return found


def _search(ids: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Which jobs are meant, as the app is told."""
    if ids:
        return {}
    return {"state": _state(), **{name: given[name] for name in ("queue", "task", "tag", "error")}}


def _told(key: str, done: str, count: int, as_json: bool) -> None:
    return emit({key: count}) if as_json else report(done, count, ())


def _state() -> State:
    """The one that the group of this command is about."""
    state: State = click.get_current_context().obj
    return state


failed = Ended(
    State.FAILED,
    """List jobs that have failed, the latest first; or show one, put them back in line, delete them.

    They are kept with their error and the history of their attempts, for as long and as many as retention says.""",
)
broken = Ended(
    State.BROKEN,
    """List jobs that are broken, the latest first; or show one, put them back in line, delete them.

    Nobody could read their arguments, or knew their task for too long. Once that is mended they can be retried: their bytes are kept.""",
)
