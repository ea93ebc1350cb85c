"""The layout of the file: numbered migrations, applied in order, each once."""

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
"""The newest layout that this Tenure knows."""


def found(connection: Connection) -> int | None:
    """The layout that the file has; None if it has none yet."""
    # By a statement: table_exists() answers from a schema that another process may have changed since.
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'tenure_meta'").fetchone() is None:
        return None
    row = connection.execute("SELECT value FROM tenure_meta WHERE key = 'layout'").fetchone()
    return None if row is None else int(row[0])


def migrate(connection: Connection, path: str) -> None:
    """Bring the file to the newest layout; safe when many processes do so at once."""
    if found(connection) == KNOWN:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        have = found(connection) or 0  # again: another process may have been faster
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
    """The statements of a migration, one by one, for a library that takes no more at once."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if apsw.complete(statement):
            yield statement
            statement = ""


def void_leases_of_other_boots(connection: Connection) -> None:
    """Let leases and beats from before the last boot have ended long ago: their clock began anew."""
    boot = _boot_id()
    if _known_boot(connection) == boot:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _known_boot(connection) != boot:  # again: another process may have been faster, and hold leases by now
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
