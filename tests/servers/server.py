"""One Redis or Valkey server under our control."""

from __future__ import annotations

import atexit
import contextlib
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import redis

from .binaries import redis_like

__all__ = ["Server", "free_port"]

PATIENCE = 20.0
"""Seconds until a server that should start or answer in a moment is taken never to do so."""


def free_port() -> int:
    """A port that nobody listens on, low enough for the port of a cluster's bus above it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port < 55000:
            return port


class Server:
    """A server of its own: started on a free port, killed and started again at will, ended with its test."""

    def __init__(self, folder: Path, *options: str, sentinel: Path | None = None) -> None:
        """`sentinel` is the configuration of a sentinel, which a sentinel must have and writes to."""
        self.folder = folder
        self.port = free_port()
        self._options = options
        self._sentinel = sentinel
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        atexit.register(self.kill)  # whatever becomes of the test

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Server:
        """Start it, and come back when it answers; again on the same port, if it has been killed."""
        for _ in range(5):  # somebody else may have taken the port meanwhile
            self.launch()
            if self._answers():
                return self
            self.port = free_port()
        raise AssertionError(f"{redis_like()} does not start: {(self.folder / 'log').read_text()[-2000:]}")

    def launch(self, *options: str) -> None:
        """Start it, and do not wait."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [redis_like(), *self._arguments(), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def do(self, *words: str | bytes | float) -> Any:
        """Have it do a command, over a connection of its own."""
        with self.client() as client:
            return client.execute_command(*words)

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, protocol=2, socket_timeout=PATIENCE)

    def kill(self) -> None:
        """End it as a power cut would end it, and come back when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)

    def _arguments(self) -> list[str]:
        here = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        if self._sentinel is not None:
            return [str(self._sentinel), "--sentinel", *here, *self._options]
        return [*here, "--save", "", "--appendonly", "no", *self._options]

    def _send(self, signum: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(signum)

    def _answers(self) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(redis.RedisError), self.client() as client:
                # While it finds that somebody else has the port, that one may answer.
                if client.info("server")["process_id"] == self._process.pid:
                    return True
            time.sleep(0.01)
        return False
