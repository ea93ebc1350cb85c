"""`WorkerLink`: a child's end of the socket to its worker.

Most children receive only the job to run. So no thread listens until the kernel announces a message by SIGIO: starting
a thread costs a short-lived process more than all else that it does.
"""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import fcntl
import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from time import monotonic

import msgspec

from tenure.core.job import Progress
from tenure.core.lease import AbortReason
from tenure.errors import StoreUnavailable
from tenure.worker.isolation.frames import TO_CHILD, Abort, Begin, Frames, Granted, Opening, ProgressUpdate, packed

__all__ = ["WorkerLink"]

PROGRESS_INTERVAL = 0.25
"""Seconds between two progress messages; the worker stores one a second."""

ORPHANED = 70
"""Exit status of a child whose worker is gone."""


class WorkerLink:
    """Sends from any thread, and receives on its own thread, which ends the process when the worker is gone.

    The handler of SIGIO must call `data_arrived`.
    """

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        self._frames = Frames(TO_CHILD)
        self._lock = threading.Lock()
        self.pid = os.getpid()
        self._main = threading.get_ident()
        self._granted: concurrent.futures.Future[str | None] | None = None
        self._progress: Progress | None = None
        self._progress_at = 0.0
        self.sending = False
        """Whether the main thread is sending. An interrupt at that moment would leave half a frame in the socket."""

        self._interrupted = False
        self._listening = False

    def begin(self) -> Begin:
        """Wait for the job."""
        while True:
            received = self._socket.recv(1 << 12)
            if not received:
                os._exit(ORPHANED)
            for frame in self._frames.cut(received):
                assert isinstance(frame, Begin)
                return frame

    def listen(self, aborted: Callable[[AbortReason], None]) -> None:
        """Receive messages from now on; `aborted` is called on another thread."""
        self._aborted = aborted
        own = self._socket.fileno()
        fcntl.fcntl(own, fcntl.F_SETOWN, self.pid)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_ASYNC)
        if select.select((own,), (), (), 0)[0]:
            self.data_arrived()  # it arrived before SIGIO was enabled

    def data_arrived(self) -> None:
        """Start the receiving thread, because a message has arrived or will soon. May be called by a signal handler."""
        if not self._listening and os.getpid() == self.pid:
            self._listening = True
            _thread.start_new_thread(self._listen, ())  # without a lock, which the interrupted thread may hold

    def send(self, frame: msgspec.Struct) -> None:
        """Send a message to the worker. Does nothing in a process that the job has forked."""
        if os.getpid() != self.pid:
            return
        message = packed(frame)
        main = threading.get_ident() == self._main
        if main:
            self.sending = True
        try:
            with self._lock:
                self._socket.sendall(message)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(ORPHANED)
        finally:
            if main:
                self.sending = False
                if self._interrupted:
                    self._interrupted = False
                    signal.raise_signal(signal.SIGTERM)

    def interrupt_later(self) -> None:
        """Repeat an interrupt that came while the main thread was sending, once it has sent."""
        self._interrupted = True

    def report_progress(self, progress: Progress) -> None:
        """Send the job's progress, at most four times a second."""
        self._progress = progress
        if monotonic() - self._progress_at >= PROGRESS_INTERVAL:
            self._send_progress()
        else:
            self.data_arrived()  # the receiving thread sends it later

    async def open(self) -> None:
        """Announce a transaction that may end the job, and wait until the worker is ready for it."""
        self._granted = concurrent.futures.Future()
        self.data_arrived()
        self.send(Opening())
        error = await asyncio.wrap_future(self._granted)
        if error is not None:
            raise StoreUnavailable(error)

    def _send_progress(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None:
            self._progress_at = monotonic()
            self.send(ProgressUpdate(progress))

    def _listen(self) -> None:
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        while True:
            if waiting.poll(PROGRESS_INTERVAL * 1000):
                received = self._socket.recv(1 << 16)
                if not received:
                    os._exit(ORPHANED)
                for frame in self._frames.cut(received):
                    match frame:
                        case Abort(reason):
                            self._aborted(reason)
                        case Granted(error):
                            if self._granted is not None and not self._granted.done():
                                self._granted.set_result(error)
            self._send_progress()
