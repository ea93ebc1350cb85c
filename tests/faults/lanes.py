"""The same tasks in every lane of a worker: on its event loop, in its threads, in processes of their own (plain and async ones)."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

from tenure import App, Context
from tenure.errors import Aborted

__all__ = ["LANES", "Notes", "register"]

LANES = ("async", "thread", "process", "process_async")

FOREVER = 3600.0

LEASE = 5
"""Seconds, for jobs that must be lost as often as they are told to and not once more, however busy the machine is."""


class Notes:
    """What jobs tell of themselves, in a file: name, word and when, a line in one write."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder) / "notes"

    def add(self, name: str, word: str) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(f"{name} {word} {time.monotonic()}\n".encode())

    def read(self) -> dict[str, dict[str, float]]:
        """When each job told each of its words."""
        told: dict[str, dict[str, float]] = {}
        # Of a line that crosses from one page of the file to the next, a reader may see the first half alone.
        for line in self._path.read_text().split("\n")[:-1] if self._path.exists() else ():
            name, word, at = line.split()
            told.setdefault(name, {})[word] = float(at)
        return told


def register(app: App, folder: str | os.PathLike[str]) -> None:
    """Add tasks that hold on until they are told to stop, note why, and give something that nobody should take.

    Run again they give `fresh`, once the first run has told why it stopped.
    """
    notes = Notes(folder)

    def again(name: str) -> bool:
        if name in notes.read():
            return True
        notes.add(name, "started")
        return False

    def stopped(name: str) -> bool:
        return len(notes.read()[name]) > 1

    def stale(ctx: Context, name: str, gives: str) -> str:
        notes.add(name, str(ctx.signal.reason))
        if gives == "raises":
            raise ValueError("stale")
        return "stale"

    async def on_loop(ctx: Context, name: str, gives: str) -> str:
        if again(name):
            while not stopped(name):
                await asyncio.sleep(0.01)
            return "fresh"
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(FOREVER)
        return stale(ctx, name, gives)

    def in_thread(ctx: Context, name: str, gives: str) -> str:
        if again(name):
            while not stopped(name):
                time.sleep(0.01)
            return "fresh"
        ctx.signal.wait_blocking(FOREVER)
        return stale(ctx, name, gives)

    def in_process(ctx: Context, name: str, gives: str) -> str:
        if again(name):
            while not stopped(name):
                time.sleep(0.01)
            return "fresh"
        with contextlib.suppress(Aborted):
            time.sleep(FOREVER)
        return stale(ctx, name, gives)

    app.task(name="hold.async", lease=LEASE)(on_loop)
    app.task(name="hold.thread", lease=LEASE)(in_thread)
    app.task(name="hold.process", lease=LEASE, isolation="process")(in_process)
    app.task(name="hold.process_async", lease=LEASE, isolation="process")(on_loop)
    app.task(name="brief.async", timeout=2, retry=None, lease=LEASE)(on_loop)
    app.task(name="brief.thread", timeout=2, retry=None, lease=LEASE)(in_thread)
    app.task(name="brief.process", timeout=2, retry=None, lease=LEASE, isolation="process")(in_process)
    app.task(name="brief.process_async", timeout=2, retry=None, lease=LEASE, isolation="process")(on_loop)

    def deaf(ctx: Context, seconds: float) -> str:
        if ctx.job.losses == 0:
            hold_the_interpreter(seconds)
        return str(os.getpid())

    async def deaf_on_loop(ctx: Context, seconds: float) -> str:
        return deaf(ctx, seconds)

    async def doze_on_loop(seconds: float) -> None:
        await asyncio.sleep(seconds)

    def doze(seconds: float) -> None:
        time.sleep(seconds)

    app.task(name="deaf.async")(deaf_on_loop)
    app.task(name="deaf.thread")(deaf)
    app.task(name="deaf.process", isolation="process")(deaf)
    # However often they are interrupted, they are to end well.
    app.task(name="doze.async", max_attempts=None, max_losses=None)(doze_on_loop)
    app.task(name="doze.thread", max_attempts=None, max_losses=None)(doze)
    app.task(name="doze.process", max_attempts=None, max_losses=None, isolation="process")(doze)


def hold_the_interpreter(seconds: float) -> None:
    """A C call that keeps every other thread of the process from running Python, and that no signal cuts short."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
