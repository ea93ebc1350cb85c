"""Short times, and tables that fit."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tenure.cli.display import duration, lines, remark, table, text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0ms"), (0.25, "250ms"), (0.9999, "1s"), (12.4, "12s"), (99.9, "100s"), (180, "3m"), (7200, "2h"), (5 * 86400, "5d")],
)  # fmt: skip
def test_a_time_span_is_shown_in_its_largest_fitting_unit(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_markup_from_the_store_is_not_interpreted() -> None:
    printed = Console(file=io.StringIO(), width=80, force_terminal=True)

    printed.print(text("[bold red]x[/] [link=evil]y[/link]"))

    assert printed.file.getvalue() == "[bold red]x[/] [link=evil]y[/link]\n"  # type: ignore[attr-defined]


def test_a_table_fits_a_narrow_terminal() -> None:
    printed = Console(file=io.StringIO(), width=30)
    listing = table("id", ("", "gives"))
    listing.add_row(text("0" * 36), remark("a long remark that nobody needs to the end"))

    printed.print(listing)

    shown = printed.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, shown)) <= 30
    assert "".join(line.split()[0] for line in shown[1:]).startswith("0" * 36)


def test_what_nobody_can_read_is_cut() -> None:
    shown = str(lines("x" * 1_000_000))

    assert len(shown) < 30_000
    assert "1,000,000 characters" in shown
