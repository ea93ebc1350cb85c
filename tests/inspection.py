"""What is in a file, seen past the library."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import apsw

__all__ = ["connected", "counted", "recounted", "rows", "run", "sound"]


def connected(path: Path | str) -> contextlib.closing[apsw.Connection]:
    """A connection of somebody else, who waits for whoever is writing: by itself apsw's does not."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(10_000)
    return contextlib.closing(connection)


def rows(path: Path | str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Read from the file."""
    with connected(path) as connection:
        return connection.execute(statement, values).fetchall()


run = rows
"""Write to the file, as somebody else may."""


def sound(path: Path) -> bool:
    """Whether SQLite finds the file in order."""
    return rows(path, "PRAGMA integrity_check") == [("ok",)]


def counted(path: Path) -> dict[tuple[str, str], int]:
    """Jobs by queue and state, as the counters have it; what there is none of is left out."""
    states = ("waiting", "scheduled", "blocked", "running", "succeeded", "failed", "cancelled", "broken")
    found = rows(path, f"SELECT name, {', '.join(states)} FROM tenure_queues WHERE name <> ''")
    return {(name, state): n for name, *counts in found for state, n in zip(states, counts, strict=True) if n}


def recounted(path: Path) -> dict[tuple[str, str], int]:
    """The same, counted."""
    found = rows(
        path,
        "SELECT queue, iif(state = 'waiting' AND run_at IS NOT NULL, 'scheduled', state) AS place, count(*) "
        "FROM tenure_jobs GROUP BY queue, place",
    )
    return {(queue, place): n for queue, place, n in found}
