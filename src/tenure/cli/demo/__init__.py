"""The command demo: runs a few hundred jobs on two workers, kills one with kill -9, and checks every job."""

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
    """Print whether all jobs ended as expected; exit code 1 if not."""
    jobs = sum(summary.kind.jobs for summary in summaries)
    if wrong := sum(summary.wrong for summary in summaries):
        click.secho(f"{wrong} of {jobs} jobs did not end as expected.", fg="red", bold=True)
        raise click.exceptions.Exit(1)
    click.secho(f"All {jobs} jobs ended as expected; nothing was lost.", fg="green", bold=True)
