"""pidfile: a file that holds the id of a running process, and a lock that shows that it runs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from tenure.cli.messages import CommandError

__all__ = ["pidfile"]


@contextlib.contextmanager
def pidfile(path: str | None) -> Iterator[None]:
    """Write the id of this process to the file during the block; refused if another running process holds the file.

    A lock on the file decides, because the system releases it when its process ends, in any way. So a file that a killed
    process left behind is taken over, even if another process now has the id in it.
    """
    if path is None:
        yield
        return
    file = _locked(path)
    try:
        os.truncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        yield
    finally:
        # Before the lock is released: the next process that gets the lock must see that the file was unlinked.
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(file)


def _locked(path: str) -> int:
    while True:
        try:
            # No symbolic links: otherwise a user who can write to the folder could make this process overwrite any file.
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise CommandError(
                    f"the pidfile {path} is a symbolic link: remove it, or name the file itself"
                ) from None
            raise CommandError(f"the pidfile {path} cannot be written: {error.strerror}") from None
        _refuse_others(file, path)
        try:
            # Not flock: a process that a job has forked would inherit the lock.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.lexists(path) and os.path.samestat(os.fstat(file), os.lstat(path)):
                return file
        except OSError:
            running = os.read(file, 20).decode(errors="replace").strip()
            os.close(file)
            raise CommandError(f"process {running} is already running, according to the pidfile {path}") from None
        os.close(file)


def _refuse_others(file: int, path: str) -> None:
    """Refuse a device or a pipe, and a file with a second name (hard link), which would be overwritten under both names."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(file)
        raise CommandError(f"the pidfile {path} is not a regular file with one name: remove it, or name another")
