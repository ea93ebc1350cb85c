"""The SQL of the SQLite store: one operation a file, opening with what it promises."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["sql"]


def _load() -> dict[str, str]:
    found = {}
    for file in files(__package__).iterdir():
        if file.name.endswith(".sql"):
            lines = file.read_text(encoding="utf-8").splitlines()
            # The promise is for readers; SQLite would compare it with its cached statements on every call.
            found[file.name.removesuffix(".sql")] = "\n".join(line for line in lines if not line.startswith("--"))
    return found


sql = _load()
"""Statements by name."""

# The same, but for payloads of which none is taken for text; 2 stands for text that may not be any.
sql["first_in_line_as_bytes"] = sql["first_in_line"].replace(
    "iif(typeof(payload) = 'blob', hex(payload), CAST(payload AS TEXT)), typeof(payload) = 'blob'",
    "hex(payload), iif(typeof(payload) = 'blob', 1, 2)",
)
