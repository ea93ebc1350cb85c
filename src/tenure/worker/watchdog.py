"""`Watchdog`: a thread that receives the process's signals, and ends a process that should stop and does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from signal import Signals
from time import monotonic
from types import TracebackType
from typing import Protocol, Self

from tenure.core.loops import call_soon
from tenure.core.options import WorkerOptions
from tenure.worker.signals import SignalCatcher
from tenure.worker.stopping import Stop, WorkerCommand, action_for

__all__ = ["Watchdog"]

MOVES_WITHIN = 0.5
"""Seconds within which an event loop that is not blocked runs a callback."""

SHUTDOWN_TIMEOUT = 5.0
"""Seconds that a worker has after its jobs' time is over: to release them, leave the registry and close connections."""

CHECK_INTERVAL = 1.0
"""Seconds between checks of whether a job has replaced the worker's signal handlers."""

NEVER = float("inf")


class Watched(Protocol):
    """What a `Watchdog` watches: a worker."""

    @property
    def ended(self) -> bool:
        """Whether it has stopped, and only its process is left."""

    def handle_signal(self, signum: Signals, action: Stop | WorkerCommand) -> None:
        """Act on a signal; called on the event loop."""

    def handlers_restored(self, signums: Sequence[Signals]) -> None:
        """Called on the event loop after handlers were replaced and have been reinstalled."""

    def stop_all_jobs(self) -> None:
        """Abort all running jobs; from any thread."""

    def abandon(self) -> None:
        """Release all jobs, leave the registry, and end the process; from any thread."""


class Watchdog:
    """Passes each signal to the event loop, and measures the time itself, because a loop that a job has blocked can do
    neither.

    It needs the interpreter now and then, so it is helpless against a C call that holds the GIL for minutes.
    """

    def __init__(self, signals: SignalCatcher, options: WorkerOptions, watched: Watched) -> None:
        self._signals = signals
        self._options = options
        self._watched = watched
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tenure-signals", daemon=True)
        self._stop_requested_at: float | None = None
        self._stop_jobs_at = self._abandon_at = NEVER

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Start; call on the event loop. Signals that came before are handled first."""
        if self._signals.active:
            self._loop = asyncio.get_running_loop()
            self._signals.claim_wakeup_fd()
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._closed.set()
            self._signals.interrupt()
            self._thread.join()

    def _watch(self) -> None:
        while True:
            for signum in self._signals.wait(
                min(self._stop_jobs_at, self._abandon_at, monotonic() + CHECK_INTERVAL) - monotonic()
            ):
                self._on_signal(signum, monotonic())
            if self._signals.replaced():
                call_soon(self._loop, self._reinstall)
            # The handlers of other signals run on the main thread, which may be asleep in its event loop.
            call_soon(self._loop, _nothing)
            if self._closed.is_set():
                return
            if self._stop_jobs_at <= monotonic():
                self._stop_jobs_at = NEVER
                if not self._moves():
                    self._watched.stop_all_jobs()
            if self._abandon_at <= monotonic():
                self._abandon_at = NEVER
                if not self._moves() or not self._closed.wait(
                    MOVES_WITHIN if self._watched.ended else SHUTDOWN_TIMEOUT
                ):
                    self._watched.abandon()

    def _reinstall(self) -> None:
        if not self._closed.is_set() and (replaced := self._signals.reinstall()):
            self._watched.handlers_restored(replaced)

    def _on_signal(self, signum: Signals, now: float) -> None:
        stop = action_for(
            signum, self._options, None if self._stop_requested_at is None else now - self._stop_requested_at
        )
        call_soon(self._loop, self._watched.handle_signal, signum, stop)
        if isinstance(stop, Stop) and stop.finish is not None:
            self._stop_requested_at = now if self._stop_requested_at is None else self._stop_requested_at
            self._stop_jobs_at = min(self._stop_jobs_at, now + stop.finish)
            self._abandon_at = min(self._abandon_at, now + stop.finish + stop.clean_up)

    def _moves(self) -> bool:
        """Whether the event loop runs a callback in time, or has been closed."""
        moved = threading.Event()
        return not call_soon(self._loop, moved.set) or moved.wait(MOVES_WITHIN)


def _nothing() -> None: ...
