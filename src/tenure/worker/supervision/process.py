"""`WorkerProcess`: the supervisor's side of one worker process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from tenure.worker.supervision.sources import Stamp
from tenure.worker.supervision.tether import JsonLines
from tenure.worker.vitals import VitalSigns

__all__ = ["WorkerProcess", "describe_exit"]

HELD_BACK = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
"""Signals that are blocked until a process has handlers: the first two would end it, and the third undoes the second.
"""

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class WorkerProcess:
    """A worker process, started by the constructor: what it has reported so far, and how it ended.

    It runs in a new session, so ^C in a terminal reaches only the supervisor, which passes it on. Its stdin is empty.
    """

    def __init__(self, command: Callable[[int], Sequence[str]]) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        with theirs, _held_back():
            self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                command(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.started_at = time.monotonic()
        self.exit_code: int | None = None
        """Exit code; negative for the signal that ended it; None while it runs."""

        self.has_handlers = False
        """Whether it has handlers for all signals."""

        self.ready = False
        """Whether it has imported the app."""

        self.registered = False
        """Whether it has ever registered."""

        self.url = ""
        """URL of its store. For a store that a function creates: the name of that function."""

        self.worker_id: str | None = None
        """Its worker id in the registry, now or soon."""

        self.refusal: str | None = None
        """Why it could not start; None if it did not say so."""

        self.trouble = ""
        """What keeps it from leasing jobs, by its last report; empty if it can."""

        self.vital_signs: VitalSigns | None = None
        """What it knows about itself, by its last report; None before the first."""

        self.last_message_at = self.started_at
        """When its last message arrived, on the monotonic clock."""

        self.tasks = ""
        """Names of the tasks that it knows, as text."""

        self.advice: list[tuple[str, str]] = []
        """Problems that it has reported and that are not logged yet: a key, and a sentence."""

        self.retired: list[str] = []
        """Ids of other workers that it has retired on request."""

        self.files: dict[str, Stamp] = {}
        """Source files that it has imported, if the supervisor watches them."""

        self._lines = JsonLines()

    def read_messages(self) -> bool:
        """Read its messages; False if no more can come."""
        while True:
            try:
                data = self.socket.recv(65536)
            except BlockingIOError:
                return True
            except OSError:
                data = b""
            if not data:
                return False
            try:
                for facts in self._lines.feed(data):
                    self._update(**facts)
            except (ValueError, TypeError):  # other code in its process has written to the socket
                return False

    def _update(
        self,
        *,
        hello: bool = False,
        ready: bool = False,
        url: str | None = None,
        id: str | None = None,  # noqa: A002 - the name in the message
        registered: bool = False,
        refused: str | None = None,
        trouble: str | None = None,
        vitals: Mapping[str, Any] | None = None,
        retired: str | None = None,
        tasks: str | None = None,
        advice: tuple[str, str] | None = None,
        files: Mapping[str, Stamp] = MappingProxyType({}),
    ) -> None:
        self.last_message_at = time.monotonic()
        self.has_handlers |= hello
        self.ready |= ready
        self.registered |= registered
        self.url = url or self.url
        self.worker_id = id or self.worker_id
        self.refusal = refused or self.refusal
        self.trouble = self.trouble if trouble is None else trouble
        self.vital_signs = self.vital_signs if vitals is None else msgspec.convert(vitals, VitalSigns)
        self.files = dict(files) or self.files
        self.tasks = tasks or self.tasks
        if advice is not None:
            about, sentence = advice
            self.advice.append((about, sentence))
        if retired is not None:
            self.retired.append(retired)

    def send_command(self, **command: object) -> None:
        """Send it a command. Ignored if the process no longer listens."""
        with contextlib.suppress(OSError):
            self.socket.send(JsonLines.line(**command))

    def send(self, signum: signal.Signals) -> None:
        """Send it a signal.

        While it has no handlers, every signal that stops it is sent as TERM, which ends it at once: it holds no jobs
        yet. Other signals would kill it and are not sent.
        """
        if self.exit_code is not None:
            return
        if not self.has_handlers and signum is not signal.SIGKILL:
            if signum not in STOPS:
                return
            signum = signal.SIGTERM
        os.kill(self.pid, signum)

    def ended(self, status: int) -> None:
        """Record its wait status, read its last messages and close its socket."""
        self.read_messages()
        self.socket.close()
        self.exit_code = self._process.returncode = os.waitstatus_to_exitcode(status)

    @property
    def age(self) -> float:
        return time.monotonic() - self.started_at

    def __str__(self) -> str:
        return f"process {self.pid}" if self.worker_id is None else f"process {self.pid} (worker {self.worker_id})"


@contextlib.contextmanager
def _held_back() -> Iterator[None]:
    """Start processes with these signals blocked, until `tenure.cli.early` has set handlers and unblocks them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def describe_exit(exit_code: int) -> str:
    """What ended a process, as a phrase."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"
