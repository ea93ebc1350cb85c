"""WorkerProcesses: the worker processes of `tenure demo`, which are real, so that killing one is too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tenure.cli.demo.kinds import KINDS

__all__ = ["WorkerProcesses"]

COMMAND = [
    sys.executable, "-m", "tenure", "work", "tenure.cli.demo.tasks:app",
    "--queues", ",".join(kind.task for kind in KINDS), "--concurrency", "4",
]  # fmt: skip

STOP_WITHIN = 5.0
"""Seconds that a worker has to stop at the end of the demo before it is killed."""


class WorkerProcesses:
    """Starts workers with `tenure work`, each under a different name, and leaves none behind."""

    def __init__(self, url: str, folder: Path) -> None:
        self._environment = {**os.environ, "TENURE_URL": url}
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._reported: set[str] = set()
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self) -> str:
        """Start one more worker; returns its name in the registry."""
        self._started += 1
        name = f"demo-{self._started}"
        with self._log(name).open("wb") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - our own command, no shell
                [*COMMAND, "--id", name], env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return name

    def kill(self, name: str) -> int:
        """Kill a worker as a crash would; returns its process id."""
        process = self._running.pop(name)
        process.kill()
        process.wait()
        return process.pid

    def ended(self) -> list[tuple[str, str]]:
        """The workers that ended by themselves, each reported once, with the last line of its log."""
        names = [
            name for name, process in self._running.items() if process.poll() is not None and name not in self._reported
        ]
        self._reported.update(names)
        return [(name, self._log(name).read_text(errors="replace").strip().rpartition("\n")[2]) for name in names]

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
