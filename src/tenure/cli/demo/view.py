"""View: shows `tenure demo` as a live table on a terminal, as plain lines elsewhere, and its summary."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tenure.cli.demo.kinds import JOBS, KINDS, Summary, finished
from tenure.cli.display import console, number, state, table, text
from tenure.stores.values import QueueInfo

__all__ = ["View"]

LINE_EVERY = 1.0
"""Seconds between the lines of progress if there is no terminal."""


class View:
    """Shows the progress of the queues, and lines about what happened, which stay on the screen."""

    def __init__(self) -> None:
        self._console = console()
        self._live = Live(console=self._console, transient=True) if self._console.is_terminal else None
        self._began = self._next_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def event(self, what: str, style: str = "") -> None:
        """Print a line about something that happened."""
        elapsed = time.monotonic() - self._began
        self._console.print(Text.assemble((f"{elapsed:5.1f} s  ", "dim"), text(what, style)))

    def progress(self, queues: Sequence[QueueInfo]) -> None:
        """Show the progress of each kind."""
        if self._live:
            self._live.update(_progress_table({queue.name: queue for queue in queues}))
        elif time.monotonic() >= self._next_line:
            self._next_line += LINE_EVERY
            running = sum(queue.running for queue in queues)
            self.event(f"{sum(map(finished, queues))} of {JOBS} jobs finished, {running} running")

    def summary(self, summaries: Sequence[Summary]) -> None:
        """Show how the jobs of each kind ended, beside what was expected."""
        listing = table(
            "kind", "what it does", ("jobs", "right"), "expected", "got", ("attempts", "right"), ("losses", "right"), ""
        )
        for summary in summaries:
            listing.add_row(
                text(summary.kind.task, "bold"),
                text(summary.kind.about, "dim"),
                number(summary.kind.jobs),
                state(summary.kind.ends),
                Text(", ").join(Text.assemble(f"{count} ", state(label)) for label, count in summary.ended.items()),
                number(summary.attempts),
                number(summary.losses, "yellow"),
                text("wrong", "bold red") if summary.wrong else text("ok", "bold green"),
            )
        self._console.print()
        self._console.print(listing)
        self._console.print()


def _progress_table(queues: Mapping[str, QueueInfo]) -> Table:
    listing = table(
        "kind",
        "",
        ("done", "right"),
        ("running", "right"),
        ("waiting", "right"),
        ("scheduled", "right"),
        ("failed", "right"),
    )
    for kind in KINDS:
        queue = queues[kind.task]
        listing.add_row(
            text(kind.task, "bold"),
            ProgressBar(total=kind.jobs, completed=finished(queue), width=24),
            text(f"{finished(queue)}/{kind.jobs}"),
            number(queue.running, "bold cyan"),
            number(queue.waiting, "cyan"),
            number(queue.scheduled, "blue"),
            number(queue.failed, "bold red"),
        )
    return listing
