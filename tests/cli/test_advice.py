"""Commands that sentences of the package name have the options that they are given."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from tenure.cli import main

SOURCE = Path(__file__).parent.parent.parent / "src" / "tenure"
COMMAND = re.compile(r"\btenure ([a-z]+)((?: [^`\"';,:.()\n]+)?)")
OPTION = re.compile(r"(?<= )--?[a-z][a-z-]*")


def named() -> set[tuple[str, str, str]]:
    """File, command and option of each command line in the source."""
    found = set()
    for file in sorted(SOURCE.rglob("*.py")):
        for command, rest in COMMAND.findall(file.read_text(encoding="utf-8")):
            for option in OPTION.findall(rest):
                found.add((file.name, f"{command}{rest[: rest.index(option)]}".strip(), option))
    return found


def options_of(line: str) -> set[str]:
    """Options of the command that a line such as `failed retry` begins with."""
    command: click.Command = main
    for word in line.split():
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        if found is None:
            break
        command = found
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize(("file", "line", "option"), sorted(named()))
def test_a_command_in_a_sentence_has_its_option(file: str, line: str, option: str) -> None:
    assert option in options_of(line), f"{file}: tenure {line} has no option {option}"
