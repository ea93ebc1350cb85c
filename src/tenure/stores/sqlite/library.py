"""The two SQLite libraries that a process may have: apsw, which brings a current one, and Python's own `sqlite3`.

A file must be used through one of them only. SQLite's locks belong to the process, so that two libraries in it do not see each
other's: both can be writing at once, and one that closes the file drops the locks of the other. Each of these loses jobs.
"""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import apsw

from tenure.stores.callers.connection import SqliteConnection
from tenure.stores.callers.sqlite import Sqlite3Adapter, same_file

__all__ = [
    "BUSY",
    "INTERRUPTED",
    "Connection",
    "Library",
    "bare",
    "code_of",
    "drop",
    "in_use_through_python",
    "leave",
    "open_file",
    "open_here",
]

BUSY, INTERRUPTED = apsw.SQLITE_BUSY, apsw.SQLITE_INTERRUPT


class Library(StrEnum):
    APSW = "apsw"
    """The faster one, and without the faults of old versions."""

    PYTHON = "sqlite3"
    """For programs that use the file through it themselves, as Django and SQLAlchemy do."""


class Connection(SqliteConnection, Protocol):
    """A connection that is ours."""

    @property
    def in_transaction(self) -> bool: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


class PythonConnection(Sqlite3Adapter):
    """A connection of the module `sqlite3` that is ours."""

    @property
    def in_transaction(self) -> bool:
        return bool(self.bare.in_transaction)

    def interrupt(self) -> None:
        self.bare.interrupt()

    def close(self) -> None:
        self.bare.close()


_FLAGS = {
    "ro": apsw.SQLITE_OPEN_READONLY,
    "rw": apsw.SQLITE_OPEN_READWRITE,
    "rwc": apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
}


def open_file(path: str, library: Library, mode: str, patience: float) -> Connection:
    """Open a file to read (`ro`), to write (`rw`), or to make it if need be (`rwc`)."""
    if library is Library.APSW:
        return apsw.Connection(path, flags=_FLAGS[mode], statementcachesize=200)
    import sqlite3

    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode={mode}",
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=200,
    )
    return PythonConnection(connection)


def drop(connection: Connection) -> None:
    """Take back what is not committed and close the connection, also while another thread uses it."""
    while True:
        connection.interrupt()
        time.sleep(0.005)  # for the other thread to notice
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.close()
        except apsw.ThreadingViolationError:
            continue
        return


def leave(connection: Connection) -> None:
    """Have a connection that is never used again keep off the log when the interpreter closes it at its end."""
    if isinstance(connection, apsw.Connection):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def _is_open_at(connection: apsw.Connection, path: str) -> bool:
    try:
        return same_file(connection.filename, path)
    except apsw.ConnectionClosedError:  # by another thread, this very moment
        return False


def in_use_through_python(path: str) -> bool:
    """Whether this process, which has not opened the file for itself yet, seems to have it open through Python's library."""
    return (
        "sqlite3" in sys.modules
        and not any(_is_open_at(connection, path) for connection in apsw.connections())
        and any(_is_open_as(descriptor, path) for descriptor in _descriptors())
    )


def open_here(path: str) -> bool:
    """Whether this process may have the file open already, by whatever library.

    Then it must not be opened and closed for a look: that would drop all locks that the process has on it.
    """
    descriptors = _descriptors()
    return not descriptors or any(_is_open_as(descriptor, path) for descriptor in descriptors)


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return []  # a system that does not say


def _is_open_as(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def bare(connection: Connection) -> Any:
    """The connection as its library has it."""
    return connection.bare if isinstance(connection, PythonConnection) else connection


_CODES = {type(apsw.exception_for(code)): code for code in range(1, apsw.SQLITE_NOTADB + 1)}


def code_of(error: BaseException | None) -> int | None:
    """The result code of SQLite that is behind an error; None if it is no error of SQLite's."""
    if isinstance(error, apsw.Error):
        return _CODES.get(type(error), apsw.SQLITE_ERROR)
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
