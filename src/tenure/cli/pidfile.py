"""A file that says under which process id something runs, and that it does run."""

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
    """In this block the file holds the id of this process; refused if that of another one that still runs is in it.

    What counts is a lock on the file, which ends with its process however that ends: a file left behind by one that was
    killed is taken over, although the system may have given the number in it to somebody else.
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
        # Before the lock goes: whoever gets it must find that the file is no longer the one of this name.
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(file)


def _locked(path: str) -> int:
    while True:
        try:
            # Not through a link: who may write to the folder could have this process overwrite any file that it may write.
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise CommandError(
                    f"the pidfile {path} is a symbolic link: remove it, or name the file itself"
                ) from None
            raise CommandError(f"the pidfile {path} cannot be written: {error.strerror}") from None
        _refuse_others(file, path)
        try:
            # Not flock: a process that jobs have forked would keep that.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.lexists(path) and os.path.samestat(os.fstat(file), os.lstat(path)):
                return file
        except OSError:
            running = os.read(file, 20).decode(errors="replace").strip()
            os.close(file)
            raise CommandError(f"process {running} runs already, says the pidfile {path}") from None
        os.close(file)


def _refuse_others(file: int, path: str) -> None:
    """Refuse what is no file of its own: a device or a pipe, or a file that has another name too, and is overwritten under both."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(file)
        raise CommandError(f"the pidfile {path} is no plain file of that name alone: remove it, or name another")
