"""Background: detaches a process from its terminal; its parent waits until it has started or failed."""

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
    """Forks. The child continues without its terminal; the parent waits until it has started or ended, and exits.

    stdin becomes empty. stdout and stderr are discarded if they were a terminal, and unchanged otherwise. What this process
    writes to `sys.stderr` before `report_started` still reaches the terminal.
    """

    def __init__(self) -> None:
        reader, self._pipe = os.pipe()
        if os.fork():
            os.close(self._pipe)
            _report(reader)
        os.setsid()
        if os.fork():  # only the leader of a session can get a terminal again, and the child is none
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
        """Let the parent exit with code 0."""
        self._send(f"0 {os.getpid()}")
        os.dup2(2, self._stderr)
        os.close(self._pipe)
        self._pipe = -1

    def _send(self, message: str) -> None:
        if self._pipe >= 0:
            os.write(self._pipe, message.encode())


def _report(reader: int) -> NoReturn:
    """Wait until the process in the background has started or ended, and exit with its code."""
    with os.fdopen(reader) as stream:
        code, *pid = stream.read().split() or ["1"]
    if pid:
        print_message(f"process {pid[0]} continues in the background")
    sys.exit(int(code))
