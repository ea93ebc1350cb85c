"""Opens connections to the file, guards them with locks, and translates the errors of SQLite."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Self

import apsw

from tenure.errors import StoreError, StoreFull, StoreUnavailable
from tenure.stores.sqlite.library import BUSY, Connection, Library, code_of, open_file

__all__ = ["BUSY_TIMEOUT", "GuardedConnection", "connect", "translated"]

BUSY_TIMEOUT = 10.0
"""Seconds that a call waits for write transactions of other processes before it gives up."""


class GuardedConnection:
    """A connection that one thread uses at a time. It is opened on first use, and again after a fork has closed it."""

    def __init__(self, connect: Callable[[], Connection], lock: threading.RLock | None = None) -> None:
        self.lock = lock or threading.Lock()
        self._connect = connect
        self._connection: Connection | None = None

    def get(self) -> Connection:
        """The connection, opened if need be. The caller holds the lock."""
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    @property
    def opened(self) -> Connection | None:
        """The connection, or None if it is not open. The caller holds the lock."""
        return self._connection

    def take(self) -> Connection | None:
        """Hand the connection over to the caller, which holds the lock; None if it is not open. `get` opens another."""
        connection, self._connection = self._connection, None
        return connection

    def close(self) -> None:
        """Close the connection if it is open. The caller holds the lock."""
        if (connection := self.take()) is not None:
            connection.close()


def connect(path: str, library: Library, *, cache_kib: int, mode: str = "rw") -> Connection:
    """Open a connection with the settings that all connections of the store have.

    By default the file must exist. Otherwise SQLite would create an empty file and delete the log beside it, even if the file
    was only missing for a moment.
    """
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreUnavailable(
            f"there is no folder {folder!r} for the SQLite file {path!r}: create it, or correct the path"
        )
    if mode == "rwc":
        _create_file(path)
    try:
        connection = open_file(path, library, mode, BUSY_TIMEOUT)
    except Exception as error:
        if code_of(error) is None:
            raise
        raise StoreUnavailable(f"cannot open {path!r} as a SQLite file: {error}") from error
    try:
        with translated(path) as errors:
            errors.attach(connection)
            if isinstance(connection, apsw.Connection):
                connection.set_busy_handler(_BusyHandler())
                # Otherwise SQLite compiles a statement that may use a partial index again whenever its parameters change: 50 µs a call.
                connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            for pragma in (
                "journal_mode = WAL",
                "synchronous = NORMAL",
                "temp_store = MEMORY",
                f"cache_size = -{cache_kib}",
                "wal_autocheckpoint = 0",
                "journal_size_limit = 8388608",  # truncates a log that grew because of a long read
            ):
                _set_pragma(connection, pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_file(path: str) -> None:
    """Create an empty file that only its owner may read, unless it exists. SQLite gives its log the same permissions."""
    # If this fails, SQLite reports why.
    with contextlib.suppress(OSError):
        os.close(os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _set_pragma(connection: Connection, pragma: str) -> None:
    """Set a pragma, and try again while the file is busy: SQLite does not call the busy handler for a change of journal mode."""
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}").fetchall()
            return
        except Exception as error:
            if code_of(error) != BUSY or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.01))  # noqa: S311


class _BusyHandler:
    """Waits for transactions of other processes, in short sleeps of random length so that no process is always the last."""

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
    """Context manager that turns errors of SQLite into the errors of the store contract."""

    __slots__ = ("_connection", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def attach(self, connection: Connection) -> None:
        """Use this connection to find the cause (an errno) of errors that are raised."""
        self._connection = connection

    def connection(self, guarded: GuardedConnection) -> Connection:
        """Get the guarded connection, and use it to find the cause of errors."""
        self._connection = guarded.get()
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        code = code_of(error)
        if code is None:
            return
        system = getattr(self._connection, "system_errno", 0)
        if code == apsw.SQLITE_FULL or (
            code == apsw.SQLITE_IOERR and system in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        ):
            raise StoreFull(f"no room left for {self.path!r}: nothing was stored; free some space") from error
        if code == BUSY:
            raise StoreUnavailable(f"{self.path!r} was locked by another transaction for {BUSY_TIMEOUT:g} s") from error
        if code in (apsw.SQLITE_NOTADB, apsw.SQLITE_CORRUPT):
            raise StoreUnavailable(f"{self.path!r} is not a sound SQLite file: {error}") from error
        if code == apsw.SQLITE_ERROR and str(error).removeprefix("SQLError: ").startswith(_MISSING_OBJECT):
            raise StoreUnavailable(f"cannot use {self.path!r}: {error}: bring back what was there") from error
        if code in _STATEMENT_CODES:
            raise StoreError(f"{self.path!r} refused a statement: {error}") from error
        why = f" ({os.strerror(system)})" if system else ""
        raise StoreUnavailable(f"cannot use {self.path!r}: {error}{why}") from error


_STATEMENT_CODES = frozenset(
    {
        apsw.SQLITE_ERROR,
        apsw.SQLITE_TOOBIG,
        apsw.SQLITE_CONSTRAINT,
        apsw.SQLITE_MISMATCH,
        apsw.SQLITE_MISUSE,
        apsw.SQLITE_RANGE,
    }
)
"""Codes that a statement or its values may cause. Any other code is about the file or the access to it."""

_MISSING_OBJECT = ("no such table", "no such column", "no such index")
"""Beginnings of the messages by which SQLite reports that a table of the store was changed or removed."""
