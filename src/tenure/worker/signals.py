"""`SignalCatcher`: catches the signals of a worker's process and passes them to a thread."""

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
    """Within this block, signals are written to a pipe from which a thread reads them. The handlers do nothing else.

    The interpreter's own C handler writes to the pipe, so no signal is missed while the main thread is blocked in a C
    call. Only the main thread receives signals; on any other thread the block changes nothing.
    """

    def __init__(self) -> None:
        self.active = threading.current_thread() is threading.main_thread()
        """Whether signals are caught: only if it was created on the main thread."""

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
        """Restore the signal handlers as they were before."""
        if self in _installed:
            _installed.remove(self)
            signal.set_wakeup_fd(self._fd_before)
            for signum, handler in self._before.items():
                signal.signal(signum, handler)  # type: ignore[arg-type]

    def claim_wakeup_fd(self) -> None:
        """Make the interpreter write to this pipe again; call on the main thread.

        A new event loop may have taken the wakeup fd for itself.
        """
        if self.active:
            signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)

    def replaced(self) -> list[Signals]:
        """The signals whose handlers were replaced by SIG_IGN or SIG_DFL, so that they are lost.

        May be called from any thread.

        A function in place of ours does no harm, because the interpreter still writes to the pipe.
        """
        return [signum for signum in HANDLED_SIGNALS if signal.getsignal(signum) in (signal.SIG_IGN, signal.SIG_DFL)]

    def reinstall(self) -> list[Signals]:
        """Reinstall the handlers of such signals and return those signals; call on the main thread."""
        replaced = self.replaced()
        for signum in replaced:
            signal.signal(signum, self._handle)
        return replaced

    def wait(self, timeout: float) -> list[Signals]:
        """Wait for signals for at most `timeout` seconds, which may be infinite, and return them.

        Call from one thread only.
        """
        self._read.settimeout(None if timeout == float("inf") else max(timeout, 0.001))
        try:
            return [signum for byte in self._read.recv(4096) if (signum := _handled(byte)) is not None]
        except TimeoutError:
            return []

    def interrupt(self) -> None:
        """End the wait; may be called from any thread."""
        self._write.send(b"\0")

    def _handle(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        # Code on this thread may have set its own wakeup fd. Then the byte is not in the pipe yet.
        replaced_by = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        if replaced_by != self._write.fileno():
            signal.set_wakeup_fd(replaced_by, warn_on_full_buffer=False)
            self._write.send(bytes([signum]))


_installed: list[SignalCatcher] = []


def _handled(byte: int) -> Signals | None:
    return Signals(byte) if byte in HANDLED_SIGNALS else None


# A signal that reached a forked child while it has its parent's handlers would go to the parent's pipe. So signals are
# blocked until the child has its own handlers.


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
