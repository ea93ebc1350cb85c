"""`SourceWatcher`: notices when source files of an app change."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping

import tenure

__all__ = ["SourceWatcher", "Stamp", "app_files", "imported_files", "stamp"]

Stamp = list[int] | None
"""Modification time and size of a file; None while it does not exist, as when an editor replaces it."""


def imported_files() -> list[str]:
    """Files of modules that this process has imported, without those of Python and of installed packages."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return app_files(file for file in files if isinstance(file, str))


def app_files(files: Iterable[str]) -> list[str]:
    """Those of these files that are source code of the app: not of Python, of an installed package, or of Tenure."""
    paths = sysconfig.get_paths()
    others = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")] + [*tenure.__path__]
    installed = tuple(f"{os.path.realpath(folder)}{os.sep}" for folder in others)
    real = {os.path.realpath(file) for file in files if file.endswith(".py")}
    return sorted(file for file in real if not file.startswith(installed))


class SourceWatcher:
    """Compares files with how they were when they were imported."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._moving: dict[str, Stamp] = {}

    def __bool__(self) -> bool:
        """Whether it watches any file."""
        return bool(self._stamps)

    def add(self, files: Mapping[str, Stamp]) -> None:
        """Watch these files too. The stamps are those at the time of import."""
        for file, imported in files.items():
            self._stamps.setdefault(file, imported)

    def changed(self) -> str | None:
        """A file that has changed and is stable since the last call, so that its writer has finished; None if there is
        none.
        """
        now = {file: stamp(file) for file in self._stamps}
        moving, self._moving = self._moving, {file: each for file, each in now.items() if each != self._stamps[file]}
        if not self._moving or self._moving != moving:
            return None
        self._stamps = now
        return min(self._moving)


def stamp(file: str) -> Stamp:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_size]
