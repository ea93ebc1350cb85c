"""What an operator does to single jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.refusal import note

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.stores.base import Verdict

__all__ = ["cancel", "delete", "retry", "trigger"]

_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True)


@click.command()
@_ids
@with_app()
async def cancel(app: App, ids: tuple[str, ...]) -> None:
    """End jobs as cancelled.

    A worker that runs one is told to stop.
    """
    await _each(app.session.store.cancel, ids, "cancelled")


@click.command()
@_ids
@with_app()
async def retry(app: App, ids: tuple[str, ...]) -> None:
    """Put finished jobs back in line, as if never tried."""
    await _each(app.session.store.retry, ids, "put back")


@click.command()
@_ids
@with_app()
async def trigger(app: App, ids: tuple[str, ...]) -> None:
    """Put scheduled jobs in line now."""
    await _each(app.session.store.trigger, ids, "put in line")


@click.command()
@_ids
@click.option("--cascade", is_flag=True, help="Also delete the jobs that wait for these, and those that wait for them.")
@with_app()
async def delete(app: App, ids: tuple[str, ...], cascade: bool) -> None:
    """Remove jobs, all of them or none.

    A worker that runs one is told to stop.
    """
    gone = await app.session.store.delete(ids, cascade=cascade)
    _report("deleted", len(gone), [f"there is no job {job}" for job in ids if job not in gone])


async def _each(act: Callable[[Sequence[str]], Awaitable[list[Verdict]]], ids: Sequence[str], done: str) -> None:
    from tenure.errors import JobNotFound
    from tenure.stores.base import STEP, VerdictKind

    refused: list[str] = []
    for start in range(0, len(ids), STEP):
        step = ids[start : start + STEP]
        for job, verdict in zip(step, await act(step), strict=True):
            match verdict.kind:
                case VerdictKind.OK:
                    pass
                case VerdictKind.NOT_FOUND:
                    refused.append(str(JobNotFound(job)))
                case _:
                    refused.append(f"job {job}: {verdict.reason}")
    _report(done, len(ids) - len(refused), refused)


def _report(done: str, count: int, refused: Sequence[str]) -> None:
    """Say how many jobs it was done to, and why not to the others; exit code 2 if there are any."""
    if count:
        click.echo(f"{done}: {count:,} {'job' if count == 1 else 'jobs'}")
    for reason in refused:
        note(reason)
    if refused:
        raise click.exceptions.Exit(2)
