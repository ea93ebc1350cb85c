"""One worker process, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from tenure.worker.supervision.sources import Stamp
from tenure.worker.supervision.tether import JsonLines

__all__ = ["WorkerProcess", "describe_exit"]

HELD_BACK = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
"""Signals that a process is not to get before it has handlers: two would end it, and the third takes back the second."""

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class WorkerProcess:
    """Started when it is made; what it has told so far; and how it ended.

    It is in a session of its own: a terminal's ^C reaches the supervisor alone, which passes it on. Its stdin is empty.
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
        """Negative for the signal that ended it; None while it lives."""

        self.has_handlers = False
        """Whether every signal finds a handler."""

        self.ready = False
        """Whether it has imported the app."""

        self.registered = False
        """Whether it has been in the registry, ever."""

        self.url = ""
        """Of the store that it works on; of one that a function makes, only who makes it."""

        self.worker_id: str | None = None
        """Its name in the registry, now or soon."""

        self.refusal: str | None = None
        """Why it could not start."""

        self.trouble = ""
        """What keeps it from leasing jobs, when it was last asked; empty if nothing does."""

        self.last_message_at = self.started_at
        """When it has last told anything."""

        self.tasks = ""
        """Those that it knows, in words."""

        self.advice: list[tuple[str, str]] = []
        """What it says should be mended, and has not been logged: what it is about, and a sentence."""

        self.retired: list[str] = []
        """Other workers that it has retired, on command."""

        self.files: dict[str, Stamp] = {}
        """What it was imported from, if the supervisor wants to know."""

        self._lines = JsonLines()

    def read_messages(self) -> bool:
        """Take in what it has told; False if there is nothing more to come."""
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
            except (ValueError, TypeError):  # somebody else in its process has written there
                return False

    def _update(
        self,
        *,
        hello: bool = False,
        ready: bool = False,
        url: str | None = None,
        id: str | None = None,  # noqa: A002 - as it is told
        registered: bool = False,
        refused: str | None = None,
        trouble: str | None = None,
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
        self.files = dict(files) or self.files
        self.tasks = tasks or self.tasks
        if advice is not None:
            about, sentence = advice
            self.advice.append((about, sentence))
        if retired is not None:
            self.retired.append(retired)

    def send_command(self, **command: object) -> None:
        """Tell it to do something; if it does not listen, nobody hears."""
        with contextlib.suppress(OSError):
            self.socket.send(JsonLines.line(**command))

    def send(self, signum: signal.Signals) -> None:
        """Pass on a signal.

        While it has no handlers one that stops is TERM, which ends it, for it holds nothing; any other would kill it, and
        is not sent.
        """
        if self.exit_code is not None:
            return
        if not self.has_handlers and signum is not signal.SIGKILL:
            if signum not in STOPS:
                return
            signum = signal.SIGTERM
        os.kill(self.pid, signum)

    def ended(self, status: int) -> None:
        """It was waited for, with this status: read_messages its last words, and let go of it."""
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
    """Start processes in which signals wait that would end them, until `tenure.cli.early` has set handlers and lets them in."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def describe_exit(exit_code: int) -> str:
    """What ended a process, in words."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"
