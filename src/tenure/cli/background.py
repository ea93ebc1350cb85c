"""Going on in the background, once it is clear that there is something to go on with."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import NoReturn, Self

import click

from tenure.cli.messages import CommandError, print_message
from tenure.errors import TenureError

__all__ = ["Background"]


class Background:
    """The process from here on, detached from its terminal; the one that was started stays until it has `begun`, and tells how that went.

    stdin is empty from here on; stdout and stderr go nowhere if they were a terminal, and stay where they went otherwise. What
    this process itself writes to stderr before it has begun still reaches the terminal.
    """

    def __init__(self) -> None:
        reader, self._pipe = os.pipe()
        if os.fork():
            os.close(self._pipe)
            _report(reader)
        os.setsid()
        if os.fork():  # no leader of a session, no terminal ever again
            os._exit(0)
        os.close(reader)
        self._stderr = os.dup(2)
        sys.stderr = os.fdopen(self._stderr, "w", buffering=1)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            if stream == 0 or os.isatty(stream):
                os.dup2(nowhere, stream)
        os.close(nowhere)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        match error:
            case click.ClickException() | click.exceptions.Exit():
                code = error.exit_code
            case TenureError():
                code = CommandError.exit_code
            case SystemExit():
                code = error.code if isinstance(error.code, int) else 1
            case _:
                code = 0 if error is None else 1
        self._send(str(code))

    def report_started(self) -> None:
        """Let the one who waits go."""
        self._send(f"0 {os.getpid()}")
        os.dup2(2, self._stderr)
        os.close(self._pipe)
        self._pipe = -1

    def _send(self, message: str) -> None:
        if self._pipe >= 0:
            os.write(self._pipe, message.encode())


def _report(reader: int) -> NoReturn:
    """Wait until the process in the background has begun or ended, and end as it did."""
    with os.fdopen(reader) as stream:
        code, *pid = stream.read().split() or ["1"]
    if pid:
        print_message(f"process {pid[0]} goes on in the background")
    sys.exit(int(code))
