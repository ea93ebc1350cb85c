"""The commands history and mark: show what happened over time, and mark this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.audit import note
from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.messages import print_message
from tenure.cli.names import QUEUE, TASK
from tenure.documents import history_document

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["history", "mark"]

SPANS = ("10m", "1h", "6h", "24h", "2d", "7d", "30d")
"""As in `tenure.jobs.history`, which `--help` does not import."""

PIPE_WIDTH = 80
"""Width of the picture that goes into a pipe or a file, in columns."""


@click.command()
@click.option("-q", "--queue", type=QUEUE, metavar="QUEUE", help="Only jobs of this queue.")
@click.option("--task", type=TASK, metavar="TASK", help="Only jobs of this task.")
@click.option("--span", type=click.Choice(SPANS), default="1h", show_default=True, help="How far back.")
@json_option
@with_app()
async def history(app: App, queue: str | None, task: str | None, span: str, as_json: bool) -> None:
    """Show how many jobs ended and failed over time, how many waited, and for how long they waited and ran.

    Workers write this to the store every ten seconds, unless the app has history=False. Times are local.
    """
    from tenure.cli.chart import drawn
    from tenure.cli.display import console

    found = await app.ahistory(queue, task, span=span)
    if as_json:
        return emit(history_document(found, span))
    if not any(point.finished or point.retried or point.in_line is not None for point in found.points[:-1]):
        print_message("workers have written nothing in this time, unless just now")
    out = console()
    for line in drawn(found, out.width if out.is_terminal else PIPE_WIDTH):
        out.print(line, soft_wrap=True)
    return None


@click.command()
@click.argument("label", metavar="TEXT")
@with_app(empty=True)
async def mark(app: App, label: str) -> None:
    """Mark this moment in the history as TEXT, such as a deploy or a change of configuration."""
    await app.amark(label)
    await note(app, "mark", label, 1)
    click.echo(f"marked {click.style(label, bold=True)}" if label.isprintable() else "marked")
