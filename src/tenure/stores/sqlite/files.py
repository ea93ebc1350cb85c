"""Checks that the file, its log (`-wal`) and the log's index (`-shm`) are the ones that this process has open.

SQLite does not notice when they are deleted: it goes on writing to a log that no later process can find. While a connection is open, SQLite
itself neither removes nor replaces any of the three: the last connection of all processes removes the log when it closes. So another
inode, or none, means that something else has deleted it.

How a process recovers from a deleted log:

1. The check is made inside a write transaction. So when it fails, all earlier commits of all processes are in the old log, and no
   process that checks can commit there any more.
2. `save` checkpoints the old log, through a connection that has it open, and truncates it. Another process that still has the old
   log open then finds it empty, and cannot take old pages for new ones.
3. The engine closes all its connections and opens them again, with a new log.
"""

from __future__ import annotations

import fcntl
import os
import time

import apsw

from tenure.errors import StoreUnavailable
from tenure.stores.sqlite.library import Connection, open_here

__all__ = ["Files", "LogGone", "refuse_if_log_gone"]

QUIET = 50_000_000
"""Nanoseconds that a folder must be unchanged before its time stamp is relied on: more than one tick of a file system's clock."""

OPENING = 1.0
"""Seconds that another process may take between opening the file and creating its log."""

WAL, SHM = "-wal", "-shm"

_SHARED_LOCK = (510, 0x40000002)
"""Length and start of the bytes that SQLite locks in an open file."""

Inode = tuple[int, int]


class LogGone(StoreUnavailable):
    """The log, or its index, was deleted or replaced while in use."""


class Files:
    """The inodes of the file, its log and the index of the log, as the connections of this process have them open."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = os.path.dirname(path)
        self.lost = False
        """Whether the log was deleted and the connections have not been opened again since."""

        self._file: Inode | None = None
        self._log: dict[str, Inode] = {}
        self._quiet: tuple[int, int, int] | None = None
        """The `_state` of the folder at the last successful check. While it is the same, the check need not be repeated."""

    @property
    def known(self) -> bool:
        """Whether the file has been opened before."""
        return self._file is not None

    def record(self, connection: Connection) -> None:
        """Record the current files as those that this new connection has open. `LogGone` if it, or older ones, have other ones open.

        The log may be deleted even before this. Then the name leads to no file, or to one that this process has not opened.
        """
        self._real = os.path.realpath(self.path)
        self._file = self._file or _inode(self.path)
        new = {suffix: _inode(self._real + suffix) for suffix in (WAL, SHM) if suffix not in self._log}
        if not all(open_here(self._real + suffix) for suffix in new) and _has_log(connection):
            raise self._log_gone()
        self._log.update((suffix, inode) for suffix, inode in new.items() if inode is not None)
        self._examine()

    def forget_log(self) -> None:
        """To be called when all connections are closed: the next one may find another log, or none."""
        self._log = {}
        self._quiet = None
        self.lost = False

    def check(self) -> None:
        """Raise `StoreUnavailable` if the file was deleted or replaced, `LogGone` if its log was."""
        # This runs in every transaction. While nothing is created or deleted in the folder, it takes one system call instead of three.
        folder = _state(self._folder)
        if folder == self._quiet and folder is not None:
            return
        self._examine()
        is_quiet = folder is not None and time.time_ns() - folder[2] > QUIET and not os.path.islink(self.path)
        self._quiet = folder if is_quiet else None

    def _examine(self) -> None:
        if _inode(self.path) != self._file:
            raise StoreUnavailable(
                f"{self.path!r} was deleted or replaced while in use: put it back, or restart to begin with an empty file"
            )
        if self.lost or any(_inode(self._real + suffix) != inode for suffix, inode in self._log.items()):
            self.lost = True
            self._quiet = None
            raise self._log_gone()

    def _log_gone(self) -> LogGone:
        return LogGone(
            f"the log of {self.path!r} ({WAL} or {SHM}) was deleted or replaced while in use: nothing was stored now, try again. "
            "Delete it only with no program running"
        )

    def save(self, connection: Connection) -> bool:
        """Checkpoint the deleted log, which `connection` still has open, into the file. Returns False if that does not work yet.

        Does nothing if only the index was deleted: the log still exists, and may be in use with another index.
        """
        if _inode(self._real + WAL) == self._log.get(WAL):
            return True
        try:
            [[busy, *_]] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except Exception as error:  # noqa: BLE001  (the caller tries again, unless that can never work)
            return _is_short(error)
        return not busy


def refuse_if_log_gone(path: str) -> None:
    """Raise `StoreUnavailable` if another process has the file open and its log, or the index of the log, was deleted.

    A connection opened now would create a second log, and the two logs would destroy the file.
    """
    real = os.path.realpath(path)
    deadline = time.monotonic() + OPENING
    while _incomplete(real) and not open_here(real) and _in_use(real):
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                f"the log of {path!r} ({WAL} or {SHM}) was deleted, and another process still has the file open: "
                "try again when that process has used the store once more, or has stopped"
            )
        time.sleep(0.02)


def _incomplete(path: str) -> bool:
    return os.path.exists(path) and not (os.path.exists(path + WAL) and os.path.exists(path + SHM))


def _in_use(path: str) -> bool:
    """Whether another process has this file open with a log. Call it only if this process does not: see `open_here`."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # SQLite reports why when it opens the file
    try:
        if os.pread(file, 2, 18) != b"\2\2":
            return False  # the file has never had a log
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *_SHARED_LOCK)
        except OSError:
            return True
        return False
    finally:
        os.close(file)


def _has_log(connection: Connection) -> bool:
    """Whether SQLite uses a log: on some network file systems it cannot."""
    [[mode]] = connection.execute("PRAGMA journal_mode").fetchall()
    return bool(mode == "wal")


def _is_short(error: Exception) -> bool:
    """Whether the log is shorter than its index says: another process has saved and truncated it already."""
    code = getattr(error, "extendedresult", None) or getattr(error, "sqlite_errorcode", None)
    return code == apsw.SQLITE_IOERR_SHORT_READ


def _inode(path: str) -> Inode | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _state(folder: str) -> tuple[int, int, int] | None:
    """Device and inode of a folder, and when a file in it was last created, deleted or renamed; None if it cannot be read."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
