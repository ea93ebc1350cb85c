"""Loads the statements of the bridge to Queuert: one step a file, which opens with what it promises.

A line `-- include: NAME` is replaced by that file. `queuert.NAME` stands for a table of Queuert, and becomes its schema, prefix and
name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

__all__ = ["load"]

_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)
_TABLE = re.compile(r"\bqueuert\.(\w+)")


@lru_cache(200)
def load(name: str, schema: str, prefix: str) -> str:
    """The statement `name` for the tables of this schema and prefix."""
    folder = files(__package__)

    def text(of: str) -> str:
        return (folder / f"{of}.sql").read_text(encoding="utf-8")

    statement = _INCLUDE.sub(lambda found: text(found[1]), text(name))
    return _TABLE.sub(lambda found: f"{_quoted(schema)}.{_quoted(prefix + found[1])}", statement)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
