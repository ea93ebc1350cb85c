"""`progress`: shows how far a command is that reads or moves many things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tenure.cli.messages import print_message

__all__ = ["progress"]


@contextmanager
def progress(number: int, done: str, things: str, every: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr; where that is no terminal, a line for each `every` things, such as "looked at 100,000 of about 500,000 jobs"."""
    import sys

    if not sys.stderr.isatty():
        total = 0

        def count(more: int) -> None:
            nonlocal total
            if (total + more) // every > total // every:
                print_message(f"{done} {total + more:,} of about {number:,} {things}")
            total += more

        yield count
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from tenure.cli.display import console

    columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(done, total=number)
        yield lambda more: bar.advance(task, more)
