"""`Terminal`: the alternate screen and the keys of `tenure top`, which it leaves as they were however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.live import Live

from tenure.cli.top.keys import Keyboard

if TYPE_CHECKING:
    from rich.console import Console

    from tenure.cli.top.frame import Frame

__all__ = ["Terminal"]


class Terminal:
    """Shows frames on the alternate screen, and calls `pressed` with each key.

    `end` is called with a signal that asks the program to end, and with 0 if the terminal is gone; `redraw` is called when
    the screen has another size, or is there again after a stop.
    """

    def __init__(
        self, console: Console, pressed: Callable[[str], None], end: Callable[[int], None], redraw: Callable[[], None]
    ) -> None:
        self._console = console
        self._end = end
        self._redraw = redraw
        self._live = Live(
            console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._keyboard = Keyboard(sys.stdin.fileno(), pressed, lambda: end(0))

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.size

    def show(self, frame: Frame) -> None:
        self._live.update(frame, refresh=True)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Take the terminal over, and the signals that are about it, until the end of the block."""
        loop = asyncio.get_running_loop()
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for signum in ends:
            loop.add_signal_handler(signum, self._end, signum)
        loop.add_signal_handler(signal.SIGWINCH, self._redraw)
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        loop.add_signal_handler(signal.SIGCONT, self._go_on)
        try:
            self._open()
            yield
        finally:
            self._close()
            for signum in (*ends, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT):
                loop.remove_signal_handler(signum)

    def _open(self) -> None:
        self._keyboard.open()
        self._live.start()

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            self._live.stop()
        self._keyboard.close()

    def _stop(self) -> None:
        """Give the terminal back, stop as any program does at Ctrl-Z, and take it over again at `fg`."""
        loop = asyncio.get_running_loop()
        self._close()
        loop.remove_signal_handler(signal.SIGTSTP)
        signal.raise_signal(signal.SIGTSTP)  # returns when the program goes on
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        self._open()
        self._redraw()

    def _go_on(self) -> None:
        """Take the terminal over again, because the shell has set it otherwise while the program was stopped by SIGSTOP."""
        self._close()
        self._open()
        self._redraw()
