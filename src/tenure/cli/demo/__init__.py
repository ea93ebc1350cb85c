"""The command demo: runs a few hundred jobs on two workers, kills one with kill -9, and checks every job."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

import click

from tenure.cli.messages import print_message

if TYPE_CHECKING:
    from tenure.cli.demo.kinds import Summary

__all__ = ["conclude", "demo"]


@click.command()
@click.option("--dashboard", "shows", is_flag=True, envvar="TENURE_DEMO_DASHBOARD", help="Keep jobs coming, and show them in a browser until Ctrl-C.")  # fmt: skip
def demo(shows: bool) -> None:
    """Watch jobs run, fail, retry and survive a kill -9.

    Needs no server and leaves nothing behind.
    """
    import asyncio

    from tenure.cli.demo.story import run, show

    try:
        if shows:
            return _in_browser(show)
        summaries = asyncio.run(run())
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
    conclude(summaries)
    program = "tenure" if shutil.which("tenure") else f"{os.path.relpath(sys.executable)} -m tenure"
    return click.echo(f"See it in a browser, with more jobs to come: {program} demo --dashboard")


def _in_browser(show: Callable[..., Coroutine[None, None, None]]) -> None:
    """Serve the dashboard of a demo that goes on until Ctrl-C."""
    import asyncio

    from tenure.cli.dashboard import server

    serve = server()

    def started(address: str) -> None:
        click.echo(address)
        print_message("two workers run jobs until Ctrl-C stops the demo; this address shows them")
        click.launch(address)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(show(functools.partial(serve, started=started)))


def conclude(summaries: Sequence[Summary]) -> None:
    """Print whether all jobs ended as expected; exit code 1 if not."""
    jobs = sum(summary.kind.jobs for summary in summaries)
    if wrong := sum(summary.wrong for summary in summaries):
        click.secho(f"{wrong} of {jobs} jobs did not end as expected.", fg="red", bold=True)
        raise click.exceptions.Exit(1)
    click.secho(f"All {jobs} jobs ended as expected; nothing was lost.", fg="green", bold=True)
