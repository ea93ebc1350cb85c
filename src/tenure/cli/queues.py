"""The commands queues, pause, resume and purge: list queues, and stop or empty them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.cli.audit import act_and_note, note
from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.messages import CommandError, print_message
from tenure.cli.names import QUEUE
from tenure.documents import queues_document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from tenure.app import App
    from tenure.stores.values import QueueInfo

__all__ = ["explain_counts", "pause", "purge", "queues", "resume"]

Command = TypeVar("Command", bound=Callable[..., Any])

STATES = ("waiting", "scheduled", "blocked", "running", "succeeded", "failed", "cancelled", "broken")
ALWAYS = {"waiting", "running", "succeeded", "failed"}


@click.command()
@json_option
@with_app()
async def queues(app: App, as_json: bool) -> None:
    """List the queues, how many jobs each has now, by state, and for how long the oldest one in line has been due.

    Jobs that retention has removed are not counted.
    """
    from tenure.cli.display import STATE_STYLES, duration, number, show, table, text

    found = await app.aqueues()
    if as_json:
        return emit(queues_document(found))
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


def which_queues(command: Command) -> Command:
    """Add the argument and the options that name one queue, or all of them."""
    for option in (
        click.option("--yes", is_flag=True, help="With --all: do not ask for confirmation."),
        click.option("--all", "everything", is_flag=True, help="Every queue, counted and asked for."),
        click.argument("queue", type=QUEUE, required=False),
    ):
        command = option(command)
    return command


@click.command()
@which_queues
@with_app()
async def pause(app: App, queue: str | None, everything: bool, yes: bool) -> None:
    """Pause QUEUE: workers get no more jobs of it. Running jobs continue.

    --all pauses every queue that has ever had a job; one that gets its first job later is not paused.
    """
    if queue is not None and not everything:
        await _expect(app, queue)
        return await _to_one(app, app.apause, queue, f"paused {queue}", f"{queue} is already paused")
    _check_choice(queue, everything)
    found = [each for each in await app.aqueues() if not each.paused]
    in_line, running = sum(each.waiting for each in found), sum(each.running for each in found)
    question = f"Pause {_queues(len(found))} ({in_line:,} jobs in line; {running:,} running ones continue)?"
    return await _to_all(
        app, app.apause, [each.name for each in found], question, yes, "paused", "every queue is paused already"
    )


@click.command()
@which_queues
@with_app()
async def resume(app: App, queue: str | None, everything: bool, yes: bool) -> None:
    """Resume QUEUE: workers get its jobs again. --all resumes every queue that is paused."""
    if queue is not None and not everything:
        await _expect(app, queue)
        return await _to_one(app, app.aresume, queue, f"resumed {queue}", f"{queue} is not paused")
    _check_choice(queue, everything)
    found = [each for each in await app.aqueues() if each.paused]
    question = f"Resume {_queues(len(found))} ({sum(each.waiting for each in found):,} jobs in line)?"
    return await _to_all(
        app, app.aresume, [each.name for each in found], question, yes, "resumed", "no queue is paused"
    )


def _check_choice(queue: str | None, everything: bool) -> None:
    """Refuse both a queue and --all, and neither of them; called unless just a queue is named."""
    if queue is not None or not everything:
        raise CommandError("name either a queue or --all")


async def _to_one(app: App, act: Callable[[str], Awaitable[bool]], queue: str, done: str, already: str) -> None:
    """Pause or resume this queue."""
    changed = await act(queue)
    if changed:
        await note(app, _command(), queue, 1)
    click.echo(done if changed else already)


async def _to_all(
    app: App,
    act: Callable[[str], Awaitable[bool]],
    names: Sequence[str],
    question: str,
    yes: bool,
    done: str,
    none: str,
) -> None:
    """Pause or resume these queues, once the user has confirmed it."""
    if not names:
        return print_message(none)
    if not yes:
        click.confirm(question, abort=True, err=True)
    changed = [name for name in names if await act(name)]
    if changed:
        await note(app, _command(), changed, len(changed))
    return click.echo(f"{done} {_queues(len(changed))}")


def _command() -> str:
    return click.get_current_context().info_name or ""


def _queues(number: int) -> str:
    return f"{number:,} {'queue' if number == 1 else 'queues'}"


@click.command()
@click.argument("queue", type=QUEUE)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_app()
async def purge(app: App, queue: str, yes: bool) -> None:
    """Delete all jobs of QUEUE that have not started."""
    await _expect(app, queue)
    if not yes:
        click.confirm(f"Delete every waiting, scheduled and blocked job of {queue}?", abort=True)
    purged = await act_and_note(app, "purge", f"queue={queue}", lambda: app.apurge(queue))
    click.echo(f"purged {purged:,} jobs of {queue}")


async def _expect(app: App, queue: str) -> None:
    """Raise `InvalidName` for an invalid name; print a message if the queue never had a job, which may be a typing error."""
    from tenure.core.checks import name

    name("queue", queue)
    if queue not in {known.name for known in await app.aqueues()}:
        print_message(f"queue {queue} has never had a job")
