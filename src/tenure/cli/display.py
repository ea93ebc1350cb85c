"""Tables, times and text for people. Nothing from the store is interpreted as markup or control codes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click

from tenure.core.escape import escaped
from tenure.core.units import LAST_DAY, duration, size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "console",
    "distance",
    "duration",
    "instant",
    "lines",
    "moment",
    "number",
    "remark",
    "short_ids",
    "show",
    "show_facts",
    "size",
    "state",
    "table",
    "text",
    "utc",
]

PIPE_WIDTH = 1000
"""Width of a table that goes into a pipe or a file, in columns, so that nothing is cut."""

ROOM = 120
"""Width of a terminal, in columns, from which there is room for whole ids and for all columns of a timeline."""

READABLE = 20_000
"""Characters of a payload, result or traceback that are shown."""

STATE_STYLES = {
    "blocked": "blue",
    "parked": "magenta",
    "scheduled": "blue",
    "waiting": "cyan",
    "retrying": "yellow",
    "running": "bold cyan",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "dim",
    "broken": "bold magenta",
    "active": "green",
    "paused": "yellow",
    "done": "dim",
    "lapsed": "yellow",
    "unreadable": "bold red",
}
"""The colours of the states of jobs, and of schedules."""


def console(*, stderr: bool = False) -> Console:
    """A console that interprets no markup and no emoji codes."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.width = PIPE_WIDTH
    return made


def table(*columns: str | tuple[str, Literal["right", "gives"]]) -> Table:
    """A table without lines. A column may be aligned to the "right"; one that "gives" is narrowed if there is no room."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        match column:
            case (title, "right"):
                made.add_column(title, justify="right", no_wrap=True)
            case (title, _):
                made.add_column(title, min_width=len(title))
            case str(title):
                made.add_column(title, no_wrap=True)
    return made


def show(listing: Table) -> None:
    """Print a table: in columns on a terminal; elsewhere with tabs between cells, nothing cut and nothing padded."""
    out = console()
    if out.is_terminal:
        return out.print(listing)
    rows = zip(*(column.cells for column in listing.columns), strict=True)
    for row in [[column.header for column in listing.columns], *rows]:
        click.echo("\t".join(map(str, row)).rstrip("\t"))
    return None


def short_ids(ids: Sequence[str]) -> list[str]:
    """The ids, on a narrow terminal cut to a length at which they still differ; commands accept both."""
    out = console()
    if out.is_terminal and out.width < ROOM:
        for length in (18, 23):
            short = [each[:length] for each in ids]
            if len({*short}) == len({*ids}):
                return short
    return [*ids]


def show_facts(facts: Iterable[tuple[str, Text]]) -> None:
    """Print names and values, on a terminal side by side; a value that is long or has several lines goes below its name."""
    from rich.padding import Padding

    out, facts = console(), list(facts)
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        if not out.is_terminal:
            click.echo(f"{escaped(name)}\t" + str(value).replace("\n", "\n\t"))
        elif "\n" in str(value) or len(value) + width + 2 > out.width:
            out.print(text(name, "bold"))
            out.print(Padding(value, (0, 0, 0, 2), expand=False))
        else:
            out.print(text(f"{name:<{width}}  ", "bold").append(value), soft_wrap=True)


def text(value: object, style: str = "") -> Text:
    """Any value from the store, escaped; wrapped if there is no room."""
    from rich.text import Text

    return Text(escaped(str(value)), style=style, overflow="fold", no_wrap=False)


def remark(value: object) -> Text:
    """A remark, escaped and dim; cut if there is no room."""
    from rich.text import Text

    return Text(escaped(str(value)), style="dim", overflow="ellipsis", no_wrap=True)


def lines(value: str) -> Text:
    """Text of several lines, each escaped; cut after `READABLE` characters."""
    from rich.text import Text

    cut = f"{value[:READABLE]}... ({len(value):,} characters, --json shows all)" if len(value) > READABLE else value
    return Text("\n".join(escaped(line) for line in cut.split("\n")), overflow="fold", no_wrap=False)


def number(value: int, style: str = "") -> Text:
    """A count; zero stays in the background."""
    return text(f"{value:,}", style if value else "dim")


def state(label: str) -> Text:
    """A state or its label, in its colour."""
    return text(label, STATE_STYLES.get(label, ""))


def distance(at: float) -> str:
    """How far an instant is from now, by the clock of this machine: `in 5m`, `22s ago`."""
    ago = time.time() - at
    return f"{duration(ago)} ago" if ago >= 0 else f"in {duration(-ago)}"


def instant(at: float) -> str:
    """An instant in local time."""
    return f"{datetime.fromtimestamp(min(at, LAST_DAY)).astimezone():%Y-%m-%d %H:%M:%S}"


def utc(at: datetime) -> str:
    """An instant in UTC, without the seconds if there are none: `2026-03-01 09:30`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def moment(at: float) -> str:
    """An instant in local time, and how far it is from now."""
    return f"{instant(at)} ({distance(at)})"
