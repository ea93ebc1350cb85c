"""The thread that hears a process's signals, and ends a process that was told to stop and does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from signal import Signals
from time import monotonic
from types import TracebackType
from typing import Protocol, Self

from tenure.core.options import WorkerOptions
from tenure.worker.signals import Caught
from tenure.worker.stopping import Command, Stop, asked

__all__ = ["Watchdog"]

MOVES_WITHIN = 0.5
"""Seconds in which an event loop that is not blocked gets to a call."""

LAST_STEPS = 5.0
"""Seconds that a worker may need after its jobs' time is over: to release them, to leave the registry, to close connections."""

LOOK = 1.0
"""Seconds between looks whether a job has taken the signals from the worker."""

NEVER = float("inf")


class Watched(Protocol):
    """What it watches."""

    @property
    def ended(self) -> bool:
        """Whether it holds nothing any more, and only its process goes on."""

    def heed(self, signum: Signals, asked: Stop | Command) -> None:
        """Do what a signal has asked; on the event loop."""

    def deafened(self, signums: Sequence[Signals]) -> None:
        """Hear that these signals were taken from it, and that it has them back; on the event loop."""

    def tell_all(self) -> None:
        """Tell all running jobs to stop; from any thread."""

    def abandon(self) -> None:
        """Release what is held, leave the registry, and end the process; from any thread."""


class Watchdog:
    """Hands each signal to the event loop, and keeps the time itself: a loop that a job has blocked can do neither.

    It needs the interpreter now and then: against a call into C that keeps the lock for minutes it can do nothing.
    """

    def __init__(self, caught: Caught, options: WorkerOptions, watched: Watched) -> None:
        self._caught = caught
        self._options = options
        self._watched = watched
        self._called_off = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tenure-signals", daemon=True)
        self._told_at: float | None = None
        self._tell_at = self._end_at = NEVER

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Begin, on the event loop; signals that came before are heard first."""
        if self._caught.anywhere:
            self._loop = asyncio.get_running_loop()
            self._caught.claim()
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._called_off.set()
            self._caught.interrupt()
            self._thread.join()

    def _watch(self) -> None:
        while True:
            for signum in self._caught.wait(min(self._tell_at, self._end_at, monotonic() + LOOK) - monotonic()):
                self._hear(signum, monotonic())
            if self._caught.taken():
                self._on_loop(self._take_back)
            # The handlers of other signals run on the main thread, which may be asleep in its event loop.
            self._on_loop(_nothing)
            if self._called_off.is_set():
                return
            if self._tell_at <= monotonic():
                self._tell_at = NEVER
                if not self._moves():
                    self._watched.tell_all()
            if self._end_at <= monotonic():
                self._end_at = NEVER
                if not self._moves() or not self._called_off.wait(MOVES_WITHIN if self._watched.ended else LAST_STEPS):
                    self._watched.abandon()

    def _take_back(self) -> None:
        if not self._called_off.is_set() and (taken := self._caught.take_back()):
            self._watched.deafened(taken)

    def _hear(self, signum: Signals, now: float) -> None:
        stop = asked(signum, self._options, None if self._told_at is None else now - self._told_at)
        self._on_loop(self._watched.heed, signum, stop)
        if isinstance(stop, Stop) and stop.finish is not None:
            self._told_at = now if self._told_at is None else self._told_at
            self._tell_at = min(self._tell_at, now + stop.finish)
            self._end_at = min(self._end_at, now + stop.finish + stop.clean_up)

    def _moves(self) -> bool:
        """Whether the event loop gets to a call, or has been closed."""
        moved = threading.Event()
        return not self._on_loop(moved.set) or moved.wait(MOVES_WITHIN)

    def _on_loop(self, callback: Callable[..., object], *args: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return False  # it is closed: the worker has ended
        return True


def _nothing() -> None: ...
