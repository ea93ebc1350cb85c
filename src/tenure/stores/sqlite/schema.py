"""Migrates the file to the newest layout, by numbered migrations that are each applied once."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import apsw

from tenure.errors import LayoutTooNew
from tenure.stores.sqlite.library import Connection

__all__ = ["KNOWN", "found", "migrate", "void_leases_of_other_boots"]

_MIGRATIONS = sorted(
    (file for file in (files(__package__) / "migrations").iterdir() if file.name.endswith(".sql")),
    key=lambda file: file.name,
)
KNOWN = len(_MIGRATIONS)
"""The newest layout that this version of Tenure knows."""


def found(connection: Connection) -> int | None:
    """The layout of the file; None if it has none yet."""
    # Not by apsw's table_exists(), which uses a cached schema that another process may have changed.
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'tenure_meta'").fetchone() is None:
        return None
    row = connection.execute("SELECT value FROM tenure_meta WHERE key = 'layout'").fetchone()
    return None if row is None else int(row[0])


def migrate(connection: Connection, path: str) -> None:
    """Bring the file to the newest layout. Several processes may do this at the same time."""
    if found(connection) == KNOWN:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        have = found(connection) or 0  # checked again, because another process may have been faster
        if have > KNOWN:
            raise LayoutTooNew(have, KNOWN, repr(path))
        for file in _MIGRATIONS[have:]:
            for statement in _statements(file.read_text(encoding="utf-8")):
                connection.execute(statement).fetchall()
        connection.execute("INSERT OR REPLACE INTO tenure_meta (key, value) VALUES ('layout', ?)", (KNOWN,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(text: str) -> Iterator[str]:
    """Split a migration into statements, because `sqlite3` runs only one at a time."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if apsw.complete(statement):
            yield statement
            statement = ""


def void_leases_of_other_boots(connection: Connection) -> None:
    """Make all leases and heartbeats from before the last boot expired, because the clock they refer to has started again."""
    boot = _boot_id()
    if _known_boot(connection) == boot:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if (
            _known_boot(connection) != boot
        ):  # checked again: another process may have been faster, and may hold leases by now
            connection.execute("UPDATE tenure_jobs SET lease_until = 0 WHERE state = 'running'")
            connection.execute("UPDATE tenure_workers SET beat = -1e9")
            connection.execute("INSERT OR REPLACE INTO tenure_meta (key, value) VALUES ('boot', ?)", (boot,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _known_boot(connection: Connection) -> object:
    row = connection.execute("SELECT value FROM tenure_meta WHERE key = 'boot'").fetchone()
    return None if row is None else row[0]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
