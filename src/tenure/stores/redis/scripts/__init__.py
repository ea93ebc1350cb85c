"""The Lua of the Redis store: one step a file, opening with what it promises; what steps share is in `parts/`."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

from tenure.stores.redis.keys import with_keys
from tenure.stores.redis.replies import with_literals

__all__ = ["Script", "scripts"]


class Script(NamedTuple):
    """What runs in the server, as one step. Its first argument is the time, or nothing: then it asks the server."""

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
            # The digest is a name that Redis gives, not a safeguard.
            found[name] = Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())
    return found


scripts = _load()
"""Scripts by name."""
