"""The signals of a worker's process, signals from before it has an event loop until it has none any more."""

from __future__ import annotations

import os
import signal
import socket
import threading
from signal import Signals
from types import FrameType
from typing import Self

__all__ = ["HANDLED_SIGNALS", "SignalCatcher"]

HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)


class SignalCatcher:
    """In this block the signals lie in a pipe, where a thread finds them; the handlers do nothing else.

    It is filled by the interpreter's own handler in C, so that a signal is not missed while the main thread is blocked in a call
    that knows nothing of Python. Only the main thread gets signals; active else the block changes nothing.
    """

    def __init__(self) -> None:
        self.active = threading.current_thread() is threading.main_thread()
        """Whether signals are signals at all."""

        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._before: dict[Signals, object] = {}
        self._fd_before = -1

    def __enter__(self) -> Self:
        if self.active:
            _installed.append(self)
            # The pipe first: a signal that met a handler without it would be lost.
            self._fd_before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
            self._before = {signum: signal.signal(signum, self._handle) for signum in HANDLED_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()
        self._read.close()
        self._write.close()

    def restore(self) -> None:
        """Leave the signals as they were found."""
        if self in _installed:
            _installed.remove(self)
            signal.set_wakeup_fd(self._fd_before)
            for signum, handler in self._before.items():
                signal.signal(signum, handler)  # type: ignore[arg-type]

    def claim_wakeup_fd(self) -> None:
        """Fill the pipe again, on the main thread: an event loop that begins may have replaced the signals for itself."""
        if self.active:
            signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)

    def replaced(self) -> list[Signals]:
        """The signals whose handlers something has replaced so that they reach no one; from any thread.

        A function in the place of ours does no harm: the interpreter fills the pipe all the same.
        """
        return [signum for signum in HANDLED_SIGNALS if signal.getsignal(signum) in (signal.SIG_IGN, signal.SIG_DFL)]

    def reinstall(self) -> list[Signals]:
        """Handle such signals again, on the main thread; returns them."""
        replaced = self.replaced()
        for signum in replaced:
            signal.signal(signum, self._handle)
        return replaced

    def wait(self, timeout: float) -> list[Signals]:
        """Wait for signals, in one thread, and so many seconds at most (which may be infinite); those that came."""
        self._read.settimeout(None if timeout == float("inf") else max(timeout, 0.001))
        try:
            return [signum for byte in self._read.recv(4096) if (signum := _handled(byte)) is not None]
        except TimeoutError:
            return []

    def interrupt(self) -> None:
        """Have the wait end, from any thread."""
        self._write.send(b"\0")

    def _handle(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        # What runs on this thread may have replaced the pipe's place without telling: then the byte is not there yet.
        replaced_by = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        if replaced_by != self._write.fileno():
            signal.set_wakeup_fd(replaced_by, warn_on_full_buffer=False)
            self._write.send(bytes([signum]))


_installed: list[SignalCatcher] = []


def _handled(byte: int) -> Signals | None:
    return Signals(byte) if byte in HANDLED_SIGNALS else None


# A signal that finds a forked child with the handlers of its parent would be the parent's: until it has its own, none gets in.


def _before_fork() -> None:
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS) if _installed else None


def _after_fork() -> None:
    if _forking.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _in_the_child() -> None:
    for signals in reversed(_installed):
        signals.restore()
    _after_fork()


_forking = threading.local()
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_the_child)
