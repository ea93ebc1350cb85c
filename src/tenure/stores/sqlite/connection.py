"""A connection to the file: how it is opened, who may use it, and what its errors mean."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Self

import apsw

from tenure.errors import StoreError, StoreFull, StoreUnavailable

__all__ = ["Guarded", "connect", "translated"]

BUSY_TIMEOUT = 10.0
"""Seconds that a call waits for other processes' write transactions before it gives up."""


class Guarded:
    """A connection for one thread at a time: opened on first use, and again after a fork has closed it."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self.lock = threading.Lock()
        self._connect = connect
        self._connection: apsw.Connection | None = None

    def get(self) -> apsw.Connection:
        """The connection, for who holds the lock."""
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        """Close the connection, for who holds the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect(path: str, *, cache_kib: int, flags: int = apsw.SQLITE_OPEN_READWRITE) -> apsw.Connection:
    """Open one more connection, set up the way that all of ours are.

    By default the file has to be there: SQLite would make an empty one, and remove the log that it finds beside it,
    where the file was only away for a moment.
    """
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreUnavailable(f"there is no folder for {path!r}: create it, or correct the path")
    try:
        connection = apsw.Connection(path, flags=flags, statementcachesize=200)
    except apsw.Error as error:
        raise StoreUnavailable(f"cannot open {path!r} as a SQLite file: {error}") from error
    try:
        with translated(path) as errors:
            errors.watch(connection)
            connection.set_busy_handler(_Patience())
            # Else a statement whose parameters meet a partial index is compiled again each time they change: 50 µs a call.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            for pragma in (
                "journal_mode = WAL",
                "synchronous = NORMAL",
                "temp_store = MEMORY",
                f"cache_size = -{cache_kib}",
                "wal_autocheckpoint = 0",
                "journal_size_limit = 8388608",  # of a log that grew because somebody read for long
            ):
                _set(connection, pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _set(connection: apsw.Connection, pragma: str) -> None:
    """Set a pragma, again while others are in the way: who changes the journal mode is told so without being made to wait."""
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}").fetchall()
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.01))  # noqa: S311


class _Patience:
    """Wait for another process's transaction: short, random naps, so that whoever comes next is not always the same."""

    def __init__(self) -> None:
        self._deadline = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._deadline = now + BUSY_TIMEOUT
        if now > self._deadline:
            return False
        time.sleep(random.uniform(0.0001, 0.0005 if tries < 20 else 0.003))  # noqa: S311
        return True


class translated:  # noqa: N801  (reads as a verb)
    """Turn what SQLite raises into the errors of the contract."""

    __slots__ = ("_connection", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._connection: apsw.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def watch(self, connection: apsw.Connection) -> None:
        """Ask this connection for the cause of what is raised."""
        self._connection = connection

    def connection(self, guarded: Guarded) -> apsw.Connection:
        """The connection to be used here."""
        self._connection = guarded.get()
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, apsw.Error):
            return
        system = 0 if self._connection is None else self._connection.system_errno
        if isinstance(error, apsw.FullError) or (
            isinstance(error, apsw.IOError) and system in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        ):
            raise StoreFull(f"no room left for {self.path!r}: free some space, nothing was stored") from error
        if isinstance(error, apsw.BusyError):
            raise StoreUnavailable(f"{self.path!r} was locked by another process for {BUSY_TIMEOUT:g} s") from error
        if isinstance(error, (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)):
            why = f" ({os.strerror(system)})" if system else ""
            raise StoreUnavailable(f"cannot use {self.path!r}: {error}{why}") from error
        if isinstance(error, (apsw.NotADBError, apsw.CorruptError)):
            raise StoreUnavailable(f"{self.path!r} is not a sound SQLite file: {error}") from error
        raise StoreError(f"{self.path!r} refused a statement: {error}") from error
