"""Nothing from a store is obeyed by a terminal (I22)."""

from __future__ import annotations

import logging
import sys

import pytest

from tenure.core.escape import escaped
from tenure.observe.log_lines import Human


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("plain, Zoë and 日本", "plain, Zoë and 日本"),
        ("two\r\nlines", r"two\r\nlines"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b31m and \x7f", r"\x9b31m and \x7f"),
        ("abc\u202ecba\u2066", r"abc\u202ecba\u2066"),
        ("\u2028line\u2029", r"\u2028line\u2029"),
        ("\ud800", r"\ud800"),
        ("[bold]markup[/bold] :smile:", "[bold]markup[/bold] :smile:"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(hostile: str, shown: str) -> None:
    assert escaped(hostile) == shown


def test_one_event_is_one_log_line_whatever_is_in_it() -> None:
    record = logging.LogRecord("tenure.job", logging.INFO, "", 0, "job %s", ("x\nERROR tenure: \x1b[2Jforged",), None)

    line = Human("%(levelname)s %(message)s").format(record)

    assert line == r"INFO job x\nERROR tenure: \x1b[2Jforged"


def test_a_traceback_cannot_pass_for_another_event() -> None:
    try:
        raise ValueError("first\nERROR tenure: \x1b[2Jforged")
    except ValueError:
        record = logging.LogRecord("tenure.job", logging.ERROR, "", 0, "failed", (), sys.exc_info())

    first, *rest = Human("%(levelname)s %(message)s").format(record).split("\n")

    assert first == "ERROR failed"
    assert all(line.startswith("    ") for line in rest)
    assert r"    ERROR tenure: \x1b[2Jforged" in rest
