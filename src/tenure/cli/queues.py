"""The commands queues, pause, resume and purge: list queues, and stop or empty one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.messages import print_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenure.app import App
    from tenure.stores.values import QueueInfo

__all__ = ["explain_counts", "pause", "purge", "queues", "resume"]

STATES = ("waiting", "scheduled", "blocked", "running", "succeeded", "failed", "cancelled", "broken")
ALWAYS = {"waiting", "running", "succeeded", "failed"}


@click.command()
@json_option
@with_app()
async def queues(app: App, as_json: bool) -> None:
    """List the queues, how many jobs each has now, by state, and for how long the oldest one in line has been due.

    Jobs that retention has removed are not counted.
    """
    import msgspec

    from tenure.cli.display import STATE_STYLES, duration, number, show, table, text

    found = await app.aqueues()
    if as_json:
        return emit({"queues": msgspec.to_builtins(found)})
    # Eight counts fill a terminal, so rare states are left out if no queue has a job in them.
    shown = [state for state in STATES if state in ALWAYS or any(getattr(queue, state) for queue in found)]
    explain_counts(found)
    listing = table("queue", *((state, "right") for state in shown), ("oldest", "right"), "")
    for queue in found:
        counts = (number(getattr(queue, state), STATE_STYLES[state]) for state in shown)
        oldest = "" if queue.oldest is None else duration(queue.oldest)
        listing.add_row(text(queue.name), *counts, text(oldest), text("paused" if queue.paused else "", "yellow"))
    return show(listing)


def explain_counts(queues: Sequence[QueueInfo]) -> None:
    """Print what `queues` and `stats` count, if their numbers of finished jobs differ."""
    ended = sum(
        queue.totals.succeeded + queue.totals.failed + queue.totals.cancelled + queue.totals.broken for queue in queues
    )
    there = sum(queue.succeeded + queue.failed + queue.cancelled + queue.broken for queue in queues)
    if ended != there:
        print_message(
            f"tenure queues counts the finished jobs that are in the store now ({there:,}); tenure stats counts every job that has "
            f"ended since the store was created ({ended:,}), also jobs that were deleted, removed by retention or retried since"
        )


@click.command()
@click.argument("queue")
@with_app()
async def pause(app: App, queue: str) -> None:
    """Pause QUEUE: workers get no more jobs of it. Running jobs continue."""
    await _expect(app, queue)
    click.echo(f"paused {queue}" if await app.apause(queue) else f"{queue} is already paused")


@click.command()
@click.argument("queue")
@with_app()
async def resume(app: App, queue: str) -> None:
    """Resume QUEUE: workers get its jobs again."""
    await _expect(app, queue)
    click.echo(f"resumed {queue}" if await app.aresume(queue) else f"{queue} is not paused")


@click.command()
@click.argument("queue")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_app()
async def purge(app: App, queue: str, yes: bool) -> None:
    """Delete all jobs of QUEUE that have not started."""
    await _expect(app, queue)
    if not yes:
        click.confirm(f"Delete every waiting, scheduled and blocked job of {queue}?", abort=True)
    click.echo(f"purged {await app.apurge(queue):,} jobs of {queue}")


async def _expect(app: App, queue: str) -> None:
    """Raise `InvalidName` for an invalid name; print a message if the queue never had a job, which may be a typing error."""
    from tenure.core.checks import name

    name("queue", queue)
    if queue not in {known.name for known in await app.aqueues()}:
        print_message(f"queue {queue} has never had a job")
