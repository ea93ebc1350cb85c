"""The commands failed and broken: list, show, retry and delete jobs that ended in that state."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tenure.cli.actions import apply_to_each, report
from tenure.cli.audit import act_and_note, note
from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.ids import resolve_id, resolve_ids
from tenure.cli.jobs import before_filter, filters, list_jobs, paging, show_job
from tenure.cli.messages import CommandError, print_message
from tenure.core.job import State

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["broken", "failed"]

Command = TypeVar("Command", bound=Callable[..., Any])


class Ended(click.Group):
    """A group of commands about the jobs that ended in one state; lists them if no command is named."""

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
    """Add the options that select jobs: by their ids, or all that match a filter."""
    for option in (
        json_option,
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
        before_filter,
        filters,
        click.option("--all", "everything", is_flag=True, help="All of them, or all that match the other options."),
        click.argument("ids", metavar="[ID]...", nargs=-1),
    ):
        command = option(command)
    return command


@click.command()
@filters
@before_filter
@paging
@with_app()
async def list_(app: App, as_json: bool, **search: Any) -> None:
    await list_jobs(app, as_json, state=_state(), **search)


def listing(**given: Any) -> None:
    """List the jobs, unless a subcommand is named."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, **given)
    elif any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in given):
        raise CommandError(f"put the options after {ctx.invoked_subcommand}: before it they belong to the listing")


listing_options = list_.params


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
@with_app()
async def show(app: App, job_id: str, as_json: bool) -> None:
    """Show one of the jobs, and its timeline."""
    job_id = await resolve_id(app, job_id)
    found = (await app.ajob(job_id)).record
    assert found is not None
    if found.state is not _state():
        raise CommandError(f"job {job_id} is {found.state}, not {_state()}: tenure job {job_id} shows it")
    await show_job(app, found, as_json)


@click.command()
@choosing
@with_app()
async def retry(app: App, ids: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Run the jobs again, as if never tried.

    Their arguments stay byte for byte the same. The command first shows how many jobs it selects and asks for
    confirmation. Jobs that cannot be retried are left unchanged.
    """
    ids = await resolve_ids(app, ids)
    if not await _confirmed_count(app, ids, "retry {}", **given):
        return _print_count("retried", "put back", 0, as_json)
    if ids and not as_json:
        return await apply_to_each(app, f"{_state()} retry", app.internals.session.store.retry, ids, "put back")
    retried = await _act(app, "retry", app.aretry, ids, given)
    return _print_count("retried", "put back", retried, as_json)


@click.command()
@choosing
@click.option(
    "--cascade",
    is_flag=True,
    help="Also delete the jobs that wait for these; otherwise --all skips jobs that others wait for.",
)
@with_app()
async def delete(app: App, ids: tuple[str, ...], cascade: bool, as_json: bool, **given: Any) -> None:
    """Delete the jobs, and runs with all their steps.

    The command first shows how many jobs it selects and asks for confirmation.
    """
    ids = await resolve_ids(app, ids)
    if not await _confirmed_count(app, ids, "delete {}", **given):
        return _print_count("deleted", "deleted", 0, as_json)
    deleted = await _act(app, "delete", functools.partial(app.adelete, cascade=cascade), ids, given)
    return _print_count("deleted", "deleted", deleted, as_json)


async def _confirmed_count(
    app: App, ids: tuple[str, ...], what: str, everything: bool, yes: bool, **filters: Any
) -> int:
    """The number of selected jobs, once the user has confirmed it; refuses ids of jobs in another state."""
    from tenure.jobs.bulk import count_finished, search_of

    state = _state()
    if bool(ids) == bool(everything or any(filters.values())):
        raise CommandError(f"name the {state} jobs, either by their ids or by a filter such as --queue, or --all")
    if ids:
        for job in [await app.ajob(job_id) for job_id in ids]:
            if job.state is not state:
                raise CommandError(f"job {job.id} is {job.state}, not {state}: nothing was done")
        return len(ids)
    found = await count_finished(app.internals.session.store, search_of({"state": state, **filters}))
    question = what.format(f"{found:,} {state} {'job' if found == 1 else 'jobs'}")
    if not found:
        print_message(f"no {state} job matches")
    elif not yes:
        click.confirm(f"{question[0].upper()}{question[1:]}?", abort=True, err=True)
    return found


async def _act(
    app: App, what: str, act: Callable[..., Awaitable[int]], ids: tuple[str, ...], given: Mapping[str, Any]
) -> int:
    """Call `act` with the ids, or with the filters if there are none; noted in the audit."""
    from tenure.jobs.audit import described
    from tenure.jobs.bulk import search_of

    state = _state()
    if ids:
        count = await act(*ids)
        if count:
            await note(app, f"{state} {what}", ids, count)
        return count
    filters = {"state": state, **{name: given[name] for name in given.keys() - {"everything", "yes"}}}
    return await act_and_note(app, f"{state} {what}", described(search_of(filters)), lambda: act(**filters))


def _print_count(key: str, done: str, count: int, as_json: bool) -> None:
    return emit({key: count}) if as_json else report(done, count, ())


def _state() -> State:
    """The state that the group of this command is about."""
    state: State = click.get_current_context().obj
    return state


failed = Ended(
    State.FAILED,
    """List failed jobs, the latest first; or show, retry and delete them.

    They are kept with their error and the history of their attempts, as long and as many as the retention allows.""",
)
broken = Ended(
    State.BROKEN,
    """List broken jobs, the latest first; or show, retry and delete them.

    No worker could read their arguments, or no worker knew their task for too long. Once that is fixed they can be retried,
    because their bytes are kept.""",
)
