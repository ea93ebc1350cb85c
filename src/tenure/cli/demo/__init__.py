"""`tenure demo`: a few hundred jobs, two workers, one kill -9, and a look at what became of every job."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tenure.cli.demo.kinds import Summary

__all__ = ["conclude", "demo"]


@click.command()
def demo() -> None:
    """Watch jobs run, fail, retry and survive a kill -9.

    Needs no server and leaves nothing behind.
    """
    import asyncio

    from tenure.cli.demo.story import run

    try:
        summaries = asyncio.run(run())
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
    conclude(summaries)


def conclude(summaries: Sequence[Summary]) -> None:
    """Say whether everything that was enqueued ended as it should have; exit code 1 if not."""
    jobs = sum(summary.kind.jobs for summary in summaries)
    if wrong := sum(summary.wrong for summary in summaries):
        click.secho(f"{wrong} of {jobs} jobs did not end as they should have.", fg="red", bold=True)
        raise click.exceptions.Exit(1)
    click.secho(f"All {jobs} jobs ended as they should have; nothing was lost.", fg="green", bold=True)
