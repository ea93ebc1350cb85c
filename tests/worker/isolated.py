"""A program whose worker runs isolated jobs: `python -m tests.worker.isolated FOLDER [graceful]`; the store is in the folder too."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
from pathlib import Path

from tenure import App

__all__ = ["app_in", "deaf", "patient"]


def app_in(folder: Path) -> App:
    return App(f"sqlite:///{folder}/jobs.db", retry=None)


def begin(folder: str) -> None:
    """Tell who runs."""
    (Path(folder) / "new").write_text(f"{os.getpid()} {os.getppid()}")
    (Path(folder) / "new").rename(Path(folder) / "pids")


def deaf(folder: str) -> None:
    """Neither hears nor lets others speak."""
    begin(folder)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).sleep(60)


def patient(folder: str) -> str:
    """Waits until it may end."""
    begin(folder)
    while not (Path(folder) / "end").exists():
        time.sleep(0.01)
    return "ended well"


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)  # by which tests see that a signal was heard
    app = app_in(Path(sys.argv[1]))
    for function in (deaf, patient):
        app.task(isolation="process")(function)
    sys.exit(app.worker(graceful_term="graceful" in sys.argv).run())
