"""A disk that fails when it is told to: a SQLite VFS over the system's own, made the default of its process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import apsw

__all__ = ["FaultyDisk"]


class FaultyDisk(apsw.VFS):
    """Calls `fault` before every write and every sync of any file."""

    def __init__(self) -> None:
        self.fault: Callable[[], None] = lambda: None
        super().__init__("faulty", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def fail(self) -> None:
        """Let every write and sync fail from now on, as a broken disk does."""

        def fault() -> None:
            raise apsw.IOError("a broken disk")

        self.fault = fault

    def heal(self) -> None:
        self.fault = lambda: None

    def kill_at(self, number: int) -> None:
        """Let the process be killed at the so-manieth write or sync from now on."""
        left = number

        def fault() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        self.fault = fault


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.fault()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.fault()
        super().xSync(flags)
