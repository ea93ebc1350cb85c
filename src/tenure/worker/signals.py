"""The signals that stop a worker's process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

__all__ = ["handled"]


@contextlib.contextmanager
def handled(stop: Callable[[signal.Signals, bool], None]) -> Iterator[None]:
    """In this block TERM and INT call `stop` on the event loop, with whether it is an INT after another signal.

    Only the main thread gets signals; anywhere else this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def receive(signum: signal.Signals) -> None:
        stop(signum, bool(received) and signum is signal.SIGINT)
        received.append(signum)

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, receive, signum)
    try:
        yield
    finally:
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(signum)
