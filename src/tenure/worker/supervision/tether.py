"""The line between a worker process and its supervisor: facts go up, orders come down, and its end tells that the other is gone."""

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

from tenure.worker.supervision.sources import imported_files, stamp

__all__ = ["JsonLines", "Tether"]

SEND_TIMEOUT = 1
"""Seconds that a fact may wait for a supervisor that does not listen."""

REPORT_INTERVAL = 1.0
"""Seconds between facts that change by themselves."""

log = logging.getLogger("tenure.worker")


class JsonLines:
    """Bytes of a stream, cut into the JSON objects that its lines are."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The objects that these bytes have completed."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    @staticmethod
    def line(**facts: object) -> bytes:
        return json.dumps(facts).encode() + b"\n"


class Tether:
    """The worker's end: tells the supervisor who it is, and stops this process, as TERM does, once the supervisor is gone.

    Facts are `hello` (signals can be sent), `ready` (the app is imported), `url` (its store), `tasks` (those that it knows, in words), `id` (it will register under this
    name), `registered`, `refused` (why it cannot start), `advice` (what should be mended: what it is about, and a sentence), and if the supervisor wants to know, `files` (what it was imported
    from) and `trouble` (what keeps it from leasing jobs, every second). The one command is `retire`, answered by `retired`.
    """

    def __init__(self, fd: int, *, files: bool = False, health: bool = False) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)
        # Of the kernel, for sending alone: the thread that listens waits for ever.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT, 0))
        self._lock = threading.Lock()
        self._connected = True
        self._files: list[str] | None = [] if files else None
        self._health = health
        self._paused = False

    def send(self, **facts: object) -> None:
        """Say something to the supervisor. One that does not listen hears no more; if it is gone, `watch` sees to that."""
        with self._lock:
            if self._connected:
                try:
                    self._socket.sendall(JsonLines.line(**facts))
                except OSError:
                    self._connected = False  # half of a line may have gone: another one would not be understood

    def hello(self, early_signals: Sequence[int] = ()) -> None:
        """From here on signals find a handler, although there is no worker yet that could handle_signal them: it holds nothing.

        `early_signals` are signals that came before, to be sent again.
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
        """Say which source files have been imported, if they are watched, and these."""
        if self._files is not None and (files := sorted({*imported_files(), *more})) != self._files:
            self._files = files
            self.send(files={file: stamp(file) for file in files})

    def watch(self, retire: Callable[[str, str], object], trouble: Callable[[], str]) -> None:
        """Listen, in a thread, from now on; the worker's own handlers stand.

        `retire` is called there for another process that has died, where the supervisor cannot reach the store itself;
        `trouble` says what keeps the worker from leasing jobs.
        """
        if self._paused:
            os.kill(os.getpid(), signal.SIGUSR2)
        listening = threading.Thread(target=self._listen, args=(retire, trouble), name="tenure-tether", daemon=True)
        listening.start()

    def _pause(self, paused: bool) -> None:
        self._paused = paused

    def _listen(self, retire: Callable[[str, str], object], trouble: Callable[[], str]) -> None:
        lines = JsonLines()
        pause = REPORT_INTERVAL if self._health or self._files is not None else None
        while True:
            if not select.select([self._socket], [], [], pause)[0]:
                self.send_files()
                if self._health:
                    self.send(trouble=trouble())
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
        except Exception:  # the leases of the dead run out by themselves
            log.warning("could not retire worker %s", worker_id, exc_info=True)
        else:
            self.send(retired=worker_id)


def _pass(*_: object) -> None:
    """For signals that must not end a worker, and mean nothing to it. SIG_IGN would be inherited by what jobs start."""
