"""Wraps the two SQLite libraries that a process may have: apsw, with a current SQLite, and Python's `sqlite3`.

A file must be used through only one of them. SQLite's locks belong to the process, so two libraries in one process do not see each
other's locks. Both could write at the same time, and the one that closes the file would drop the locks of the other. Either loses jobs.
"""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import apsw

from tenure.errors import StoreUnavailable
from tenure.stores.callers.connection import SqliteConnection
from tenure.stores.callers.sqlite import Sqlite3Adapter, same_file

__all__ = [
    "BUSY",
    "INTERRUPTED",
    "Connection",
    "Library",
    "abandon",
    "bare",
    "code_of",
    "force_close",
    "in_use_through_python",
    "open_file",
    "open_here",
]

BUSY, INTERRUPTED = apsw.SQLITE_BUSY, apsw.SQLITE_INTERRUPT


class Library(StrEnum):
    APSW = "apsw"
    """The default: it is faster, and does not have the faults of old versions."""

    PYTHON = "sqlite3"
    """For programs that use the file through `sqlite3` themselves, as Django and SQLAlchemy do."""


class Connection(SqliteConnection, Protocol):
    """A connection that the store has opened, through either library."""

    @property
    def in_transaction(self) -> bool: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


class PythonConnection(Sqlite3Adapter):
    """A connection that the store has opened through `sqlite3`."""

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
    """Open a file for reading (`ro`), for writing (`rw`), or for writing after creating it if need be (`rwc`).

    `patience`: seconds that `sqlite3` waits for locks. A connection of apsw gets a busy handler instead, from the caller.
    """
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


def force_close(connection: Connection) -> None:
    """Roll back and close the connection, even while another thread uses it."""
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


def abandon(connection: Connection) -> None:
    """Prevent a checkpoint when the interpreter, at its exit, closes a connection that is no longer used."""
    if isinstance(connection, apsw.Connection):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def _is_open_at(connection: apsw.Connection, path: str, deadline: float) -> bool:
    while True:
        try:
            return same_file(connection.filename, path)
        except apsw.ConnectionClosedError:  # another thread has just closed it
            return False
        except (
            apsw.ThreadingViolationError
        ):  # while another thread runs a statement, a connection does not even tell its file
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def in_use_through_python(path: str, patience: float) -> bool:
    """Whether this process seems to have the file open through `sqlite3`. For a file that the store itself has not opened yet.

    Waits up to `patience` seconds for connections of apsw that are busy in other threads, if the file is open at all; then
    raises `StoreUnavailable`.
    """
    if "sqlite3" not in sys.modules or not any(_is_open_as(descriptor, path) for descriptor in _descriptors()):
        return False
    deadline = time.monotonic() + patience
    try:
        return not any(_is_open_at(connection, path, deadline) for connection in apsw.connections())
    except apsw.ThreadingViolationError as error:
        raise StoreUnavailable(
            f"this process has {path!r} open already, through apsw or sqlite3: which one cannot be found out while another thread "
            "uses a connection of apsw; try again, or add ?library=apsw or ?library=sqlite3 to the URL"
        ) from error


def open_here(path: str) -> bool:
    """Whether this process may have the file open already, through either library.

    If so, the file must not be opened and closed to look into it: that would drop all locks of the process on it.
    """
    descriptors = _descriptors()
    return not descriptors or any(_is_open_as(descriptor, path) for descriptor in descriptors)


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return []  # this system has no list of open files


def _is_open_as(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def bare(connection: Connection) -> Any:
    """The connection object of the library itself."""
    return connection.bare if isinstance(connection, PythonConnection) else connection


_CODES = {type(apsw.exception_for(code)): code for code in range(1, apsw.SQLITE_NOTADB + 1)}


def code_of(error: BaseException | None) -> int | None:
    """The SQLite result code of an error; None if the error is not from SQLite."""
    if isinstance(error, apsw.Error):
        return _CODES.get(type(error), apsw.SQLITE_ERROR)
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
