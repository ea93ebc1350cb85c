"""`Tether`: connects a worker process to its supervisor, and stops it when the supervisor is gone."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tenure.worker.supervision.sources import imported_files, stamp
from tenure.worker.vitals import VitalSigns

__all__ = ["JsonLines", "Tether"]

SEND_TIMEOUT = 1
"""Seconds that sending may take if the supervisor does not read."""

REPORT_INTERVAL = 1.0
"""Seconds between reports of `trouble` and `files`."""

log = logging.getLogger("tenure.worker")


class JsonLines:
    """Splits a byte stream into JSON objects, one a line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The objects completed by these bytes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    @staticmethod
    def line(**facts: object) -> bytes:
        return json.dumps(facts).encode() + b"\n"


class Tether:
    """The worker's end: reports to the supervisor, and stops this process, as TERM does, when the supervisor is gone.

    The worker sends `hello` (it has signal handlers), `ready` (the app is imported), `url` (of its store), `tasks`
    (names of the tasks that it knows), `id` (its worker id, before it registers), `registered`, `refused` (why it
    cannot start) and `advice` (a problem to fix: a key, and a sentence). On request it sends `files` (source files that
    it has imported), `trouble` (what keeps it from leasing jobs) and `vitals` (see `VitalSigns`), the latter two every
    second. The only command from the supervisor is `retire`, answered by `retired`.
    """

    def __init__(self, fd: int, *, files: bool = False, health: bool = False) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)
        # A timeout of the kernel, for sending only: the thread that listens waits for ever.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT, 0))
        self._lock = threading.Lock()
        self._connected = True
        self._files: list[str] | None = [] if files else None
        self._health = health
        self._paused = False

    def send(self, **facts: object) -> None:
        """Send a message to the supervisor.

        After a failure nothing more is sent; if the supervisor is gone, `watch` stops the process.
        """
        with self._lock:
            if self._connected:
                try:
                    self._socket.sendall(JsonLines.line(**facts))
                except OSError:
                    self._connected = False  # half a line may have been sent, so the next one could not be parsed

    def hello(self, early_signals: Sequence[int] = ()) -> None:
        """Install signal handlers for the time before there is a worker, which holds no jobs yet.

        `early_signals` arrived before and are sent again.
        """
        signal.signal(signal.SIGQUIT, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        signal.signal(signal.SIGHUP, _pass)
        signal.signal(signal.SIGUSR1, _pass)
        signal.signal(signal.SIGUSR2, lambda *_: self._pause(True))
        signal.signal(signal.SIGCONT, lambda *_: self._pause(False))
        for early in early_signals:
            os.kill(os.getpid(), early)
        self.send(hello=True)

    def send_files(self, *more: str) -> None:
        """Send the names of the imported source files, and of `more`, if the supervisor watches them."""
        if self._files is not None and (files := sorted({*imported_files(), *more})) != self._files:
            self._files = files
            self.send(files={file: stamp(file) for file in files})

    def watch(
        self,
        retire: Callable[[str, str], object],
        trouble: Callable[[], str],
        vital_signs: Callable[[], VitalSigns | None],
    ) -> None:
        """Listen on a thread from now on. The worker's own signal handlers are installed by now.

        `retire` is called there for another process that has died, if the supervisor cannot reach the store itself.
        `trouble` returns what keeps the worker from leasing jobs, `vital_signs` what is shown as its metrics.
        """
        if self._paused:
            os.kill(os.getpid(), signal.SIGUSR2)
        listening = threading.Thread(
            target=self._listen, args=(retire, trouble, vital_signs), name="tenure-tether", daemon=True
        )
        listening.start()

    def _pause(self, paused: bool) -> None:
        self._paused = paused

    def _listen(
        self,
        retire: Callable[[str, str], object],
        trouble: Callable[[], str],
        vital_signs: Callable[[], VitalSigns | None],
    ) -> None:
        lines = JsonLines()
        pause = REPORT_INTERVAL if self._health or self._files is not None else None
        while True:
            if not select.select([self._socket], [], [], pause)[0]:
                self.send_files()
                if self._health:
                    self.send(trouble=trouble(), vitals=msgspec.to_builtins(vital_signs()))
                continue
            try:
                data = self._socket.recv(65536)
            except OSError:
                data = b""
            if not data:
                break
            for command in lines.feed(data):
                self._execute(command, retire)
        log.warning("the supervisor is gone: the worker stops")
        os.kill(os.getpid(), signal.SIGTERM)

    def _execute(self, command: dict[str, Any], retire: Callable[[str, str], object]) -> None:
        worker_id, reason = command["retire"]
        try:
            retire(worker_id, reason)
        except Exception:  # the dead worker's leases end by themselves
            log.warning("could not retire worker %s", worker_id, exc_info=True)
        else:
            self.send(retired=worker_id)


def _pass(*_: object) -> None:
    """Handler of signals that must not end a worker and mean nothing to it.

    SIG_IGN would be inherited by programs that jobs start.
    """
