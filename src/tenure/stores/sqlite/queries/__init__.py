"""Loads the SQL statements of the SQLite store: one per file, each beginning with a comment that says what it does."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["sql"]


def _load() -> dict[str, str]:
    found = {}
    for file in files(__package__).iterdir():
        if file.name.endswith(".sql"):
            lines = file.read_text(encoding="utf-8").splitlines()
            # Comments are dropped, because SQLite compares the whole text with its cached statements on every call.
            found[file.name.removesuffix(".sql")] = "\n".join(line for line in lines if not line.startswith("--"))
    return found


sql = _load()
"""Statements by name."""


_FIRST_IN_LINE = """\
    WHERE state = 'waiting' AND run_at IS NULL AND queue = ?1 AND suspect = ?2
      AND (expires_at IS NULL OR attempt > 0 OR expires_at > ?4)
    ORDER BY priority, seq
    LIMIT ?3 OFFSET ?5"""

# Variants for the jobs whose numbers are in the JSON array ?1, as found by unskipped_jobs.
for _name in ("first_in_line", "lease_jobs"):
    assert _FIRST_IN_LINE in sql[_name]
    sql[f"{_name}_numbered"] = sql[_name].replace(
        _FIRST_IN_LINE, "    WHERE n IN (SELECT value FROM json_each(?1)) ORDER BY priority, seq"
    )

# Variants that read every payload as bytes; type 2 marks a payload stored as text that may not be valid text.
for _name in ("first_in_line", "first_in_line_numbered"):
    sql[f"{_name}_as_bytes"] = sql[_name].replace(
        "iif(typeof(payload) = 'blob', hex(payload), CAST(payload AS TEXT)), typeof(payload) = 'blob'",
        "hex(payload), iif(typeof(payload) = 'blob', 1, 2)",
    )
