"""Loads the Lua scripts of the bridges: a folder for each layout, one step a file, which opens with what it promises.

A line `-- include: a, b` is replaced by these files of the layout's folder, or of `custody/`, which all layouts share. KEYS[1] is
the hash `custody`; a script makes the other keys from the prefix that it gets as an argument. Redis runs a script alone, so each
step is atomic.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from tenure.stores.redis.scripts import Script

__all__ = ["load"]

_INCLUDE = re.compile(r"^-- include: (.*)$", re.MULTILINE)


@cache
def load(layout: str, name: str) -> Script:
    """The script `name` of a layout, with its parts filled in."""
    folder = files(__package__)

    def part(found: re.Match[str]) -> str:
        return "\n".join(included(each).read_text(encoding="utf-8") for each in found[1].split(", "))

    def included(each: str) -> Traversable:
        own = folder / layout / f"{each}.lua"
        return own if own.is_file() else folder / "custody" / f"{each}.lua"

    source = _INCLUDE.sub(part, (folder / layout / f"{name}.lua").read_text(encoding="utf-8"))
    # SHA-1 because Redis names scripts so; it is not a safeguard.
    return Script(f"{layout}/{name}", source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
