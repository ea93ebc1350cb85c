"""Reads the documentation for the tests that check it: pages, blocks of code, commands, variables."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tenure.cli import COMMANDS, main

__all__ = [
    "PAGES",
    "ROOT",
    "Block",
    "blocks",
    "command_errors",
    "headings",
    "name",
    "option_errors",
    "prose",
    "spans",
    "variables",
]

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<excuse>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    """Where its code begins."""

    language: str
    code: str
    excuse: str | None
    """Why the block cannot be run, from the comment before it; None if it can."""

    def __str__(self) -> str:
        return f"{name(self.page)}, line {self.line}"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(page, line, found["language"], found["code"], found["excuse"])


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _BLOCK.sub("", page.read_text())


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as hosting sites make them."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def spans(text: str) -> list[str]:
    """The inline code of a text."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)


def command_errors(line: Sequence[str]) -> list[str]:
    """Errors that the parser of the command line finds in the words after `tenure`. Runs nothing."""
    if not line:
        return []
    try:
        command = main.get_command(click.Context(main), line[0])
        assert command is not None
        command.make_context(line[0], list(line[1:]), parent=click.Context(main, info_name="tenure"))
    except click.ClickException as error:
        return [f"tenure {shlex.join(line)}: {error.format_message()}"]
    return []


def option_errors(span: str) -> list[str]:
    """Errors in a command as prose writes it, with names in place of values: the command and its options must exist."""
    command, *words = span.removeprefix("tenure").replace("...", "").split() or [""]
    if not command or command.startswith("-"):
        return [] if command in ("", "--help", "--version") else [f"tenure has no option {command}"]
    if command not in COMMANDS:
        return [f"there is no command `tenure {command}`"]
    found = main.get_command(click.Context(main), command)
    assert found is not None
    if isinstance(found, click.Group) and words and not words[0].startswith("-"):
        if words[0] not in found.list_commands(click.Context(found)):
            return [f"there is no command `tenure {command} {words[0]}`"]
        found = found.get_command(click.Context(found), words[0]) or found
    known = {"-h", "--help"}.union(*([*each.opts, *each.secondary_opts] for each in found.params))
    given = [word.strip("[]").partition("=")[0] for word in words if word.lstrip("[").startswith("-")]
    return [f"`tenure {command}` has no option {option}" for option in given if option not in known]


@functools.cache
def variables() -> frozenset[str]:
    """The environment variables that the command line and the app read."""
    found = {"TENURE_URL", "TENURE_APP", "TENURE_RELEASE"}
    found |= {"TENURE_DASHBOARD_READ_TOKEN", "TENURE_DASHBOARD_OPERATE_TOKEN"}
    for command in COMMANDS:
        known = main.get_command(click.Context(main), command)
        assert known is not None
        for each in known.params:
            of_command = f"TENURE_{command}_{each.name}".upper()
            found.add(each.envvar if isinstance(each.envvar, str) else of_command)
    return frozenset(found)
