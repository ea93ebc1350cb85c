"""What the command line says beside its answers, on stderr."""

from __future__ import annotations

from typing import IO, Any

import click

from tenure.core.escape import escaped

__all__ = ["CommandError", "print_message"]


class CommandError(click.ClickException):
    """What was asked for cannot be done: one sentence on stderr, exit code 2, no traceback."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002
        print_message(self.message)


def print_message(message: str) -> None:
    """Say one line, whatever is in it."""
    click.echo(f"tenure: {escaped(message)}", err=True)
