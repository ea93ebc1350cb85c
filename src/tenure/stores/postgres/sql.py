"""Loads SQL from the folders of this package; a line `-- include: NAME` stands for a list in `columns/`."""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["load", "statement"]

_INCLUDE = re.compile(r"^( *)-- include: (\w+)(,?)$", re.MULTILINE)


def load(folder: str) -> dict[str, str]:
    """The SQL files of a folder by name, in the order of their names."""
    return {name: _INCLUDE.sub(_included, text) for name, text in _read(folder).items()}


def statement(name: str) -> str:
    """A file of `statements/` without its comments, because a pooled connection sends the text with every call."""
    return _without_comments(load("statements")[name])


def _read(folder: str) -> dict[str, str]:
    found = [file for file in (files(__package__) / folder).iterdir() if file.name.endswith(".sql")]
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in sorted(found, key=lambda file: file.name)
    }


def _included(line: re.Match[str]) -> str:
    indent, name, comma = line.groups()
    return "\n".join(indent + column for column in _COLUMNS[name].splitlines()) + comma


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


_COLUMNS = {name: _without_comments(text) for name, text in _read("columns").items()}
"""Lists of columns, fields and values that several files repeat."""
