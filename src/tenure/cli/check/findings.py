"""`Finding`: one line of what `tenure check` found, and how it is printed."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Any, Literal

import click
import msgspec

from tenure.core.escape import escaped

__all__ = ["Finding", "close_to", "document", "print_findings"]

Verdict = Literal["fine", "bad", "note"]

MARKS = {"fine": " ", "bad": "✗", "note": "!"}
STYLES = {"bad": "red", "note": "yellow"}


class Finding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was found about a task, a queue or a schedule. One that is bad means that jobs would not run."""

    name: str
    verdict: Verdict
    text: str
    advice: str = ""
    """What to do about it: one or two sentences."""

    jobs: int | None = None
    """Number of jobs that it is about; None if it is not about jobs."""

    first: str | None = None
    """Id of the first of these jobs."""

    @property
    def line(self) -> str:
        """The finding as people read it, without its mark, name and number."""
        first = f" (first: {self.first})" if self.first is not None else ""
        return f"{self.text}{first}{'.' if self.advice else ''}{' ' if self.advice else ''}{self.advice}"


def close_to(name: str, known: Collection[str]) -> str:
    """A phrase that suggests the closest known name; empty if none is close. Parts behind a dot count too."""
    close = difflib.get_close_matches(name, known, n=1) or [each for each in known if each.rpartition(".")[2] == name]
    return f"; did you mean {close[0]!r}?" if close else ""


def print_findings(findings: Sequence[Finding]) -> None:
    """Print one line for each finding: those that are bad last, so that they stand above the prompt."""
    ordered = sorted(findings, key=lambda each: ("fine", "note", "bad").index(each.verdict))
    width = max((len(escaped(each.name)) for each in ordered), default=0)
    for each in ordered:
        number = "" if each.jobs is None else f"{each.jobs:,}"
        line = f"{MARKS[each.verdict]} {escaped(each.name):<{min(width, 40)}}  {number:>9}  {escaped(each.line)}"
        click.secho(line, fg=STYLES.get(each.verdict))


def document(findings: Sequence[Finding], **facts: Any) -> dict[str, Any]:
    """The JSON document of an examination: whether all is fine, some facts, and each finding."""
    rows = [
        {
            "name": each.name,
            "verdict": each.verdict,
            "text": each.text,
            "advice": each.advice,
            "jobs": each.jobs,
            "first": each.first,
        }
        for each in findings
    ]
    return {"ok": all(each.verdict != "bad" for each in findings), **facts, "findings": rows}
