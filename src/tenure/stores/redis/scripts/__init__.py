"""Loads the Lua scripts of the Redis store: one operation a file, which opens with what it promises.

Redis runs a script alone, so each operation is atomic towards other clients. It is not rolled back if a command in it
is refused. Every script gets the same KEYS, the fixed keys of the namespace (`keys.py`). ARGV[1] is the time in
seconds, or '' for the server's clock. A line `-- include: a, b` is replaced by these files of `parts/`.
"""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

from tenure.stores.redis.keys import with_keys
from tenure.stores.redis.replies import with_literals

__all__ = ["Script", "scripts"]


class Script(NamedTuple):
    """A script with its parts, keys and codes filled in, and the digest by which Redis knows it."""

    name: str
    source: str
    sha: str


_INCLUDE = re.compile(r"^-- include: (.*)$", re.MULTILINE)


def _load() -> dict[str, Script]:
    folder = files(__package__)
    parts = {file.name.removesuffix(".lua"): file.read_text(encoding="utf-8") for file in (folder / "parts").iterdir()}
    found = {}
    for file in folder.iterdir():
        if file.name.endswith(".lua"):
            name, text = file.name.removesuffix(".lua"), file.read_text(encoding="utf-8")
            whole = _INCLUDE.sub(lambda names: "\n".join(parts[part] for part in names[1].split(", ")), text)
            source = with_keys(with_literals(whole))
            # SHA-1 because Redis names scripts so; it is not a safeguard.
            found[name] = Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
    return found


scripts = _load()
"""Scripts by name."""
