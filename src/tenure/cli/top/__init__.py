"""The command top: shows queues, running and failed jobs as they change, and acts on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["top"]

PIPE_WIDTH = 120
"""Columns of a frame that goes into a pipe or a file, unless COLUMNS says otherwise."""


@click.command()
@click.option("--once", is_flag=True, help="Print one frame and end. It is so too if the output is no terminal.")
@click.option("--read-only", is_flag=True, help="Offer nothing that changes a queue or a job.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a second, each on a line; with --once, one."
)
@with_app()
async def top(app: App, once: bool, read_only: bool, as_json: bool) -> None:
    """Watch the queues, and what runs, fails and needs attention.

    Keys pause and resume queues, list and explain jobs, and retry failed ones, after a question; ? shows them all. It reads
    from the store at most twice a second. Ctrl-C or q ends it.
    """
    import logging

    from tenure.cli.display import console

    # Warnings of the log would be printed into the screen, which says itself that the store does not answer.
    logging.getLogger("tenure").addHandler(logging.NullHandler())
    if as_json:
        from tenure.cli.top.printing import print_documents

        return await print_documents(app, once=once)
    out = console()
    if once or not out.is_terminal or out.is_dumb_terminal:
        from tenure.cli.top.printing import print_frame

        return await print_frame(app, out, read_only=read_only)
    from tenure.cli.top.screen import Screen

    if signum := await Screen(app, out, read_only=read_only).run():
        _exit_after(signum)
    return None


def _exit_after(signum: int) -> None:
    """End as a program that this signal has ended; Ctrl-C is a common way to leave, and no failure."""
    import signal

    if signum != signal.SIGINT:
        raise click.exceptions.Exit(128 + signum)
